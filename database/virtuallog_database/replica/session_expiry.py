"""Expiry of sessions: which clients were heard, which sessions to report as alive, and which to
expire. Soft state of one replica.

A client talks to one server at a time, and moves to another only through the log (`Attach`). So the
server that a session was attached to last knows exactly when its client was heard, on one clock. It
expires the session once that is a timeout ago, also after the connection has gone. No other server
can know better while this one lives. The others replace it when it is silent itself.

    own session      touched in the log each `REPORT` of its timeout while its client is connected;
                     requests are answered for `TRUST` of the timeout after the last touch;
                     expired one timeout after its client was heard, and not before another server's
                     time is over if it has moved here (`_Own.attached`)
    any session      expired by other servers `OTHERS` timeouts after the last touch

Safety. An expiry names the number of touches that its proposer has applied, so it ends the session
only if no touch is before it in the log (`virtuallog_database.tree.session_operations`). Hence:

* A session that has moved, or that was touched by a server which this one has not followed yet,
  lives on.
* *A session that is attached here by a command which its client no longer waits for* lives on as if
  this server were another one (`_Own.attached`). Bytes that arrive here do not shorten that.
* *Own sessions.* From the proposal of an expiry on, the server answers nothing on the session before
  a later touch is applied: then the session has outlived the expiry. So no answer is on its way to a
  client when an expiry takes effect that was proposed a timeout after it was heard.
* *Other servers.* Let a touch be proposed at b. Its server answers requests until b + `TRUST` at
  the latest, by its clock, however long it stands still or is cut off from the log. Others date
  the touch at b or later. They wait `OTHERS` = 1 + 1.5 * `TRUST` timeouts from then on, so no
  session ends within a timeout of an answer while no clock runs more than 1.5 times as fast as
  another. At 1.86 times (30 % either way) two thirds of a timeout are left, after which
  ZooKeeper's clients give a silent server up.

Liveness rules:
* `tick` is called after a `sync`: what this replica has not seen by then did not happen before.
* While this replica could not follow the log (stopped, or the log was unreachable) it learnt
  nothing about clients, and servers could not report. Then all sessions count anew, as in ZooKeeper
  with a new leader, and as after a start.
"""

from __future__ import annotations

import math
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
"""Longest pause in seconds between two looks at the sessions."""
TICKS: Final = 10
"""Looks in one timeout, at least: a request that waits for a touch which was not proposed yet, or was
lost, waits for the next one."""
LOOK_SECONDS_MIN: Final = 0.05
"""Shortest pause in seconds between two looks. Sessions whose time is over by then share a command."""
REPORT: Final = 1 / 6
"""Share of the timeout after which an attached session is touched again, at a look of its own if no
other one comes in time: half of `TRUST`. So no request is held up while the `sync` of that look, and
the touch, take less than a sixth of the timeout together."""
TRUST: Final = 1 / 3
"""Share of the timeout for which a server answers requests after it has proposed a touch, once that is
applied. More would make other servers wait for longer, less would cost more touches."""
OTHERS: Final = 1.5
"""Timeouts without a touch after which other servers than the session's own propose its expiry."""
STAGGER: Final = 0.1
"""Most of a timeout, as a share, for which a replica waits longer than that, so that one of them
proposes the expiry for all."""
ABSENT_SECONDS: Final = 3 * TICK_SECONDS
"""Longest gap between two ticks; after a longer one all sessions count anew. Sessions with a
timeout below four seconds count anew earlier (`_blink`)."""
PATIENCE_SECONDS: Final = TICK_SECONDS
"""Pause in seconds after a proposal to expire a session, until it is proposed again: a touch came in
between, or the proposal is lost."""
TOUCHES_MAX: Final = 4096
"""Touches in one command: 32 KiB."""
EXPIRIES_MAX: Final = 64
"""Expiries in one command, which deletes all their ephemerals in one step while all other work
waits."""


@attrs.define
class _Noted:
    """Soft state of one session, whichever server it is attached to."""

    timeout: float
    since: float
    """Latest possible time of the last touch."""
    stagger: float
    """Seconds that this replica leaves for others to propose the expiry."""


@attrs.define(eq=False)
class _Own:
    """A session that was attached here last."""

    generation: int
    timeout: float
    since: float
    """Time at which it was attached."""
    heard: float
    """Time at which its client was heard last. It may lie ahead after a move, for the sake of the
    server before. Never goes back. The proposal of an expiry moves it, to the time of the next one."""
    trusted_from: float
    """Time at which `TRUST` began: the proposal of the last touch that has been applied."""
    asked: float
    """Time of the last proposal of a touch. Minus infinity if a touch is due at once."""
    ended: Ended | None
    """None once the connection has gone."""
    resume: Callable[[], None] | None = None
    """Resumes requests that wait for a touch. None if none wait."""
    doomed: float = -math.inf
    """Time of the last proposal of an expiry: only a touch that was proposed later proves that it
    has failed."""

    @classmethod
    def attached(cls, generation: int, timeout: float, proposed: float, now: float, ended: Ended) -> _Own:
        """A session as of its `Attached`.

        That command may be late: its client has given this server up, and is with another one, which
        answers for `TRUST` after the move. So a session that has moved gets at least as long as other
        servers would give it. Bytes that arrive here prove nothing about that: they may be as late.
        """
        elsewhere = timeout * (OTHERS - 1) if generation > 1 else 0.0
        return cls(generation, timeout, now, now + elsewhere, proposed, proposed, ended)

    @property
    def touch_at(self) -> float:
        """Time at which the next touch is due."""
        return self.asked + self.timeout * REPORT

    def is_safe(self, now: float) -> bool:
        """True if no expiry can have been applied anywhere by now."""
        return self.trusted_from > self.doomed and now - self.trusted_from <= self.timeout * TRUST


@attrs.define(eq=False)
class SessionExpiry:
    """Sessions of this server's connections and of others, and the commands that follow from their
    silence or signs of life. All times are seconds of this replica's monotonic clock."""

    _tree: Tree
    _random: random.Random
    _on_shorter: Callable[[], None] = lambda: None
    """Called when `pause` has become shorter: it counts from then on."""
    pause: float = attrs.field(default=TICK_SECONDS, init=False)
    """Seconds until the next call of `tick`."""
    _look_at: float = attrs.field(default=math.inf, init=False)
    """Time of that call. Infinite before the first."""
    _noted: dict[int, _Noted] = attrs.field(factory=dict, init=False)
    _touched: dict[int, None] = attrs.field(factory=dict, init=False)
    """Sessions touched by applied commands since the last tick."""
    _own: dict[int, _Own] = attrs.field(factory=dict, init=False)
    _ticked: float = attrs.field(default=-math.inf, init=False)

    # -- what connections say -------------------------------------------------------------------------------------------

    def attach(self, session: int, generation: int, ended: Ended, *, proposed: float, now: float) -> None:
        """Attach the session to a connection of this server. A former connection, if any, gets
        SESSION_MOVED.

        Call it with the fields of `Attached` as soon as they are known. If they are out of date already,
        `ended` is called at once.

        Args:
            session: the session.
            generation: as `Attached` has it.
            ended: called when the session is over or attached anew.
            proposed: time at which the command was proposed that has brought `Attached` about.
            now: the time of this call.
        """
        self._tell(session, Error.SESSION_MOVED)
        record = self._tree.session(session)
        if record is None or record.generation != generation:
            ended(Error.SESSION_EXPIRED if record is None else Error.SESSION_MOVED)
        else:
            own = self._own[session] = _Own.attached(generation, record.timeout_ms / 1000, proposed, now, ended)
            self._look_by(own.touch_at, now)

    def detach(self, session: int, generation: int) -> None:
        """Detach the session from its connection, without a notification. The session goes on until
        it expires."""
        own = self._own.get(session)
        if own is not None and own.generation == generation:
            own.ended = own.resume = None

    def heard(self, session: int, now: float) -> None:
        """Note a sign of life of the client. Never brings its expiry closer."""
        own = self._own.get(session)
        if own is not None:
            own.heard = max(own.heard, now)

    def admits(self, session: int, now: float, resume: Callable[[], None]) -> bool:
        """True if requests of an attached session may be answered without the log. If not, `resume`
        is called once they may, unless the session is over by then or detached."""
        own = self._own.get(session)
        if own is None:
            return False
        if own.is_safe(now):
            return True
        own.resume, own.asked = resume, -math.inf
        return False

    # -- what was applied -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Load the sessions from the store; all of them count anew."""
        self._noted.clear()
        self._touched = dict.fromkeys(self._tree.sessions())
        self._ticked = -math.inf

    def applied(self, result: Result) -> None:
        """Take in one applied command. Called in order of zxids."""
        for session in result.touched:
            self._touched[session] = None
        value = result.value
        if isinstance(value, Attached):
            self._noted.pop(value.session, None)  # its timeout may have changed
            if value.session in self._own and self._own[value.session].generation < value.generation:
                self._tell(value.session, Error.SESSION_MOVED)
        for session in result.ended:
            self._noted.pop(session, None)
            self._touched.pop(session, None)
            self._tell(session, Error.SESSION_EXPIRED)

    def confirm(self, touch: Touch, proposed: float) -> None:
        """Note that a touch which `tick` returned at `proposed` has been applied."""
        for session in touch.sessions:
            own = self._own.get(session)
            if own is not None:
                own.trusted_from = max(own.trusted_from, proposed)
                resume, own.resume = own.resume, None
                if resume is not None:
                    resume()

    def _tell(self, session: int, error: Error) -> None:
        own = self._own.pop(session, None)
        if own is not None and own.ended is not None:
            own.ended(error)

    # -- what follows ---------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Touch | ExpireSessions]:
        """Commands to propose. Call it each `pause` seconds, and always right after a `sync`."""
        former, self._ticked = self._ticked, now
        for session in self._touched:
            self._note(session, now)
        self._touched.clear()
        self._count_anew(former, now)
        expiries = self._pieces([*self._due_own_expiries(now), *self._due_other_expiries(now)], EXPIRIES_MAX)
        touches = self._pieces(self._due_touches(now), TOUCHES_MAX)
        self.pause = self._next_pause(now)
        self._look_at = now + self.pause
        return [
            *(Touch(sessions) for sessions in touches),
            *(ExpireSessions(tuple((each, self._touches(each)) for each in sessions)) for sessions in expiries),
        ]

    def _count_anew(self, former: float, now: float) -> None:
        """Restart the time of sessions whose silence proves nothing, as the former tick was too long ago."""
        if now - former <= 2 * TICK_SECONDS:
            return
        for noted in self._noted.values():
            if now - former > _blink(noted.timeout):
                noted.since = now
        for own in self._own.values():
            if now - max(former, own.since) > _blink(own.timeout):
                own.heard = max(own.heard, now)

    def _note(self, session: int, now: float) -> None:
        noted = self._noted.get(session)
        if noted is not None:
            noted.since = now
            return
        record = self._tree.session(session)
        if record is not None:
            timeout = record.timeout_ms / 1000
            self._noted[session] = _Noted(timeout, now, timeout * STAGGER * self._random.random())

    def _due_touches(self, now: float) -> list[int]:
        """Attached sessions that have to be touched again, or would have to be before there can be a
        further look. Once one has to, those that are halfway there are added: so sessions that began at
        different moments soon share their commands."""
        attached = [(session, own) for session, own in self._own.items() if own.ended is not None]
        if all(own.touch_at >= now + LOOK_SECONDS_MIN for _, own in attached):
            return []
        due = [session for session, own in attached if now - own.asked >= own.timeout * REPORT / 2]
        for session in due:
            self._own[session].asked = now
        return due

    def _due_own_expiries(self, now: float) -> list[int]:
        """Own sessions whose clients have not been heard for the timeout."""
        due = []
        for session, own in self._own.items():
            if now - own.heard >= own.timeout:
                own.heard = now - own.timeout + PATIENCE_SECONDS
                own.doomed = own.asked = now
                due.append(session)
        return due

    def _due_other_expiries(self, now: float) -> list[int]:
        """Sessions that no server has reported for so long that their own server must be gone."""
        due = []
        for session, noted in self._noted.items():
            over = noted.since + noted.timeout * OTHERS + noted.stagger
            if now > over and session not in self._own:
                noted.since += now - over + PATIENCE_SECONDS
                due.append(session)
        return due

    def _next_pause(self, now: float) -> float:
        """Until the next own session may be over, or has to be touched."""
        pause = TICK_SECONDS
        for own in self._own.values():
            pause = min(pause, own.heard + own.timeout - now, own.timeout / TICKS)
            if own.ended is not None:
                pause = min(pause, own.touch_at - now)
        return max(pause, LOOK_SECONDS_MIN)

    def _look_by(self, moment: float, now: float) -> None:
        """Have the next look earlier, if it would come after `moment`."""
        moment = max(moment, now + LOOK_SECONDS_MIN)
        if moment < self._look_at and moment - now < self.pause:
            self.pause, self._look_at = moment - now, moment
            self._on_shorter()

    def _touches(self, session: int) -> int:
        record = self._tree.session(session)
        assert record is not None, "a session that is over is neither noted nor own"
        return record.touches

    @staticmethod
    def _pieces(sessions: list[int], size: int) -> Iterable[tuple[int, ...]]:
        return (tuple(sessions[at : at + size]) for at in range(0, len(sessions), size))

    @property
    def attached(self) -> int:
        """Number of sessions that connections of this server serve."""
        return sum(own.ended is not None for own in self._own.values())

    def is_attached(self, session: int) -> bool:
        """True if a connection of this server serves the session."""
        own = self._own.get(session)
        return own is not None and own.ended is not None


def _blink(timeout: float) -> float:
    """Longest gap in seconds between two ticks that still lets a client be heard: at least two ticks."""
    return min(ABSENT_SECONDS, max(timeout / 2, TICK_SECONDS) + TICK_SECONDS)
