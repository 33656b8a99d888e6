"""Fillers: batches of empty entries in sessions of their own, one for each stripe.                                      Pure.

An entry of a stripe is a batch, which is never empty, or else a filler. No number of a session may ever stand for two batches, as
nobody knows which of them a late copy of a call brings. So what was refused, as the stripe did not end where it was expected, is
offered again as it was if it fits, and a session that gets into trouble is replaced: what became of it does not matter.
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
    _offered: Batch | None = attrs.field(default=None, init=False)
    """What was offered last and is not in the stripe."""

    def __attrs_post_init__(self) -> None:
        self.replace()

    @property
    def opens(self) -> bool:
        """The stripe has taken nothing of the session yet."""
        return self._next_sequence == 0

    def batch(self, count: int) -> Batch:
        """The next filler. Either it is `taken`, or it was refused and is not in the stripe, or the session must be replaced."""
        if self._offered is None or self._offered.count != count:
            if self._offered is not None:
                self.replace()
            self._offered = Batch.build(self._session, self._next_sequence, [FILLER] * count)
        return self._offered

    def taken(self, batch: Batch) -> None:
        self._next_sequence, self._offered = batch.stop_sequence, None

    def replace(self) -> None:
        """Begin a new session."""
        self._session, self._next_sequence, self._offered = SessionId(self._random.randbytes(16)), 0, None
