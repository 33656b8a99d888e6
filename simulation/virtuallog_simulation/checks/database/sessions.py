"""Promises about sessions: none ends before its time, none lives on for long.

A client relies on its session for as long as its server answers. So the time of a session counts
from the last request that was answered: the server heard the client when it was sent, or later. Whether
it lay in the log does not matter. Nothing else is assumed, so that the checks hold while servers stand
still, are cut off, or believe in what is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_simulation.checks.database.replay import LoggedSession, replay
from virtuallog_simulation.workload.database.requests import Asked, Close, Connect

SLACK_SECONDS: Final = 1e-6
"""Rounding: times are floats, timeouts milliseconds."""
RATIO: Final = 1.5
"""Ratio of the rates of two clocks up to which a session lives for its timeout. If clocks differ by
more, two thirds of it are left: so long a client waits for a silent server."""
PATIENCE: Final = 2 / 3
MOVED: Final = 1.5
"""Timeouts for which a session lives at least after it has moved: the server before may answer for a while."""
SOON_SECONDS: Final = 1.0
"""Longest time in seconds for which a session outlives its timeout while nothing fails: two commands
and a tail check, during a swap."""


@attrs.define
class _Told:
    """Requests and handshakes of the client of one session."""

    answered: list[Told] = attrs.field(factory=list)
    sent: list[Told] = attrs.field(factory=list)

    def moved_at(self, history: History) -> float | None:
        """Time by which the session had moved last, as far as its client knows; None if it did not."""
        moves = [
            history.events[told.ended].time
            for told in self.answered
            if isinstance(told.action, Connect) and told.action.session and told.ended is not None
        ]
        return max(moves, default=None)


def session_checks(drift: float, *, calm: bool) -> tuple[Check, ...]:
    """Checks of a run whose clocks are wrong by this rate; `calm`: nothing has failed."""

    def sessions_end_in_time(history: History) -> Iterator[Violation]:
        """No session is expired within its timeout of a request that was answered."""
        told = _told(history)
        for number, life in replay(history).lives.items():
            if life.expired and life.ended is not None and number in told and told[number].answered:
                last = max(told[number].answered, key=_invoked)
                passed = _when(history, life.ended) - _when(history, last)
                if passed < _shortest(life, drift) - SLACK_SECONDS:
                    message = f"session {number:x} was expired {passed:.3f} s after its client sent what a server has answered; its timeout is {life.timeout_ms} ms"
                    yield Violation("sessions end in time", message, proof(last, life.ended))

    def sessions_end_soon(history: History) -> Iterator[Violation]:
        """A session is expired soon after its timeout, counted from the last request of its client; or after one and a
        half, counted from its last move to another connection."""
        told = _told(history)
        for number, life in replay(history).lives.items():
            client = told.get(number)
            if life.expired and life.ended is not None and client is not None:
                last = max(client.sent, key=_invoked)
                if isinstance(last.action, Connect):
                    continue  # a server may have attached the session for a client that had gone elsewhere
                timeout = life.timeout_ms / 1000 / (1 - drift)
                passed, due = _when(history, life.ended) - _when(history, last), timeout
                if (moved := client.moved_at(history)) is not None:
                    due = max(due, moved + MOVED * timeout - _when(history, last))
                if passed > due + SOON_SECONDS:
                    message = f"session {number:x} was expired {passed:.3f} s after its client sent something; its timeout is {life.timeout_ms} ms"
                    yield Violation("sessions end soon", message, proof(last, life.ended))

    return (sessions_end_in_time, sessions_end_soon) if calm else (sessions_end_in_time,)


def lives_on(history: History, alive: Callable[[int], bool]) -> Iterator[Violation]:
    """Sessions without a client that should have been over by now."""
    for number, life in replay(history).lives.items():
        if life.ended is None and not alive(number):
            message = f"session {number:x} lives on, though its client has been gone for longer than its timeout"
            yield Violation("sessions do not live on", message, proof(life.heard))


def _told(history: History) -> Mapping[int, _Told]:
    """Handshakes and requests by session. Those of a local session are left out, as are requests to
    close one: they are answered also when it is over."""
    found: dict[int, _Told] = {}
    local = set[int]()
    for told in history.operations(Connect):
        session = told.result.session if told.returned else told.action.session
        if told.returned and told.result.read_only:
            local.add(told.action.connection)
        elif session:
            client = found.setdefault(session, _Told())
            client.sent.append(told)
            if told.returned:
                client.answered.append(told)
    for told in history.operations(Asked):
        if told.action.connection not in local and not isinstance(told.action.request, Close):
            client = found.setdefault(told.action.session, _Told())
            client.sent.append(told)
            if told.returned:
                client.answered.append(told)
    return found


def _shortest(life: LoggedSession, drift: float) -> float:
    timeout = life.timeout_ms / 1000
    return timeout / (1 + drift) if 1 + drift <= RATIO * (1 - drift) else timeout * PATIENCE


def _when(history: History, told: Told) -> float:
    return history.events[told.invoked].time


def _invoked(told: Told) -> int:
    return told.invoked
