"""Conditional appends that a sequencer has refused, so that a late copy of the call is refused as well.

A refusal is final, but a second copy of the call may be under way. That copy must not be taken.

* If the expected tail is below the tail of the sequencer, it cannot be: the tail never goes back. Nearly all refusals
  are such; they need no memory.
* If the expected tail is still ahead, it could be: the log may have grown to it when the copy arrives. Such a refusal
  is remembered until the tail has passed, or for longer than any copy is under way.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OverloadedError

REJECTED_MAX: Final = 1024
"""Limit of remembered refusals. Expecting a tail that has never been is a guess, so they are few.

All are checked when the table is full.
"""
REJECTED_KEEP_MS: Final = 30_000
"""Time for which a refusal is remembered when the table is full.

A copy of a call is under way for less: its caller waits for five seconds, and a connection that is silent for as
long is closed. A copy that comes later all the same, to a table that was full meanwhile, and meets exactly the tail
that it expects, is taken. Then an entry is in the log although its caller got a TailMismatchError.
"""

_Key: TypeAlias = tuple[SessionId, int, int]
"""Session, sequence, expected tail."""


@attrs.define(eq=False)
class RejectedConditions:
    """Refusals with an expected tail that the log may reach later, the oldest first."""

    _found: dict[_Key, tuple[int, int]] = attrs.field(factory=dict)
    """The tail at the time of the refusal, and that time in milliseconds."""

    def __len__(self) -> int:
        return len(self._found)

    def find(self, batch: Batch, expected_tail: int) -> int | None:
        """The tail at which this call was refused; None if no refusal is remembered."""
        found = self._found.get(_key(batch, expected_tail))
        return None if found is None else found[0]

    def add(self, batch: Batch, expected_tail: int, tail: int, now_ms: int) -> None:
        """Remember that a call is refused, as the tail is not the expected one.

        Raises:
            OverloadedError: the table is full. Nothing was done; the call is not refused for good, so
                its copies may be taken.
        """
        if expected_tail < tail:
            return
        if len(self._found) >= REJECTED_MAX:
            self._forget(tail, now_ms)
        self._found[_key(batch, expected_tail)] = (tail, now_ms)

    def _forget(self, tail: int, now_ms: int) -> None:
        """Drop refusals that the tail has passed, and old ones."""
        self._found = {
            key: (found, then)
            for key, (found, then) in self._found.items()
            if key[2] >= tail and now_ms - then < REJECTED_KEEP_MS
        }
        if len(self._found) >= REJECTED_MAX:
            raise OverloadedError(f"{REJECTED_MAX} conditional appends expect a tail that is still ahead")


def _key(batch: Batch, expected_tail: int) -> _Key:
    return batch.session, batch.first_sequence, expected_tail
