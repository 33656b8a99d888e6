"""When sessions end of themselves: who is heard of, and who is not any more. Soft state of one replica.             Pure.

Every command of a session is a touch, and so is a `Touch` that its server proposes when it has heard of the client otherwise. Each
replica notes, on a clock of its own, when it last applied one. A session that has not been touched for its timeout may be
proposed for expiry: at once by the server that it is attached to, a little later by the others; with the number of touches
seen, so that it ends only if nothing has come in between (`virtuallog_database.tree.session_operations`).

Rules:
* `tick` is called after a `sync`: what this replica has not seen by then did not happen before. One that is behind expires nobody.
* Time in which this replica could not follow the log (it was stopped, the log was not to be reached) says nothing about clients, who
  could not be heard either: then all sessions count anew, as they do in ZooKeeper with a new leader. So do they after a start.
* Touches are dated at the next tick, that is a little late: a session lives at least for its timeout. What comes from the client within
  a third of it after a touch is told when that third is over, and dated by all then. Its server could go by when it was heard; then
  the log would not say any more that nobody has been expired too early.
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
"""SESSION_EXPIRED: the session is over, by expiry or because it was closed. SESSION_MOVED: it has been attached anew, to whatever
server. Called on the event loop, at most once, while the command that did it is applied; must not raise."""

TICK_SECONDS: Final = 1.0
ABSENT_SECONDS: Final = 3 * TICK_SECONDS
"""Between two ticks; after more than that all sessions count anew. Those of less than four seconds do so before (`_blink`)."""
PATIENCE_SECONDS: Final = 3 * TICK_SECONDS
"""After a proposal to expire a session, until the next one."""
TOUCHES_MAX: Final = 4096
"""In one command: 32 KiB."""
EXPIRIES_MAX: Final = 64
"""In one command, which deletes all their ephemerals in one step, while everybody waits."""


@attrs.define
class _Noted:
    """What is known of one session."""

    timeout: float
    since: float
    """When it was last touched, at the latest."""
    grace: float
    """How long after its timeout we wait for others to notice."""


@attrs.define(eq=False)
class SessionExpiry:
    """What the connections of this server say about their sessions, and what follows from it."""

    _tree: Tree
    _random: random.Random
    _noted: dict[int, _Noted] = attrs.field(factory=dict, init=False)
    _touched: dict[int, None] = attrs.field(factory=dict, init=False)
    """Since the last tick, by commands that were applied."""
    _heard: dict[int, None] = attrs.field(factory=dict, init=False)
    """By connections of this server; not told to others yet."""
    _attached: dict[int, tuple[int, Ended]] = attrs.field(factory=dict, init=False)
    _ticked: float | None = attrs.field(default=None, init=False)

    # -- what connections say -------------------------------------------------------------------------------------------

    def attach(self, session: int, generation: int, ended: Ended) -> None:
        """A connection of this server serves the session from now on. The former one, if any, is told SESSION_MOVED.

        Call it with what `Attached` says, right when that is known. If that is out of date already, `ended` is called at once.
        """
        self._tell(session, Error.SESSION_MOVED)
        record = self._tree.session(session)
        if record is None or record.generation != generation:
            ended(Error.SESSION_EXPIRED if record is None else Error.SESSION_MOVED)
        else:
            self._attached[session] = generation, ended

    def detach(self, session: int, generation: int) -> None:
        """It does not any more; the session goes on without, until it expires. Nobody is told."""
        if session in self._attached and self._attached[session][0] == generation:
            del self._attached[session]

    def heard(self, session: int) -> None:
        """Something came from the client. Costs next to nothing; all replicas are told once in a third of its timeout."""
        self._heard[session] = None

    # -- what was applied -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """The sessions in the store; all of them count anew."""
        self._noted.clear()
        self._touched = dict.fromkeys(self._tree.sessions())
        self._ticked = None

    def applied(self, result: Result) -> None:
        """One command. Called in order of zxids."""
        for session in result.touched:
            self._touched[session] = None
        value = result.value
        if isinstance(value, Attached):
            self._noted.pop(value.session, None)  # its timeout may be another one
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
        """What is to be proposed. About once in `TICK_SECONDS`, and always right after a `sync`."""
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
        """Sessions of which nobody can say that they were silent, after so long without a tick."""
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
        """Sessions that were heard of, and have not been touched for a third of their timeout: clients say something at least
        that often, so more would only cost."""
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
        """Sessions that connections of this server serve."""
        return len(self._attached)


def _blink(timeout: float) -> float:
    """Seconds between two ticks that leave enough of a short timeout for its client to be heard in; never less than two ticks."""
    return max(timeout / 2, TICK_SECONDS) + TICK_SECONDS
