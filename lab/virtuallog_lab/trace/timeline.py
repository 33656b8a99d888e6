"""The timeline of a typical append: medians over many. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final, TypeAlias

import attrs

from virtuallog_lab.trace.events import EventKind, TraceEvent

TYPICAL_SHARE: Final = 0.5
"""Share of appends in which a step must be found to belong to a typical one. The rest is the background of a node."""

Window: TypeAlias = tuple[float, float]
"""Begin and end of one append as its client saw it, in seconds."""


@attrs.frozen
class Step:
    """One step of a typical append."""

    process: str
    in_loop: bool
    kind: EventKind
    detail: str
    number: int
    """1 for the first such step of the append in this process."""
    at_us: float
    """Median of the time since the append began, in microseconds."""
    share: float
    """Share of appends that had the step."""

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


def typical_steps(windows: Sequence[Window], processes: Mapping[str, Iterable[TraceEvent]], client: str) -> list[Step]:
    """Steps of a typical append in all processes, in the order of their median times.

    Events belong to the append that began last before them. So work behind the acknowledgement counts too, but for that of the client.
    Appends must not overlap.
    """
    begins = [begin for begin, _ in windows]
    found: dict[tuple[str, bool, EventKind, str, int], list[float]] = defaultdict(list)
    for process, events in processes.items():
        current, seen = -1, Counter[tuple[bool, EventKind, str]]()
        for event in events:
            index = bisect_right(begins, event.at) - 1
            if index != current:
                current, seen = index, Counter()
            if index < 0 or (process == client and event.at > windows[index][1]):
                continue
            key = (event.in_loop, event.kind, event.detail)
            seen[key] += 1
            found[process, *key, seen[key]].append(event.at - begins[index])
    least = TYPICAL_SHARE * len(windows)
    steps = [
        Step(*key, at_us=1e6 * median(times), share=len(times) / len(windows))
        for key, times in found.items()
        if len(times) >= least
    ]
    return sorted(steps, key=lambda step: step.at_us)
