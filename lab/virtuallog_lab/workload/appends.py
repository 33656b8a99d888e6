"""Measures appends: so many outstanding at a time, each acknowledged durable before the next of its task is made.

Every task keeps one append outstanding, as a client does that must not go on without its entry. The first part of a
measurement is not counted: connections open, code warms up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.contract.ports import Clock

Append: TypeAlias = Callable[[bytes], Awaitable[object]]

WARM_UP_SHARE: Final = 0.2
WARM_UP_SECONDS_MAX: Final = 1.0


@attrs.frozen(kw_only=True)
class Measurement:
    """Result for one combination of outstanding appends and size."""

    outstanding: int
    bytes: int
    """Bytes of one entry."""
    seconds: float
    """Measured, without the warm-up."""
    ops: int
    ops_per_s: float
    p50_ms: float
    p99_ms: float

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


def warm_up_seconds(seconds: float) -> float:
    """Seconds for which a measurement of `seconds` warms up before it counts."""
    return min(WARM_UP_SHARE * seconds, WARM_UP_SECONDS_MAX)


async def measure(append: Append, clock: Clock, outstanding: int, size: int, seconds: float) -> Measurement:
    """Append for `seconds`, warm-up not counted.

    Raises:
        VirtualLogError: an append failed.
    """
    return await measure_spread([append], clock, outstanding, size, seconds)


async def measure_spread(
    appends: Sequence[Append], clock: Clock, outstanding: int, size: int, seconds: float
) -> Measurement:
    """Measure several ways at once, such as sessions: outstanding appends are spread over them
    evenly, each task keeps to one.

    Raises:
        VirtualLogError: an append failed.
    """
    payload = b"x" * size
    begin = clock.monotonic() + warm_up_seconds(seconds)
    end = begin + seconds
    latencies: list[float] = []

    async def keep_one_outstanding(append: Append) -> None:
        now = clock.monotonic()
        while now < end:
            started = now
            await append(payload)
            now = clock.monotonic()
            if begin <= started and now <= end:
                latencies.append(now - started)

    async with trio.open_nursery() as nursery:
        for number in range(outstanding):
            nursery.start_soon(keep_one_outstanding, appends[number % len(appends)])
    return _summary(latencies, outstanding, size, seconds)


def _summary(latencies: list[float], outstanding: int, size: int, seconds: float) -> Measurement:
    latencies.sort()
    return Measurement(
        outstanding=outstanding,
        bytes=size,
        seconds=seconds,
        ops=len(latencies),
        ops_per_s=round(len(latencies) / seconds, 1),
        p50_ms=round(1000 * percentile(latencies, 0.50), 3),
        p99_ms=round(1000 * percentile(latencies, 0.99), 3),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all are not above; 0 if there are none."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * share // 1)  # rounded up
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]
