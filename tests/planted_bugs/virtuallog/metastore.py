"""Bugs of the MetaStore: its acceptors, its proposers, its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import ChainConflictError
from virtuallog.contract.ports import Done, DurableMap
from virtuallog.contract.types import NodeId
from virtuallog_metastore import records as records_module
from virtuallog_metastore.core.acceptor import Acceptor, Effect, Message, Reply, VoterCheck
from virtuallog_metastore.core.proposer import Proposer
from virtuallog_metastore.core.quorum import Tally
from virtuallog_metastore.core.rounds import Chosen, Outcome, Vacant
from virtuallog_metastore.core.rounds import Effect as RoundEffect
from virtuallog_metastore.core.survey import Survey
from virtuallog_metastore.drivers.acceptor_driver import AcceptorDriver
from virtuallog_metastore.drivers.client import PaxosMetaStore
from virtuallog_metastore.drivers.round_driver import run_round
from virtuallog_metastore.messages import Accept, Ballot, Decision, Prepare, Standing, Vote

SAFE = ["one value per version", "versions move forward", "refused stays refused", "no unexpected error"]


@mutant(Tally.complete, scenario="ballots", found_by=SAFE)
def majority_of_n_halves(self: Tally) -> bool:
    """n/2 members decide."""
    return len(self._votes) >= max(1, len(self.members) // 2)


@mutant(Acceptor._promise, scenario="ballots", published="Paxos Made Simple, section 2.5", within=200, found_by=SAFE)
def promise_not_made_durable(self: Acceptor, message: Prepare) -> list[Effect]:
    """Promises are kept in memory alone."""
    if self._votes_in(message.slot) and message.ballot > self.promised:
        self.promised = message.ballot
    return []


@mutant(
    AcceptorDriver._perform, scenario="ballots", published="Paxos Made Simple, section 2.5", within=200, found_by=SAFE
)
async def vote_answered_before_it_is_durable(self: AcceptorDriver, message: Message, done: Done) -> None:
    """The answer leaves first, the write follows."""
    effects = self._acceptor.step(message)
    for effect in effects:
        if isinstance(effect, Reply):
            done(effect.outcome)
    for effect in effects:
        if not isinstance(effect, Reply):
            await self._store.write(records_module.changes(effect))


@mutant(Acceptor._accept, scenario="ballots", published="Paxos Made Simple, section 2.2", within=100, found_by=SAFE)
def accepts_below_what_it_has_promised(self: Acceptor, message: Accept) -> list[Effect]:
    """The acceptor does not look at its promise."""
    if not self._votes_in(message.slot):
        return []
    self.promised = message.ballot
    self.accepted = Vote(ballot=message.ballot, proposal=message.proposal)
    return [self._ballots()]


restored = records_module.restore


@mutant(
    records_module.restore, scenario="ballots", published="Paxos Made Simple, section 2.5", within=100, found_by=SAFE
)
async def acceptor_forgets_its_votes_at_a_restart(store: DurableMap, seat: VoterCheck | None = None) -> Acceptor:
    """Only decisions are restored."""
    return Acceptor((await restored(store, seat)).decision)


@mutant(PaxosMetaStore._ballot, scenario="contended", within=60, found_by=SAFE)
def ballot_used_again(self: PaxosMetaStore, round_: int) -> Ballot:
    """A ballot is a round and a node: two lives, or two clients, may have the same."""
    return Ballot(round=round_, node=self._node, boot=0, nonce=0)


@mutant(
    PaxosMetaStore.prepare_put,
    scenario="register",
    published="Paxos Made Simple, section 2.2",
    within=40,
    found_by=SAFE,
)
async def put_prepared_without_promises(self: PaxosMetaStore, expected_version: int) -> None:
    """The ballot counts as promised, also if no majority answered, or one had accepted something."""
    known, ballot = self._known, self._ballot(1)
    if known is not None and known.version == expected_version:
        await run_round(self._services, Proposer(known, ballot, None))
        self._promised = known, ballot


@mutant(
    Proposer._count_promise,
    scenario="ballots",
    published="Paxos Made Simple, section 2.2; CorfuDB 3875",
    within=100,
    found_by=SAFE,
)
def proposer_ignores_what_was_accepted(self: Proposer, node: NodeId, answer: Standing) -> list[RoundEffect]:
    """Phase 2 always proposes the proposer's own value."""
    self._promises.count(node, answer.accepted)
    if self._proposal is not None or not self._promises.complete:
        return []
    highest = self._promises.highest
    self._proposal = self.own if self.own is not None or highest is None else highest.proposal
    return self.start() if self._proposal is not None else promises_counted(self, node, answer)


promises_counted = Proposer._count_promise


@mutant(Survey._conclude, scenario="ballots", published="Delos, OSDI'20, section 4.1", within=60, found_by=SAFE)
def half_accepted_slot_skipped_by_a_read(self: Survey) -> Outcome:
    """A read takes a value that may have been decided for one that was not."""
    chosen = self._tally.chosen
    return Vacant() if chosen is None else Chosen(Decision(version=self.slot, proposal=chosen.proposal))


@mutant(Tally.chosen, scenario="crossed", published="Paxos Made Simple, section 2.3", found_by=SAFE)
def one_vote_taken_for_a_decision(self: Tally) -> Vote | None:
    """A read takes what a single member has accepted for decided."""
    return self.highest


@mutant(Tally.highest, scenario="crossed", published="Paxos Made Simple, section 2.2", found_by=SAFE)
def value_of_the_lowest_ballot_adopted(self: Tally) -> Vote | None:
    """A proposer that finds several accepted values goes on with the oldest one."""
    votes = [vote for vote in self._votes.values() if vote is not None]
    return min(votes, key=lambda vote: vote.ballot, default=None)


put = PaxosMetaStore.put


@mutant(
    PaxosMetaStore.put,
    scenario="contended",
    published="specs: Delos, section 11, case 19",
    within=40,
    found_by=["one winner per version"],
)
async def put_won_by_equal_bytes(
    self: PaxosMetaStore, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
) -> int:
    """A put that lost returns as the winner if the winner's bytes are the same."""
    try:
        return await put(self, value, expected_version, attempt, members)
    except ChainConflictError:
        known = self._known
        if known is None or (known.version, known.proposal.value) != (expected_version + 1, value):
            raise
        return known.version


MUTANTS: Final = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
