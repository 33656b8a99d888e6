"""Fillers: batches of empty entries in sessions of their own, one for each stripe.                                      Pure.

An entry of a stripe is a batch, which is never empty, or else a filler. A session that gets into trouble is replaced: no number
of a session must ever stand for two batches, and what became of the old ones does not matter.
"""

from __future__ import annotations

import random
from typing import Final

import attrs

from virtuallog.batch import Batch, SessionId

FILLER: Final = b""
"""The entry that is none."""


@attrs.define(eq=False)
class Padding:
    """The filler session of one stripe, with one batch at a time on its way."""

    _random: random.Random
    _session: SessionId = attrs.field(init=False)
    _next_sequence: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.replace()

    @property
    def opens(self) -> bool:
        """The stripe has taken nothing of the session yet."""
        return self._next_sequence == 0

    def batch(self, count: int) -> Batch:
        """The next filler. Until it is `taken` it is not in the stripe, or else the session must be replaced."""
        return Batch.build(self._session, self._next_sequence, [FILLER] * count)

    def taken(self, batch: Batch) -> None:
        self._next_sequence = batch.stop_sequence

    def replace(self) -> None:
        """Begin a new session."""
        self._session, self._next_sequence = SessionId(self._random.randbytes(16)), 0
