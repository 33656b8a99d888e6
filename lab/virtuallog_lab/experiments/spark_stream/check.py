"""Comparison of the table with the log, and of the log with the acknowledgements: each entry once,
and unchanged.

Both are the same comparison, of numbers: each item has a key, which must be there once, and a
value. For an entry of the log the key is its position, the value a digest of position and payload.
For an acknowledged append the key identifies it, the value is its acknowledged position. A million
of them are 16 MB, and compared in a moment. The sum of the digests is a checksum that does not
depend on the order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from virtuallog.client.reader import records
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import Gap, GapKind, LogPosition
from virtuallog_lab.experiments.spark_stream.load import Chunk, key_of
from virtuallog_lab.workload.entries import Entry

DIGEST_BYTES: Final = 7
"""Bytes of a digest; it fits into Spark's BIGINT."""
DIGEST_SQL: Final = (
    "cast(conv(substr(sha2(concat(unhex(lpad(hex(position), 16, '0')), payload), 256), "
    f"1, {2 * DIGEST_BYTES}), 16, 10) AS BIGINT)"
)
"""`digest` as Spark computes it."""
SHOWN: Final = 5
"""Keys that a problem names."""
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@attrs.frozen(eq=False)
class Entries:
    """Keys and values, of one length."""

    keys: Numbers
    values: Numbers

    @classmethod
    def load(cls, file: Path) -> Entries:
        keys, values = np.load(file)
        return cls(keys, values)

    def save(self, file: Path) -> None:
        np.save(file, np.stack([self.keys, self.values]))

    @property
    def checksum(self) -> int:
        """Checksum of the values, in any order; a value that is there twice counts twice."""
        return int(self.values.astype(np.uint64).sum(dtype=np.uint64))


def digest(position: int, payload: bytes) -> int:
    """Digest of one entry of the log."""
    return int.from_bytes(sha256(position.to_bytes(8, "big") + payload).digest()[:DIGEST_BYTES], "big")


def differences(expected: Entries, found: Entries, what: str) -> list[str]:
    """Problems with `found`; `expected` has each key once."""
    keys, firsts, counts = np.unique(found.keys, return_index=True, return_counts=True)
    in_both, here, there = np.intersect1d(keys, expected.keys, assume_unique=True, return_indices=True)
    wrong = {
        "there more than once": keys[counts > 1],
        "missing": np.setdiff1d(expected.keys, keys),
        "there, though never put there": np.setdiff1d(keys, expected.keys),
        "not the same": in_both[found.values[firsts][here] != expected.values[there]],
    }
    return [f"{what}: {len(which)} {how}: {_first(which)}" for how, which in wrong.items() if len(which)]


def unacknowledged(chunks: Sequence[Chunk], found: Entries) -> list[str]:
    """Problems with the appends in the log: each acknowledged one must be there once, at its
    acknowledged position; one with an unknown outcome may be there, once."""
    known = [chunk for chunk in chunks if chunk.place is not None]
    maybe = _joined([chunk.keys for chunk in chunks if chunk.place is None])
    expected = Entries(_joined([chunk.keys for chunk in known]), _joined([chunk.places for chunk in known]))
    uncertain = np.isin(found.keys, maybe)
    seen = Entries(found.keys[uncertain], found.values[uncertain])
    places = dict(zip(seen.keys.tolist(), seen.values.tolist(), strict=True))
    once = Entries(np.array([*places], np.int64), np.array([*places.values()], np.int64))
    certain = Entries(found.keys[~uncertain], found.values[~uncertain])
    return differences(expected, certain, "appends") + differences(once, seen, "appends of unknown outcome")


@attrs.frozen
class LogContents:
    """Contents of the log, read without Spark."""

    entries: Entries
    """Positions, and digests."""
    appends: Entries
    """Appends of the experiment's writers among them: key and position."""
    fillers: int
    """Positions that nothing is at."""
    problems: Sequence[str]
    """Parts that are gone."""


async def read_log(log: VirtualLog, stop: LogPosition) -> LogContents:
    """All below `stop`.

    Raises: as `virtuallog.client.scan.scan`.
    """
    positions, digests, keys, places = (array("q") for _ in range(4))
    fillers, problems = 0, []
    async for piece in scan(log, LogPosition(0), stop):
        for record in (record for placed in piece for record in records(placed)):
            if isinstance(record, Gap):
                fillers += record.stop - record.start
                if record.kind is not GapKind.FILLER:
                    problems.append(f"the log: [{record.start}, {record.stop}) is {record.kind.value}")
                continue
            positions.append(record.position)
            digests.append(digest(record.position, record.payload))
            if (entry := Entry.parse(record.payload)) is not None:
                keys.append(key_of(entry.writer, entry.number))
                places.append(record.position)
    return LogContents(_entries(positions, digests), _entries(keys, places), fillers, problems)


def _entries(keys: array[int], values: array[int]) -> Entries:
    return Entries(np.array(keys, np.int64), np.array(values, np.int64))


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _first(keys: Numbers) -> str:
    return ", ".join(str(key) for key in keys[:SHOWN]) + (" ..." if len(keys) > SHOWN else "")
