"""The proposer: decides one slot, with one ballot.

Paxos Made Simple, section 2.2: phase 1 asks a majority for promises and learns what was accepted;
phase 2 proposes the accepted value with the highest ballot, or the proposer's own if there is none.
So the next proposer either finishes or outvotes a value that only one acceptor has accepted; it can
block no client (CorfuDB's livelock, C#3875).

The first refusal ends the attempt: its ballot is behind, and the next one will not be.

The two phases may be two rounds. Phase 1 without a proposal of its own ends as `Vacant` if a majority has promised and
accepted nothing; phase 2 (`second_phase`) may follow at any later time. A promise does not age: an acceptor that
has promised a higher ballot since refuses the proposal, and the put starts anew.
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
    LaggingMembers,
    Outcome,
    Preempted,
    Send,
    Unreachable,
    Vacant,
)
from virtuallog_metastore.messages import Accept, Ballot, Decision, Learned, Prepare, Proposal, Receipt, Standing


@attrs.define
class Proposer:
    """A round that ends as Chosen, Found, Preempted, Unreachable or, without a proposal of its own,
    Vacant."""

    basis: Decision
    """The decision before the slot. Its members are the slot's acceptors."""
    ballot: Ballot
    """A ballot that no proposer has used before."""
    own: Proposal | None
    """The proposer's own proposal; None to finish only what was accepted, if anything."""
    _proposal: Proposal | None = attrs.field(default=None, init=False)
    """The proposal of phase 2; None in phase 1."""
    _promises: Tally = attrs.field(init=False)
    _votes: Tally = attrs.field(init=False)
    _lessons: LaggingMembers = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._promises = Tally(self.basis.members)
        self._votes = Tally(self.basis.members)
        self._lessons = LaggingMembers(self.basis)

    @classmethod
    def second_phase(cls, basis: Decision, ballot: Ballot, own: Proposal) -> Proposer:
        """A round that proposes `own`, after a first phase with `ballot` that ended as `Vacant`.

        At most once for a ballot: two proposals of one ballot could both be chosen.
        """
        proposer = cls(basis, ballot, own)
        proposer._proposal = own
        return proposer

    @property
    def slot(self) -> int:
        return self.basis.version + 1

    def start(self) -> list[Effect]:
        return [Send(self.basis.members, self._request())]

    def step(self, node: NodeId, answer: Answer) -> list[Effect]:
        if isinstance(answer, Learned):
            return [Send((node,), self._request())]
        if answer.decision is not None:
            # An answer with an older decision is no answer; taking it would send the client round
            # in circles.
            return [Finish(Found(answer.decision))] if answer.decision.version >= self.slot else []
        if self._lessons.lag(answer, self.slot):
            return self._lessons.teach(node)
        if answer.promised > self.ballot:
            return [Finish(Preempted(answer.promised))]
        if isinstance(answer, Receipt):
            return self._count_vote(node)
        return self._count_promise(node, answer)

    def exhausted(self) -> Outcome:
        return Unreachable()

    def _request(self) -> Prepare | Accept:
        slot, after = self.slot, self.basis.proposal.attempt
        if self._proposal is None:
            return Prepare(slot=slot, after=after, ballot=self.ballot)
        return Accept(slot=slot, after=after, ballot=self.ballot, proposal=self._proposal)

    def _count_promise(self, node: NodeId, answer: Standing) -> list[Effect]:
        if self._proposal is not None:
            return []  # a straggler: phase 2 goes to it as well
        self._promises.count(node, answer.accepted)
        if not self._promises.complete:
            return []
        highest = self._promises.highest
        self._proposal = self.own if highest is None else highest.proposal
        return [Finish(Vacant())] if self._proposal is None else self.start()

    def _count_vote(self, node: NodeId) -> list[Effect]:
        assert self._proposal is not None, "a receipt answers phase 2"
        self._votes.count(node)
        if not self._votes.complete:
            return []
        return [Finish(Chosen(Decision(version=self.slot, proposal=self._proposal)))]
