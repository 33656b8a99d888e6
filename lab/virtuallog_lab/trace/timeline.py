"""The timeline of a typical append: medians over many. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from statistics import median
from typing import Final, TypeAlias

import attrs

from virtuallog_lab.trace.events import EventKind, TraceEvent

Window: TypeAlias = tuple[float, float]
"""Begin and end of one append as its client saw it, in seconds."""
UNDISTURBED_SHARE: Final = 0.25
"""Share of appends that are looked at, the fastest: each process of the others may have been held up by something else."""


@attrs.frozen(kw_only=True)
class TimelineStep:
    """One step of a typical append."""

    process: str
    in_loop: bool
    kind: EventKind
    detail: str
    number: int
    """1 for the first step of its kind and detail in the lane."""
    at_us: float
    """Median of the time since the append began, in microseconds."""
    share: float
    """Share of the appends looked at whose steps in this lane are these, in this order."""


def typical_steps(
    windows: Sequence[Window], processes: Mapping[str, Iterable[TraceEvent]], client: str
) -> list[TimelineStep]:
    """Steps of a typical append, in the order of their median times.

    Only the fastest appends are looked at. A lane is the event loop of a process, or its other threads. In each, the steps are those
    of the most frequent order, and the times are medians over the appends that had this order: all others have steps of something
    else among them, or another order of two answers.

    Events belong to the append that began last before them. So work behind the acknowledgement counts too, but for that of the client.
    Appends must not overlap.
    """
    begins = [begin for begin, _ in windows]
    by_latency = sorted(range(len(windows)), key=lambda index: windows[index][1] - windows[index][0])
    fastest = {*by_latency[: ceil(UNDISTURBED_SHARE * len(windows))]}
    lanes: dict[tuple[str, bool], dict[int, list[TraceEvent]]] = defaultdict(lambda: defaultdict(list))
    for process, events in processes.items():
        for event in events:
            index = bisect_right(begins, event.at) - 1
            if index not in fastest or event.kind is EventKind.WOKEN:
                continue
            begin, end = windows[index]
            if process != client or event.at <= end:
                lanes[process, event.in_loop][index].append(attrs.evolve(event, at=event.at - begin))
    steps = [step for lane, found in lanes.items() for step in _typical_of_lane(lane, [*found.values()], len(fastest))]
    return sorted(steps, key=lambda step: step.at_us)


def _typical_of_lane(
    lane: tuple[str, bool], found: Sequence[Sequence[TraceEvent]], appends: int
) -> Iterator[TimelineStep]:
    """Steps of one lane, from its events of each append that has any, with times since the append began."""
    orders: dict[tuple[tuple[EventKind, str], ...], list[list[float]]] = defaultdict(list)
    for events in found:
        orders[tuple((event.kind, event.detail) for event in events)].append([event.at for event in events])
    order, times = max(orders.items(), key=lambda item: len(item[1]))
    seen = Counter[tuple[EventKind, str]]()
    for place, (kind, detail) in enumerate(order):
        seen[kind, detail] += 1
        yield TimelineStep(
            process=lane[0],
            in_loop=lane[1],
            kind=kind,
            detail=detail,
            number=seen[kind, detail],
            at_us=1e6 * median(of_append[place] for of_append in times),
            share=len(times) / appends,
        )
