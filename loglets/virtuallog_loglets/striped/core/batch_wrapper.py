"""Batches as entries of a stripe: each is wrapped whole in a batch with that one entry.

Within the loglet a session numbers its entries; within the stripe it numbers its batches. Batch 0
is the first one that it offers here, with `opens`. So a batch that is offered again is wrapped into
the same bytes as before, and the stripe recognizes it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, ReconfigurationNeededError

SESSIONS_MAX: Final = 4096
"""Most sessions of one client, which has a handful."""
BATCHES_MAX: Final = 64
"""Most batches remembered per session, as in a sequencer: an appender has far fewer in flight."""


@attrs.define(eq=False)
class _Session:
    next_sequence: int
    number: int = 0
    """Number of the next batch."""
    recent: deque[tuple[int, int]] = attrs.field(factory=lambda: deque(maxlen=BATCHES_MAX))
    """(first sequence, number) of the last batches."""


@attrs.define(eq=False)
class BatchWrapper:
    """Sessions that append through one client of the loglet, in order of last use."""

    _sessions: OrderedDict[SessionId, _Session] = attrs.field(factory=OrderedDict)
    _has_forgotten: bool = False

    def wrap(self, batch: Batch, *, opens: bool) -> Batch:
        """Wrap a batch as an entry of a stripe.

        Raises:
            OutOfOrderError: its predecessor has not been offered. Nothing has been done.
            ReconfigurationNeededError: it may have been offered long ago; its number has been forgotten.
            TooLargeError: with its wrapping it is too large for the stripe.
        """
        session = self._sessions.get(batch.session)
        if session is None:
            session = self._begin(batch, opens=opens)
        number = self._number(session, batch)
        wrapped = Batch.build(batch.session, number, [batch.blob])
        if number == session.number:
            session.number, session.next_sequence = number + 1, batch.stop_sequence
            session.recent.append((batch.first_sequence, number))
        self._keep(batch.session, session)
        return wrapped

    def translate(self, session: SessionId, error: OutOfOrderError) -> OutOfOrderError:
        """Translate a stripe's error about batch numbers into entry numbers."""
        known = self._sessions.get(session)
        recent = known.recent if known is not None else ()
        return OutOfOrderError(next((first for first, number in recent if number == error.expected_sequence), 0))

    def _begin(self, batch: Batch, *, opens: bool) -> _Session:
        if opens:
            return _Session(batch.first_sequence)
        if self._has_forgotten:
            raise ReconfigurationNeededError("the client of the stripes has forgotten this session")
        raise OutOfOrderError(0)

    def _number(self, session: _Session, batch: Batch) -> int:
        if batch.first_sequence == session.next_sequence:
            return session.number
        if batch.first_sequence > session.next_sequence:
            raise OutOfOrderError(session.next_sequence)
        for first, number in session.recent:
            if first == batch.first_sequence:
                return number
        raise ReconfigurationNeededError("the client of the stripes has forgotten the number of this batch")

    def _keep(self, name: SessionId, session: _Session) -> None:
        self._sessions[name] = session
        self._sessions.move_to_end(name)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
            self._has_forgotten = True
