"""Sessions that append through a sequencer, and the places of their last batches.

A batch that is offered again gets the place it has. That makes a retry after a lost answer harmless while the
sequencer still knows the batch. If it may have forgotten, it raises ReconfigurationNeededError and does not guess.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, OverloadedError, ReconfigurationNeededError
from virtuallog.exactly_once.session_digest import SessionDigest

SESSIONS_MAX: Final = 16384
"""Limit of sessions in use: up to 10 KB each with the most batches remembered, and 160 MiB in all."""
SESSION_KEEP_MS: Final = 120_000
"""Idle time after which the batches of a session may be forgotten.

An appender offers its batch again for a minute, and the last offer may take some seconds. If it were forgotten by
then, a batch that `opens` would be placed twice.
"""
BATCHES_MAX: Final = 64
"""Batches remembered per session, committed or not; an appender has far fewer in flight."""
IDLE_MAX: Final = 65536
"""Limit of idle sessions, of which only the next sequence number is known: 200 bytes each, 13 MiB in all."""


@attrs.define(eq=False)
class OrderedBatch:
    """A batch that has been ordered."""

    first: int
    """Offset of its first entry."""
    sequence: int
    """Sequence number of its first entry."""
    batch: Batch | None
    """None once committed: only uncommitted batches are kept."""
    tickets: tuple[Any, ...]
    """Tickets of the calls that wait for the commit; several if the batch was offered again."""

    @property
    def committed(self) -> bool:
        """True if `commit` was called."""
        return self.batch is None

    def commit(self) -> tuple[Any, ...]:
        """Mark the batch as committed; returns the tickets of the calls that waited."""
        tickets, self.tickets, self.batch = self.tickets, (), None
        return tickets


@attrs.define(eq=False)
class _Session:
    next_sequence: int
    """Sequence number of the first entry of its next batch."""
    used_ms: int
    """Time of its last batch."""
    placements: deque[OrderedBatch] = attrs.field(factory=deque)
    """Its last batches, oldest first."""


@attrs.define(eq=False)
class SessionTable:
    """Sessions in the order of their last use."""

    _sessions: OrderedDict[SessionId, _Session] = attrs.field(factory=OrderedDict)
    _idle: dict[SessionId, int] = attrs.field(factory=dict)
    """Next sequence numbers of long idle sessions, the longest idle first. All their batches are committed."""
    _has_forgotten: bool = False
    """True if a session was forgotten: an unknown session may be an old one."""

    @classmethod
    def of_digest(cls, digest: SessionDigest, now_ms: int) -> SessionTable:
        """Table of a new leader, from the digest of all that is decided; `now_ms` is the present time."""
        sessions = cls(has_forgotten=digest.has_forgotten)
        for each in digest.sessions():
            places = [(batch.first_sequence, batch.place) for batch in each.last]
            sessions.recall(each.session, each.next_sequence, places, now_ms)
        return sessions

    def find(self, batch: Batch, *, opens: bool) -> OrderedBatch | None:
        """Place of the batch; None if it is new and may be placed now.

        Raises:
            OutOfOrderError: its predecessor has not been offered.
            ReconfigurationNeededError: it may have been placed, but its place was forgotten.
        """
        session = self._known(batch.session)
        if session is None:
            if self._has_forgotten and not opens:
                raise ReconfigurationNeededError("the sequencer has forgotten this session")
            if not opens:
                raise OutOfOrderError(0)
            return None
        if batch.first_sequence == session.next_sequence:
            return None
        if batch.first_sequence > session.next_sequence:
            raise OutOfOrderError(session.next_sequence)
        for placement in session.placements:
            if placement.sequence == batch.first_sequence:
                return placement
        raise ReconfigurationNeededError("the sequencer has forgotten where this batch is")

    def may_have_placed(self, batch: Batch) -> bool:
        """False if the batch surely has no place."""
        session = self._known(batch.session)
        return self._has_forgotten if session is None else batch.first_sequence < session.next_sequence

    def end(self) -> None:
        """Forget the places of batches. `may_have_placed` answers as before; do not call `place` or `find` any more.

        For an orderer that has ended and still has to reject batches: some 200 bytes remain of each session.
        """
        self._idle.update((name, session.next_sequence) for name, session in self._sessions.items())
        self._sessions.clear()

    def place(self, batch: Batch, first: int, ticket: Any, now_ms: int) -> OrderedBatch:
        """Remember a new batch at offset `first`.

        Raises:
            OverloadedError: too many sessions, or too many batches of this one, are not settled. Nothing was done.
        """
        session = self._sessions.get(batch.session) or self._admit(batch, now_ms)
        if len(session.placements) >= BATCHES_MAX and not session.placements[0].committed:
            raise OverloadedError(f"{BATCHES_MAX} batches of this session are not committed yet")
        return self._remember(session, batch, first, (ticket,), now_ms)

    def inherit(self, batch: Batch, first: int, now_ms: int) -> OrderedBatch:
        """Remember a batch that another orderer has placed at offset `first`, and that is not settled yet.

        Never refused: it is in the log, also if the other orderer's sessions and those that are known here exceed the limit.
        """
        session = self._sessions.get(batch.session) or self._begin(batch, now_ms)
        return self._remember(session, batch, first, (), now_ms)

    def recall(self, name: SessionId, next_sequence: int, places: Iterable[tuple[int, int]], now_ms: int) -> None:
        """Take over a session from another orderer. It must not be known here yet.

        Call it for the session that appended last at the end; of too many the first are forgotten.

        Args:
            name: the session.
            next_sequence: sequence number of the first entry of its next batch.
            places: (sequence, offset) of its last batches, ascending, all committed; empty: it counts as
                idle for long.
            now_ms: the present time.
        """
        assert self._known(name) is None, "a session is recalled before it is used"
        placements = deque((OrderedBatch(first, sequence, None, ()) for sequence, first in places), maxlen=BATCHES_MAX)
        if placements:
            self._sessions[name] = _Session(next_sequence, now_ms, placements)
        else:
            self._idle[name] = next_sequence
        if len(self._sessions) > SESSIONS_MAX:
            earliest, session = self._sessions.popitem(last=False)
            self._idle[earliest] = session.next_sequence
        self._bound_idle()

    def _remember(
        self, session: _Session, batch: Batch, first: int, tickets: tuple[Any, ...], now_ms: int
    ) -> OrderedBatch:
        if len(session.placements) >= BATCHES_MAX and session.placements[0].committed:
            session.placements.popleft()
        placement = OrderedBatch(first, batch.first_sequence, batch, tickets)
        session.placements.append(placement)
        session.next_sequence, session.used_ms = batch.stop_sequence, now_ms
        self._sessions.move_to_end(batch.session)
        return placement

    def _known(self, name: SessionId) -> _Session | None:
        """The session, or None. A long idle one has its next sequence number only."""
        session = self._sessions.get(name)
        if session is None and name in self._idle:
            return _Session(self._idle[name], 0)
        return session

    def _admit(self, batch: Batch, now_ms: int) -> _Session:
        self._retire(now_ms)
        if len(self._sessions) >= SESSIONS_MAX:
            raise OverloadedError(f"{SESSIONS_MAX} sessions append here")
        return self._begin(batch, now_ms)

    def _begin(self, batch: Batch, now_ms: int) -> _Session:
        self._idle.pop(batch.session, None)
        session = self._sessions[batch.session] = _Session(batch.first_sequence, now_ms)
        return session

    def _retire(self, now_ms: int) -> None:
        """Drop the batches of sessions that have been idle for `SESSION_KEEP_MS`, up to the first that has not."""
        while self._sessions:
            name, oldest = next(iter(self._sessions.items()))
            pending = bool(oldest.placements) and not oldest.placements[-1].committed
            if now_ms - oldest.used_ms < SESSION_KEEP_MS or pending:
                return
            del self._sessions[name]
            self._idle[name] = oldest.next_sequence
            self._bound_idle()

    def _bound_idle(self) -> None:
        if len(self._idle) > IDLE_MAX:
            del self._idle[next(iter(self._idle))]
            self._has_forgotten = True
