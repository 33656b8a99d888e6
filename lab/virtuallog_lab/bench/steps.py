"""Phases of a swap: the steps that nodes and client pass, and the times between them.

    asked --plan--> planned --seal--> sealed --tail--> bounded --put--> decided --client finds it--> searched --append--> back

`observed_node.py` writes down the steps of the node that carries a swap out; the client's own are
caught in this process.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint, hooked
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.observed_node import FILE
from virtuallog_server.local_cluster.supervisor import LocalCluster

SEARCHED: Final = "appender: a sealed range is searched, nothing is sent to its successor"
PHASES: Final = ("plan", "seal", "tail", "put", "client finds it", "first append")
"""Each ends with a step: planned, sealed, bounded, decided, searched, and the first acknowledgement."""

Steps = Mapping[str, Sequence[float]]
"""Times at which each step was passed by any node, ascending."""


@contextmanager
def client_steps() -> Iterator[list[float]]:
    """Collect the times at which the client of this process has searched a sealed range, on the
    monotonic clock."""
    assert SEARCHED in CRASH_POINTS
    clock, times = SystemClock(), list[float]()

    def note(point: CrashPoint) -> None:
        if point.name == SEARCHED:
            times.append(clock.monotonic())

    with hooked(note):
        yield times


def read_steps(cluster: LocalCluster, searched: Sequence[float], started: float) -> dict[str, list[float]]:
    """All steps, in seconds since `started`."""
    steps: dict[str, list[float]] = {"searched": [time - started for time in searched]}
    for node in cluster.nodes.values():
        path = node.config.data / FILE
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            steps.setdefault(entry["step"], []).append(entry["at"] - started)
    return {step: sorted(times) for step, times in steps.items()}


def split_into_phases(steps: Steps, asked: float, back: float) -> dict[str, float] | None:
    """Seconds of each phase of a swap that was requested at one time and over for its client at
    another.

    None if a step is missing: another client has extended the log, or none has.
    """
    decided = _first(steps, "decided", asked)
    before = [_last(steps, step, asked, decided) for step in ("planned", "sealed", "bounded")]
    marks = [asked, *before, decided, _first(steps, "searched", asked), back]
    found = [mark for mark in marks if mark is not None]
    if len(found) < len(marks) or found != sorted(found):
        return None
    return {phase: stop - start for phase, start, stop in zip(PHASES, found, found[1:], strict=False)}


def _first(steps: Steps, step: str, after: float) -> float | None:
    times = steps.get(step, ())
    index = bisect_left(times, after)
    return times[index] if index < len(times) else None


def _last(steps: Steps, step: str, after: float, before: float | None) -> float | None:
    times = steps.get(step, ())
    index = bisect_right(times, before) - 1 if before is not None else -1
    return times[index] if index >= 0 and times[index] >= after else None
