"""Bugs of single-slot Paxos, planted in the core of the MetaStore."""

from __future__ import annotations

from typing import Final

import attrs

from tests.simulation.explorer.mutant import ExploredMutant, explored
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.acceptor import Acceptor, Effect
from virtuallog_metastore.core.proposer import Proposer
from virtuallog_metastore.core.quorum import Tally
from virtuallog_metastore.core.rounds import Answer
from virtuallog_metastore.core.rounds import Effect as RoundEffect
from virtuallog_metastore.messages import Accept, Prepare, Receipt, Vote

promised = Acceptor._promise
stepped = Proposer.step


@explored(Acceptor._accept, configuration="metastore-put", says="")
def promises_bind_no_vote(self: Acceptor, message: Accept) -> list[Effect]:
    """An acceptor accepts a proposal below the ballot that it has promised."""
    if not self._votes_in(message.slot):
        return []
    self.accepted = Vote(ballot=message.ballot, proposal=message.proposal)
    self.promised = message.ballot
    return [self._ballots()]


@explored(Acceptor._promise, configuration="metastore-put", says="forgets what it has accepted")
def a_promise_drops_the_vote(self: Acceptor, message: Prepare) -> list[Effect]:
    """A higher promise takes the place of what was accepted before it is reported."""
    found = promised(self, message)
    if found:
        self.accepted = None
    return found


@explored(Tally.highest, configuration="metastore-put", says="version 1")
def accepted_values_are_passed_over(self: Tally) -> Vote | None:
    """A proposer proposes its own value and no accepted one."""
    return None


@explored(Tally.complete, configuration="metastore-put", says="version 1")
def one_answer_is_a_majority(self: Tally) -> bool:
    """A proposer goes on after the first answer."""
    return len(self._votes) >= 1


@explored(Proposer.step, configuration="metastore-put-3", says="version 1")
def a_refusal_counts_as_a_vote(self: Proposer, node: NodeId, answer: Answer) -> list[RoundEffect]:
    """A proposer does not look at the ballot in the answer to its proposal."""
    if isinstance(answer, Receipt):
        answer = attrs.evolve(answer, promised=self.ballot)
    return stepped(self, node, answer)


MUTANTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, ExploredMutant))
