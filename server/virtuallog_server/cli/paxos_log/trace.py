"""Appends to a log what a trace says: one size per line, such as 100B or 2MB, as `mesos-log benchmark` reads them.

By default one append is under way at a time, as in Mesos. Every append is told with its time, its size and how long it took.
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
    """What entries are made of."""

    ZERO = "zero"
    ONE = "one"
    """All bits set."""
    RANDOM = "random"


@attrs.frozen(kw_only=True)
class Appended:
    """One append of a trace."""

    time: float
    """When it was done, in seconds since the epoch."""
    bytes: int
    ms: float

    def __str__(self) -> str:
        return f"{self.time:.6f}\t{self.bytes}\t{self.ms:.3f}"


@attrs.frozen(kw_only=True)
class Total:
    """What all appends of a trace took together."""

    appends: int
    bytes: int
    seconds: float


def parse_trace(lines: Iterable[str], bytes_max: int) -> list[int]:
    """The sizes of a trace. Empty lines are passed over.

    Raises:
        InvalidSettingError: a line is no size, or more than `bytes_max`.
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
    """One entry of each size, made when it is asked for."""
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
    """Append everything, so many at a time, in order.

    Raises:
        UnavailableError: one was not done within `append_seconds`, or is a maybe: `append` has returned None.
        VirtualLogError: one failed.
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
