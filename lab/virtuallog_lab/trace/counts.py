"""Counts of events per append. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from virtuallog_lab.trace.events import EventKind, TraceEvent


@attrs.frozen(kw_only=True)
class EventCounts:
    """Events of one process, per append."""

    turns: float
    woken: Mapping[str, float]
    """By name of the task."""
    steps: Mapping[str, float]
    """By name of the task."""
    built: float
    parsed: float


def count_events(events: Iterable[TraceEvent], begin: float, end: float, appends: int) -> EventCounts:
    """Count events between two times in which there were so many appends."""
    kinds = Counter[EventKind]()
    tasks: dict[EventKind, Counter[str]] = {EventKind.WOKEN: Counter(), EventKind.STEP: Counter()}
    for event in events:
        if begin <= event.at < end:
            kinds[event.kind] += 1
            if event.kind in tasks:
                tasks[event.kind][event.detail] += 1

    def each(kind: EventKind) -> dict[str, float]:
        return {name: count / appends for name, count in tasks[kind].most_common()}

    return EventCounts(
        turns=kinds[EventKind.TURN] / appends,
        woken=each(EventKind.WOKEN),
        steps=each(EventKind.STEP),
        built=kinds[EventKind.BUILT] / appends,
        parsed=kinds[EventKind.PARSED] / appends,
    )
