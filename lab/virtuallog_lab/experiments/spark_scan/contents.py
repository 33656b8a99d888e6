"""Entries that the scan appends, and the result that every reader must find: count, bytes and
checksum.

Payloads are text of random hexadecimal digits, which Parquet's compression halves, as it may do with ids and numbers. The checksum is
the sum of the CRC32 of each payload: any reader can work it out in any order and in parts, and Spark has it in SQL. A payload that is
missing, there twice, or damaged changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import attrs
import numpy as np
import trio

from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError

BATCH: Final = 250
"""Entries of a batch, as in a log that some hundred clients append to; it divides the sizes that are measured."""
SESSIONS: Final = 4
OUTSTANDING: Final = 16
"""Batches under way in each session: loading shall not take long, its speed is measured elsewhere."""
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


@attrs.frozen
class Contents:
    """Found or expected contents."""

    count: int = 0
    bytes: int = 0
    checksum: int = 0

    def __add__(self, other: Contents) -> Contents:
        return Contents(self.count + other.count, self.bytes + other.bytes, self.checksum + other.checksum)

    def __str__(self) -> str:
        return f"{self.count:,} entries of {self.bytes:,} bytes, checksum {self.checksum:x}"


def contents_of(payloads: Iterable[bytes]) -> Contents:
    """Contents of these payloads, one after the other."""
    count = size = checksum = 0
    for payload in payloads:
        count += 1
        size += len(payload)
        checksum += crc32(payload)
    return Contents(count, size, checksum)


def make_payloads(number: int, size: int) -> list[bytes]:
    """Payloads of a batch; the same for the same number."""
    text = _DIGITS[np.random.default_rng(number).integers(0, 16, BATCH * size, dtype=np.uint8)].tobytes()
    return [text[start : start + size] for start in range(0, BATCH * size, size)]


@attrs.define(eq=False)
class Loaded:
    """A log that has been filled."""

    parts: dict[int, Contents] = attrs.field(factory=dict)
    """Contents of each batch, by its first position."""

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts.values())

    def prefixes(self, sizes: Sequence[int]) -> dict[int, Contents]:
        """Contents of the first so many entries, for multiples of BATCH."""
        found, total = dict[int, Contents](), Contents()
        for position in sorted(self.parts):
            total += self.parts[position]
            if total.count in sizes:
                found[total.count] = total
        return found


async def load(log: VirtualLog, entries: int, size: int) -> Loaded:
    """Append so many entries, a multiple of BATCH, to a log that is empty, in several sessions at once.

    Raises:
        UnavailableError: the log does not hold just them.
        VirtualLogError: an append failed.
    """
    loaded, numbers = Loaded(), iter(range(entries // BATCH))

    async def append(appender: Appender) -> None:
        for number in numbers:
            payloads = make_payloads(number, size)
            places = await appender.append(payloads)
            loaded.parts[places.start] = contents_of(payloads)

    async with trio.open_nursery() as nursery:
        for _ in range(SESSIONS):
            appender = log.appender(AppenderSettings(batch_entries=BATCH, window=OUTSTANDING))
            for _ in range(OUTSTANDING):
                nursery.start_soon(append, appender)
    tail = int((await log.check_tail()).tail)
    if not tail == loaded.count == entries:
        raise UnavailableError(f"{loaded.count} entries were appended, but the log ends at {tail}")
    return loaded
