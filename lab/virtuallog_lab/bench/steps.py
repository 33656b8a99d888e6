"""Phases of a swap: the steps that nodes and client pass, and the times between them.

    asked --plan--> planned --promise--> promised --seal--> sealed --tail--> bounded --vote--> decided
        --client finds it--> found --search--> searched --first append--> back

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

CLIENT_STEPS: Final = {
    "appender: the successor of a sealed loglet is known, its range is not searched": "found",
    "appender: a sealed range is searched, nothing is sent to its successor": "searched",
}
"""Points that the client passes, and what they are called here."""
PHASES: Final = ("plan", "promise", "seal", "tail", "vote", "client finds it", "search", "first append")
"""Each ends with a step: planned, promised, sealed, bounded, decided, found, searched, and the first acknowledgement."""
WAITING: Final = PHASES[2:]
"""The phases in which appends wait; before them everything goes on."""

Steps = Mapping[str, Sequence[float]]
"""Times at which each step was passed by any node, ascending."""


@contextmanager
def client_steps() -> Iterator[Steps]:
    """Collect the times at which the client of this process passes its steps, on the monotonic clock."""
    assert CLIENT_STEPS.keys() <= CRASH_POINTS.keys()
    clock, times = SystemClock(), {step: list[float]() for step in CLIENT_STEPS.values()}

    def note(point: CrashPoint) -> None:
        if point.name in CLIENT_STEPS:
            times[CLIENT_STEPS[point.name]].append(clock.monotonic())

    with hooked(note):
        yield times


def read_steps(cluster: LocalCluster, client: Steps, started: float) -> dict[str, list[float]]:
    """All steps, those of nodes and those of the client, in seconds since `started`."""
    steps = {step: [time - started for time in times] for step, times in client.items()}
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
    taught = _first(steps, "taught", asked)
    before = [_last(steps, step, asked, taught) for step in ("planned", "promised", "sealed", "bounded")]
    found, searched = _first(steps, "found", asked), _first(steps, "searched", asked)
    marks = [asked, *before, _decided(steps, before[-1], found), found, searched, back]
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks) or known != sorted(known):
        return None
    return {phase: stop - start for phase, start, stop in zip(PHASES, known, known[1:], strict=False)}


def _decided(steps: Steps, bounded: float | None, found: float | None) -> float | None:
    """When the first process knew that the new chain is decided: its proposer, another reader, or the client itself."""
    if bounded is None or found is None:
        return None
    decided = _first(steps, "decided", bounded)
    return found if decided is None else min(decided, found)


def _first(steps: Steps, step: str, after: float) -> float | None:
    times = steps.get(step, ())
    index = bisect_left(times, after)
    return times[index] if index < len(times) else None


def _last(steps: Steps, step: str, after: float, before: float | None) -> float | None:
    times = steps.get(step, ())
    index = bisect_right(times, before) - 1 if before is not None else -1
    return times[index] if index >= 0 and times[index] >= after else None
