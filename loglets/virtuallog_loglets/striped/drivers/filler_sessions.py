"""Sessions of fillers: batches of empty entries, with several sessions per stripe.

An entry of a stripe is either a batch, which is never empty, or a filler. A sequence number of a
session must never stand for two batches, because either may arrive in a late copy of a call. So a
filler that was refused, because the stripe did not end where expected, keeps its number. It is
offered again when a filler of about its size is needed. Other sizes have other sessions.

**A new session for each refusal would be too many.** Of clients that share stripes, most are
refused most of the time, and a sequencer remembers each session for minutes. Its table would be
full of filler sessions, with no room for those that append.
"""

from __future__ import annotations

import random

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog_loglets.striped.core.layout import FILLER


@attrs.define(eq=False)
class _Session:
    name: SessionId
    next_sequence: int = 0
    offered: Batch | None = None
    """Batch that was offered last and is not in the stripe; None if there is none."""


@attrs.define(eq=False)
class FillerSessions:
    """Filler sessions of one stripe, with one batch at a time on its way."""

    _random: random.Random
    _sessions: dict[int, _Session] = attrs.field(factory=dict, init=False)
    """Sessions by size class of their fillers: 1, 2, 3 to 4, 5 to 8, and so on. For at most 1024
    places that is eleven."""
    _size: int = attrs.field(default=0, init=False)
    """Size class of the filler that is on its way."""

    @property
    def opens(self) -> bool:
        """True if the stripe has taken nothing yet of the session of the last `batch`."""
        return self._sessions[self._size].next_sequence == 0

    def batch(self, count: int) -> Batch:
        """Next filler, of about `count` places: one that was refused may have up to twice as many,
        or down to half.

        Afterwards it is `taken`, or it was refused and is not in the stripe, or its session must be
        replaced.
        """
        self._size = (count - 1).bit_length()
        if self._size not in self._sessions:
            self.replace()
        session = self._sessions[self._size]
        if session.offered is None:
            session.offered = Batch.build(session.name, session.next_sequence, [FILLER] * count)
        return session.offered

    def taken(self, batch: Batch) -> None:
        session = self._sessions[self._size]
        session.next_sequence, session.offered = batch.stop_sequence, None

    def replace(self) -> None:
        """Begin a new session in place of that of the last `batch`."""
        self._sessions[self._size] = _Session(SessionId(self._random.randbytes(16)))
