"""Promises of a database to programs that hold a replica, and to operators: linearizable reads,
holds, timers.

A linearizable read shows one of the states between the newest that was known to any client when it
began and the newest there was when it ended. The states are known (`replay.py`), so no search is
needed: each read is given the oldest state that it may show. A read that begins later must show
that state, or a newer one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.testing.checker.actions import LogletTrim
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_database.testing.model_tree import ModelTree
from virtuallog_simulation.checks.database.replay import answered, committed, is_write
from virtuallog_simulation.checks.database.replicas import trimmed_to
from virtuallog_simulation.workload.database.embedded_client import Hold, Release, SetTimer, StrongRead

READS: Final = "zelos linearizable reads compared"
FIRED: Final = "zelos timers fired"
SLACK_SECONDS: Final = 0.002
"""Times of timers and holds are whole milliseconds."""
LATE_SECONDS: Final = 12.0
"""Seconds of peace within which a timer must fire. Each restart of a replica restarts the count."""
Timeline: TypeAlias = Sequence[tuple[int, Any]]
"""Zxids at which a znode became something else, and what it was from then on."""


@attrs.frozen
class Fired:
    """A timer has fired, at the first replica where it did."""

    timer: str


def strong_reads_are_linearizable(history: History) -> Iterator[Violation]:
    """They show what was completed before, by writes and by other such reads, and nothing that does not exist yet."""
    times = _timelines(history, {told.action.path for told in history.operations(StrongRead)})
    known = newest = 0
    floors: dict[int, int] = {}
    for what, told in _in_order(history):
        if what == "applied":
            newest = max(newest, told.action.zxid)
        elif what == "written":
            known = max(known, told.result.zxid)
        elif what == "asked":
            floors[told.number] = known
        else:
            shown = _oldest(times[told.action.path], told.result, floors[told.number])
            if shown is None or shown > newest:
                message = f"{told.action.path} was read as {told.result}; that is of no state from {floors[told.number]} to {newest}"
                yield Violation("linearizable reads", message, proof(told))
            else:
                known = max(known, shown)


def _in_order(history: History) -> Sequence[tuple[str, Told]]:
    reads = [told for told in history.operations(StrongRead) if told.returned]
    found = [
        *((told.invoked, "applied", told) for told in committed(history)),
        *((told.ended or 0, "written", told) for told in answered(history) if is_write(told)),
        *((told.invoked, "asked", told) for told in reads),
        *((told.ended or 0, "shown", told) for told in reads),
    ]
    return [(what, told) for _, what, told in sorted(found, key=lambda event: event[0])]


def _timelines(history: History, paths: set[str]) -> Mapping[str, Timeline]:
    model = ModelTree()
    times: dict[str, list[tuple[int, Any]]] = {path: [(0, None)] for path in paths}
    for told in committed(history):
        model.apply(told.action.command)
        for path, timeline in times.items():
            znode = model.znodes.get(path)
            seen = None if znode is None else (znode.data or b"", model.stat(path))
            if seen != timeline[-1][1]:
                timeline.append((model.zxid, seen))
    return times


def _oldest(timeline: Timeline, seen: Any, floor: int) -> int | None:
    """The first state from `floor` on in which the znode was this."""
    began = bisect_right(timeline, floor, key=lambda change: change[0]) - 1
    return next((max(zxid, floor) for zxid, value in timeline[began:] if value == seen), None)


def strong_read_checks(drift: float) -> tuple[Check, ...]:
    """Checks of a run whose clocks are wrong by this rate."""

    def holds_hold(history: History) -> Iterator[Violation]:
        """Held entries are not trimmed until they are released, or until their time is over by the
        fastest clock there is."""
        for told in history.operations(Hold):
            if told.returned:
                ends = _ends(history, told, drift)
                for trim in history.operations(LogletTrim):
                    if (told.ended or 0) < trim.invoked and ends(trim):
                        position = trimmed_to(history, trim)
                        if position is not None and position > told.result:
                            message = (
                                f"the log was trimmed up to {position}, and {told.action.name} holds {told.result}"
                            )
                            yield Violation("holds hold", message, proof(told, trim))

    def timers_fire_in_time(history: History) -> Iterator[Violation]:
        """None early, and all of them in the end."""
        fired = {told.action.timer: told for told in history.operations(Fired)}
        for told in history.operations(SetTimer):
            found = fired.get(told.action.timer)
            if found is None and told.returned and _time(history, told) + LATE_SECONDS < history.events[-1].time:
                yield Violation("timers fire", f"{told.action.timer} has never fired", proof(told))
            elif found is not None and _time(history, found) < _time(history, told) + _shortest(told, drift):
                yield Violation("timers fire", f"{told.action.timer} has fired early", proof(told, found))

    return strong_reads_are_linearizable, holds_hold, timers_fire_in_time


def _ends(history: History, hold: Told, drift: float) -> Callable[[Told], bool]:
    """Tells whether something happened before this hold ended."""
    releases = [told.invoked for told in history.operations(Release) if told.action.name == hold.action.name]
    over = _time(history, hold) + _shortest(hold, drift)
    return lambda told: all(told.invoked < release for release in releases) and _time(history, told) < over


def _shortest(told: Told, drift: float) -> float:
    seconds: float = told.action.seconds
    return seconds / (1 + drift) - SLACK_SECONDS


def _time(history: History, told: Told) -> float:
    return history.events[told.invoked].time
