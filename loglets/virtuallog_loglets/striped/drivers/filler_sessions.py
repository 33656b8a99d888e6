"""Fillers: batches of empty entries in sessions of their own, some for each stripe.                                      Pure.

An entry of a stripe is a batch, which is never empty, or else a filler. No number of a session may ever stand for two batches, as
nobody knows which of them a late copy of a call brings. So what was refused, as the stripe did not end where it was expected, keeps
its number, and is offered again when a filler of about its size is needed; others have other sessions.

**A new session for each refusal would be too many**: of clients that share stripes most are refused most of the time, and a sequencer
remembers each session for minutes. Its table would be full of them, and there would be no place for those that append.
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
    """What was offered last and is not in the stripe."""


@attrs.define(eq=False)
class FillerSessions:
    """The filler sessions of one stripe, with one batch at a time on its way."""

    _random: random.Random
    _sessions: dict[int, _Session] = attrs.field(factory=dict, init=False)
    """By size of their fillers: 1, 2, 3 to 4, 5 to 8, and so on. Of 1024 places at most, that is eleven."""
    _size: int = attrs.field(default=0, init=False)
    """Of the filler that is on its way."""

    @property
    def opens(self) -> bool:
        """The stripe has taken nothing yet of the session that the last `batch` is in."""
        return self._sessions[self._size].next_sequence == 0

    def batch(self, count: int) -> Batch:
        """The next filler, of about so many places: one that was refused may have up to twice as many, or down to half.

        Either it is `taken`, or it was refused and is not in the stripe, or its session must be replaced.
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
        """Begin a new session in place of the one that the last `batch` is in."""
        self._sessions[self._size] = _Session(SessionId(self._random.randbytes(16)))
