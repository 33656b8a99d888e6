"""Promises about sessions: none ends before its time, and none lives on for long.

A session is heard of through the log: by its own commands, and by what servers report of those that
only pinged. The server that ends it has waited for its timeout since it applied the last of these,
by its own clock. So the true time between the two is at least the timeout by the fastest clock
there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_simulation.checks.database.replay import LoggedSession, answered, replay

SLACK_SECONDS: Final = 1e-6
"""Rounding: times are floats, timeouts milliseconds."""


Timing: TypeAlias = Callable[[History, Told], float]


def when_told(history: History, told: Told) -> float:
    """Time of a command when it was proposed by the clock of a server that has surely heard of it."""
    return history.events[told.invoked].time


def when_proposed(history: History, told: Told) -> float:
    """Time of a command by the clock of its proposer: for runs in which all have the same clock,
    and the reports of commands may lag. A replica has applied what was heard before it proposes
    that the session has expired, so this is no stricter than it should be."""
    milliseconds: int = told.action.command.time_ms
    return milliseconds / 1000


def session_checks(drift: float, *, calm: bool, timing: Timing = when_told) -> tuple[Check, ...]:
    """Checks of a run whose clocks are wrong by this rate; `calm`: nothing has kept servers from
    reporting what they heard."""

    def sessions_end_in_time(history: History) -> Iterator[Violation]:
        """No session is expired that the log has heard of within its timeout."""
        for number, life in replay(history).lives.items():
            if life.expired and life.ended is not None:
                passed = timing(history, life.ended) - timing(history, life.heard)
                if passed < _shortest(life, drift):
                    message = f"session {number:x} was expired {passed:.3f} s after it was heard of; its timeout is {life.timeout_ms} ms"
                    yield Violation("sessions end in time", message, proof(life.heard, life.ended))

    def clients_are_heard(history: History) -> Iterator[Violation]:
        """With nothing in the way, no session is expired whose client was answered within its
        timeout."""
        asked = _answered_of(history)
        for number, life in replay(history).lives.items():
            if life.expired and life.ended is not None:
                end = when_told(history, life.ended)
                last = max(
                    (one for one in asked.get(number, []) if (one.ended or 0) < life.ended.invoked),
                    key=_invoked,
                    default=None,
                )
                if last is not None and end - when_told(history, last) < _shortest(life, drift):
                    message = f"session {number:x} was expired, and a server had answered its client {end - when_told(history, last):.3f} s before"
                    yield Violation("clients are heard", message, proof(last, life.ended))

    return (sessions_end_in_time, clients_are_heard) if calm else (sessions_end_in_time,)


def lives_on(history: History, alive: Callable[[int], bool]) -> Iterator[Violation]:
    """Sessions without a client that should have been over by now."""
    for number, life in replay(history).lives.items():
        if life.ended is None and not alive(number):
            message = f"session {number:x} lives on, though its client has been gone for longer than its timeout"
            yield Violation("sessions do not live on", message, proof(life.heard))


def _answered_of(history: History) -> Mapping[int, list[Told]]:
    found: dict[int, list[Told]] = {}
    for told in answered(history):
        found.setdefault(told.action.session, []).append(told)
    return found


def _shortest(life: LoggedSession, drift: float) -> float:
    return life.timeout_ms / 1000 / (1 + drift) - SLACK_SECONDS


def _invoked(told: Told) -> int:
    return told.invoked
