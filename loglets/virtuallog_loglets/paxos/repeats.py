"""What a batch that was offered before is told: the same as then.                                                  Pure.

The network repeats requests, and clients send them again, to whoever leads. So the place of a batch is its place for ever, and
once refused it stays so.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.batch import Batch
from virtuallog.errors import (
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.ordering.refusals import Refusals
from virtuallog.ordering.sessions import Placement, Sessions
from virtuallog_loglets.paxos.agenda import Ticket
from virtuallog_loglets.paxos.coordinator_effects import Effect, Resolve

TICKETS_MAX: Final = 4
"""Callers that wait for one batch: the latest few of those who offered it. Earlier ones have given up."""


@attrs.define(eq=False)
class Repeats:
    """What is remembered of batches."""

    sessions: Sessions
    _refusals: Refusals

    def known(self, batch: Batch, ticket: Ticket, *, opens: bool) -> list[Effect] | None:
        """What follows if the batch has a place; None: it has none.

        Raises:
            VirtualLogError: it cannot get one, see `Sessions.find`; or there is another batch in its place.
        """
        placement = self.sessions.find(batch, opens=opens)
        return None if placement is None else _again(placement, batch, ticket)

    def check_tail(self, batch: Batch, expected_tail: int, tail: int) -> None:
        """Whether a conditional append may have its place. Once refused it stays so: a second copy of the call may arrive when the tail
        is what it expects, and its caller has long gone on.

        Raises:
            TailMismatchError: it may not, as far as is known here.
        """
        found = self._refusals.find(batch, expected_tail)
        if found is not None or expected_tail != tail:
            raise TailMismatchError(expected_tail, tail if found is None else found)

    def remember(self, batch: Batch, mismatch: TailMismatchError, now_ms: int) -> None:
        """This refusal is told as final.

        Raises:
            OverloadedError: see `Refusals.add`.
        """
        self._refusals.add(batch, mismatch.expected, mismatch.found, now_ms)

    def turned_away(self, batch: Batch | None) -> VirtualLogError:
        """The error for what comes after the end. It says that nothing is in the log only if that is so: this
        may be the second copy of an offer, and its answer may arrive before the first one's."""
        return SealedError(refused=batch is not None and not self.sessions.may_have_placed(batch))


def _again(placement: Placement, batch: Batch, ticket: Ticket) -> list[Effect]:
    """The place a batch has is its place for ever; if it is not decided yet, its caller waits with the others."""
    if placement.committed:
        return [Resolve(ticket, placement.first)]
    if placement.batch != batch:
        raise ReconfigurationNeededError("two different batches of a session have the same sequence number")
    placement.tickets += (ticket,)
    if len(placement.tickets) <= TICKETS_MAX:
        return []
    earliest, *others = placement.tickets
    placement.tickets = tuple(others)
    return [Resolve(earliest, UnavailableError("the same batch was offered again and again"))]
