"""The timeline of a typical append: medians over many. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import TypeAlias

import attrs

from virtuallog_lab.trace.events import EventKind, TraceEvent

Window: TypeAlias = tuple[float, float]
"""Begin and end of one append as its client saw it, in seconds."""


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
    """Share of appends whose steps in this lane are these, in this order."""


def typical_steps(
    windows: Sequence[Window], processes: Mapping[str, Iterable[TraceEvent]], client: str
) -> list[TimelineStep]:
    """Steps of a typical append, in the order of their median times.

    A lane is the event loop of a process, or its other threads. In each, the steps are those of the most frequent order, and the
    times are medians over the appends that had this order: all others have steps of something else among them, or another
    order of two answers.

    Events belong to the append that began last before them. So work behind the acknowledgement counts too, but for that of the client.
    Appends must not overlap.
    """
    begins = [begin for begin, _ in windows]
    lanes: dict[tuple[str, bool], dict[int, list[TraceEvent]]] = defaultdict(lambda: defaultdict(list))
    for process, events in processes.items():
        for event in events:
            index = bisect_right(begins, event.at) - 1
            if index < 0 or event.kind is EventKind.WOKEN or (process == client and event.at > windows[index][1]):
                continue
            lanes[process, event.in_loop][index].append(event)
    steps = [step for lane, found in lanes.items() for step in _typical_of_lane(lane, begins, found)]
    return sorted(steps, key=lambda step: step.at_us)


def _typical_of_lane(
    lane: tuple[str, bool], begins: Sequence[float], found: Mapping[int, Sequence[TraceEvent]]
) -> Iterator[TimelineStep]:
    """Steps of one lane, from its events by append."""
    orders: dict[tuple[tuple[EventKind, str], ...], list[list[float]]] = defaultdict(list)
    for index, events in found.items():
        order = tuple((event.kind, event.detail) for event in events)
        orders[order].append([event.at - begins[index] for event in events])
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
            share=len(times) / len(begins),
        )
