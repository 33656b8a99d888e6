"""Expiry of sessions: which clients were heard of, and which session to expire. Soft state of one
replica.

Every command of a session is a touch. So is a `Touch` that its server proposes after hearing from
the client in another way. Each replica notes, on its own clock, when it last applied a touch. A
session without a touch for its timeout may be proposed for expiry: at once by the server that it is
attached to, a little later by the others. The proposal carries the number of touches seen, so the
session ends only if none has come in between (`virtuallog_database.tree.session_operations`).

Rules:
* `tick` is called after a `sync`: what this replica has not seen by then did not happen before. A
  replica that is behind expires no session.
* While this replica could not follow the log (stopped, or the log was unreachable) it learnt
  nothing about clients, which could not be heard either. Then all sessions count anew, as in
  ZooKeeper with a new leader, and as after a start.
* Touches are dated at the next tick, that is a little late: a session lives at least for its
  timeout. Messages of a client within a third of the timeout after a touch are proposed when that
  third is over, and all replicas date them then. The server could use the time at which it heard
  them; but then the log would not prove that no session was expired too early.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

from virtuallog_database.tree.commands import ExpireSessions, Touch
from virtuallog_database.tree.results import Attached, Error, Result
from virtuallog_database.tree.tree import Tree

Ended: TypeAlias = Callable[[Error], None]
"""Callback for the end of an attached session. SESSION_EXPIRED: the session is over, by expiry or
because it was closed. SESSION_MOVED: it has been attached anew, to any server. Called on the event
loop, at most once, while the command is applied; must not raise."""

TICK_SECONDS: Final = 1.0
"""Seconds between two looks at the sessions."""
ABSENT_SECONDS: Final = 3 * TICK_SECONDS
"""Longest gap between two ticks; after a longer one all sessions count anew. Sessions with a
timeout below four seconds count anew earlier (`_blink`)."""
PATIENCE_SECONDS: Final = 3 * TICK_SECONDS
"""Pause after a proposal to expire a session, until it is proposed again."""
TOUCHES_MAX: Final = 4096
"""Touches in one command: 32 KiB."""
EXPIRIES_MAX: Final = 64
"""Expiries in one command, which deletes all their ephemerals in one step while all other work
waits."""


@attrs.define
class _Noted:
    """Soft state of one session."""

    timeout: float
    since: float
    """Latest possible time of the last touch."""
    grace: float
    """Seconds after the timeout that this replica leaves for others to notice."""


@attrs.define(eq=False)
class SessionExpiry:
    """Sessions of this server's connections, and the commands that follow from their silence or
    signs of life."""

    _tree: Tree
    _random: random.Random
    _noted: dict[int, _Noted] = attrs.field(factory=dict, init=False)
    _touched: dict[int, None] = attrs.field(factory=dict, init=False)
    """Sessions touched by applied commands since the last tick."""
    _heard: dict[int, None] = attrs.field(factory=dict, init=False)
    """Sessions heard by connections of this server and not proposed as touches yet."""
    _attached: dict[int, tuple[int, Ended]] = attrs.field(factory=dict, init=False)
    _ticked: float | None = attrs.field(default=None, init=False)

    # -- what connections say -------------------------------------------------------------------------------------------

    def attach(self, session: int, generation: int, ended: Ended) -> None:
        """Attach the session to a connection of this server. A former connection, if any, gets
        SESSION_MOVED.

        Call it with the fields of `Attached` as soon as they are known. If they are out of date
        already, `ended` is called at once.
        """
        self._tell(session, Error.SESSION_MOVED)
        record = self._tree.session(session)
        if record is None or record.generation != generation:
            ended(Error.SESSION_EXPIRED if record is None else Error.SESSION_MOVED)
        else:
            self._attached[session] = generation, ended

    def detach(self, session: int, generation: int) -> None:
        """Detach the session from its connection, without a notification. The session goes on until
        it expires."""
        if session in self._attached and self._attached[session][0] == generation:
            del self._attached[session]

    def heard(self, session: int) -> None:
        """Note a sign of life of the client. Nearly free; replicas hear of it once in a third of
        the timeout."""
        self._heard[session] = None

    # -- what was applied -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Load the sessions from the store; all of them count anew."""
        self._noted.clear()
        self._touched = dict.fromkeys(self._tree.sessions())
        self._ticked = None

    def applied(self, result: Result) -> None:
        """Take in one applied command. Called in order of zxids."""
        for session in result.touched:
            self._touched[session] = None
        value = result.value
        if isinstance(value, Attached):
            self._noted.pop(value.session, None)  # its timeout may have changed
            if value.session in self._attached and self._attached[value.session][0] < value.generation:
                self._tell(value.session, Error.SESSION_MOVED)
        for session in result.ended:
            self._noted.pop(session, None)
            self._touched.pop(session, None)
            self._heard.pop(session, None)
            self._tell(session, Error.SESSION_EXPIRED)

    def _tell(self, session: int, error: Error) -> None:
        attachment = self._attached.pop(session, None)
        if attachment is not None:
            attachment[1](error)

    # -- what follows ---------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Touch | ExpireSessions]:
        """Commands to propose. Call it about once in `TICK_SECONDS`, and always right after a
        `sync`."""
        gap = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        for session in [*self._touched, *self._unheard(gap)]:
            self._note(session, now)
        self._touched.clear()
        touches = self._pieces(self._due_touches(now), TOUCHES_MAX)
        expiries = self._pieces(self._due_expiries(now), EXPIRIES_MAX)
        return [
            *(Touch(sessions) for sessions in touches),
            *(ExpireSessions(tuple((each, self._touches(each)) for each in sessions)) for sessions in expiries),
        ]

    def _unheard(self, gap: float) -> list[int]:
        """Sessions that must count anew: after so long a gap between ticks their silence proves
        nothing."""
        if gap <= 2 * TICK_SECONDS:
            return []
        return [session for session, noted in self._noted.items() if gap > min(ABSENT_SECONDS, _blink(noted.timeout))]

    def _note(self, session: int, now: float) -> None:
        noted = self._noted.get(session)
        if noted is not None:
            noted.since = now
            return
        record = self._tree.session(session)
        if record is not None:
            grace = TICK_SECONDS * (1 + 2 * self._random.random())
            self._noted[session] = _Noted(record.timeout_ms / 1000, now, grace)

    def _due_touches(self, now: float) -> list[int]:
        """Sessions that were heard, and have had no touch for a third of their timeout. Clients
        send something at least that often, so more touches would only cost."""
        due = [
            session
            for session in self._heard
            if (noted := self._noted.get(session)) is None or now - noted.since >= noted.timeout / 3
        ]
        for session in due:
            del self._heard[session]
        return [session for session in due if session in self._noted]

    def _due_expiries(self, now: float) -> list[int]:
        due = []
        for session, noted in self._noted.items():
            grace = 0.0 if session in self._attached else noted.grace
            if now - noted.since > noted.timeout + grace and session not in self._heard:
                due.append(session)
                noted.since = now - noted.timeout - grace + PATIENCE_SECONDS
        return due

    def _touches(self, session: int) -> int:
        record = self._tree.session(session)
        assert record is not None, "a session that is over is not noted"
        return record.touches

    @staticmethod
    def _pieces(sessions: list[int], size: int) -> Iterable[tuple[int, ...]]:
        return (tuple(sessions[at : at + size]) for at in range(0, len(sessions), size))

    @property
    def attached(self) -> int:
        """Number of sessions that connections of this server serve."""
        return len(self._attached)


def _blink(timeout: float) -> float:
    """Longest gap in seconds between two ticks that still lets a client with a short timeout be
    heard; at least two ticks."""
    return max(timeout / 2, TICK_SECONDS) + TICK_SECONDS
