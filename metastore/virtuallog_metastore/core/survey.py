"""The survey: a read of a slot's members that disturbs no proposer.

A `get` that ran Paxos each time would preempt writers: clients that poll could keep a write from
ever ending. So a reader first asks with no ballot, and usually that is all: a majority has accepted
nothing, so no put has returned.
"""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.quorum import Tally
from virtuallog_metastore.core.rounds import (
    Answer,
    Chosen,
    Effect,
    Finish,
    Found,
    HalfAccepted,
    LaggingMembers,
    Outcome,
    Send,
    Unreachable,
    Vacant,
)
from virtuallog_metastore.messages import BALLOT_ZERO, Ask, Ballot, Decision, Learned, Standing


@attrs.define
class Survey:
    """A read-only round that ends as Found, Chosen, Vacant, HalfAccepted or Unreachable."""

    basis: Decision | None
    """The newest known decision; the survey is of the slot after it. None if any decision will do
    (slot 0)."""
    members: tuple[NodeId, ...]
    others: tuple[NodeId, ...] = ()
    """Further nodes, asked only for a newer decision: they have no vote in this slot."""
    slot: int = attrs.field(init=False)
    _promised: Ballot = attrs.field(default=BALLOT_ZERO, init=False)
    _tally: Tally = attrs.field(init=False)
    _lessons: LaggingMembers = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.slot = 0 if self.basis is None else self.basis.version + 1
        self._tally = Tally(self.members)
        self._lessons = LaggingMembers(self.basis)

    def start(self) -> list[Effect]:
        return [Send(self.members + self.others, self._request())]

    def step(self, node: NodeId, answer: Answer) -> list[Effect]:
        if isinstance(answer, Learned):
            return [Send((node,), self._request())]
        assert isinstance(answer, Standing)
        if answer.decision is not None:
            # An answer with an older decision is no answer; taking it would send the client round
            # in circles.
            return [Finish(Found(answer.decision))] if answer.decision.version >= self.slot else []
        if node not in self.members:
            return []
        if self._lessons.lag(answer, self.slot):
            return self._lessons.teach(node)
        self._promised = max(self._promised, answer.promised)
        self._tally.count(node, answer.accepted)
        return [Finish(self._conclude())] if self._tally.complete else []

    def exhausted(self) -> Outcome:
        return Unreachable()

    def _request(self) -> Ask:
        return Ask(slot=self.slot, after=0 if self.basis is None else self.basis.proposal.attempt)

    def _conclude(self) -> Outcome:
        if self._tally.highest is None:
            return Vacant()
        chosen = self._tally.chosen
        if chosen is not None:
            return Chosen(Decision(version=self.slot, proposal=chosen.proposal))
        return HalfAccepted(self._promised)
