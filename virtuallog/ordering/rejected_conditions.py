"""What a sequencer remembers of conditional appends that it has refused.                                         Pure.

A refusal is told as final, and the call may have a second copy under way. That copy must not be taken.

* It cannot be if the expected tail is below that of the sequencer, which never goes back: nothing to remember. So a
  refusal of somebody who came too late, as nearly all are, costs nothing.
* It can be if the expected tail is still ahead: the log may have grown to it when the copy arrives. Such a refusal is
  remembered until the tail has passed, or for longer than any copy is under way.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OverloadedError

REJECTED_MAX: Final = 1024
"""Who expects a tail that has never been guesses, so they are few. All are looked at when the table is full."""
REJECTED_KEEP_MS: Final = 30_000
"""A copy of a call is under way for less: its caller waits for five seconds, and a connection that is silent for as
long is given up. One that comes later all the same, to a table that was full meanwhile, and meets exactly the tail
that it expects, is taken: an entry is in the log of which its caller was told that it is not."""

_Key: TypeAlias = tuple[SessionId, int, int]
"""Session, sequence, expected tail."""


@attrs.define(eq=False)
class RejectedConditions:
    """Those that a later tail could make right, the oldest first."""

    _found: dict[_Key, tuple[int, int]] = attrs.field(factory=dict)
    """The tail that was found instead, and when."""

    def __len__(self) -> int:
        return len(self._found)

    def find(self, batch: Batch, expected_tail: int) -> int | None:
        """The tail at which this very call was refused; None if that is not known."""
        found = self._found.get(_key(batch, expected_tail))
        return None if found is None else found[0]

    def add(self, batch: Batch, expected_tail: int, tail: int, now_ms: int) -> None:
        """The call is refused, as the tail is not what it expects.

        Raises:
            OverloadedError: too many are remembered that a later tail could make right. Nothing was done; the call is
                not refused for good, so its copies may be taken.
        """
        if expected_tail < tail:
            return
        if len(self._found) >= REJECTED_MAX:
            self._forget(tail, now_ms)
        self._found[_key(batch, expected_tail)] = (tail, now_ms)

    def _forget(self, tail: int, now_ms: int) -> None:
        """Those that have been passed by the tail, and the old ones."""
        self._found = {
            key: (found, then)
            for key, (found, then) in self._found.items()
            if key[2] >= tail and now_ms - then < REJECTED_KEEP_MS
        }
        if len(self._found) >= REJECTED_MAX:
            raise OverloadedError(f"{REJECTED_MAX} conditional appends expect a tail that is still ahead")


def _key(batch: Batch, expected_tail: int) -> _Key:
    return batch.session, batch.first_sequence, expected_tail
