"""Replay of a trace: one size per line, such as 100B or 2MB, as `mesos-log benchmark` reads it.

By default one append is in progress at a time, as in Mesos. Each append is reported with its time, size and duration.
"""

from __future__ import annotations

import enum
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.ports import Clock

_UNITS: Final = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE: Final = re.compile(r"([0-9]{1,12})(B|KB|MB|GB)")


class Content(enum.Enum):
    """Bytes of the entries."""

    ZERO = "zero"
    ONE = "one"
    """All bits set."""
    RANDOM = "random"


@attrs.frozen(kw_only=True)
class Appended:
    """One append of a trace."""

    time: float
    """Time of its acknowledgement, in seconds since the epoch."""
    bytes: int
    ms: float
    """Duration in milliseconds."""

    def __str__(self) -> str:
        return f"{self.time:.6f}\t{self.bytes}\t{self.ms:.3f}"


@attrs.frozen(kw_only=True)
class Total:
    """Totals of all appends of a trace."""

    appends: int
    bytes: int
    seconds: float


def parse_trace(lines: Iterable[str], bytes_max: int) -> list[int]:
    """Parse the sizes of a trace, in bytes. Empty lines are skipped.

    Raises:
        InvalidSettingError: a line is no size, or a size is above `bytes_max`.
    """
    return [_size(number, text, bytes_max) for number, line in enumerate(lines, 1) if (text := line.strip())]


def _size(number: int, text: str, bytes_max: int) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InvalidSettingError(f"line {number} of the trace", f"'{text[:40]}' is no size such as 100B, 4KB or 2MB")
    size = int(found[1]) * _UNITS[found[2]]
    if size > bytes_max:
        raise InvalidSettingError(f"line {number} of the trace", f"{size} bytes, where {bytes_max} is the limit")
    return size


def entries(sizes: Iterable[int], content: Content, source: random.Random) -> Iterator[bytes]:
    """Yield one entry of each size. Each is made when it is needed."""
    for size in sizes:
        yield (
            source.randbytes(size)
            if content is Content.RANDOM
            else (b"\x00" if content is Content.ZERO else b"\xff") * size
        )


async def replay(
    append: Callable[[bytes], Awaitable[object]],
    payloads: Iterator[bytes],
    clock: Clock,
    tell: Callable[[Appended], None],
    *,
    outstanding: int = 1,
    append_seconds: float = 10.0,
) -> Total:
    """Append all payloads in order, `outstanding` at a time.

    Raises:
        UnavailableError: an append was not done within `append_seconds`, or `append` returned None: it may have happened.
        VirtualLogError: an append failed.
    """
    started, done = clock.monotonic(), list[int]()

    async def append_some() -> None:
        for payload in payloads:
            begun = clock.monotonic()
            with clock.timeout(append_seconds) as scope:
                if await append(payload) is None:
                    raise UnavailableError("another writer has taken over: the append may be in the log, or not")
            if scope.cancelled_caught:
                raise UnavailableError(f"an append was not done within {append_seconds:g} s")
            done.append(len(payload))
            tell(Appended(time=clock.wall(), bytes=len(payload), ms=1000 * (clock.monotonic() - begun)))

    async with trio.open_nursery() as nursery:
        for _ in range(outstanding):
            nursery.start_soon(append_some)
    return _total(done, clock.monotonic() - started)


def _total(sizes: Sequence[int], seconds: float) -> Total:
    return Total(appends=len(sizes), bytes=sum(sizes), seconds=seconds)
