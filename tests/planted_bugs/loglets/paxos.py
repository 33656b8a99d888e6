"""Bugs of the paxos loglet: its replicas, its proposers, its coordinator, its recovery. Some of them are those of Mesos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Changes, DurableMap, NodeEnvironment, Span
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.session_digest import DigestedSession, SessionDigest
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.effects import (
    CatchUp,
    CoordinatorEffect,
    PaxosPersist,
    PaxosResolve,
    PaxosSend,
    ReplicaEffect,
    ReplicaTicket,
)
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.recovery import FollowQuorum, Recovery
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Rejected, Round, RoundOutcome
from virtuallog_loglets.paxos.core.slots import PaxosSlots
from virtuallog_loglets.paxos.core.tail_check import decided_to
from virtuallog_loglets.paxos.drivers.disk_format import _restore_open, read_records
from virtuallog_loglets.paxos.drivers.group_commit import GroupCommit
from virtuallog_loglets.paxos.drivers.store_incarnation import StoreIncarnation, open_store_incarnation
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    PaxosRecord,
    PaxosRecovered,
    PaxosWrite,
    Promise,
    Promised,
    Standing,
    Status,
    Verdict,
)
from virtuallog_simulation.world.options import Options

written = Replica._write
promised_once = Replica._promise_all
followed = Recovery._follow
stepped_down = Coordinator._step_down
elected = Coordinator.promised
sealed = Coordinator.seal_log
founded = open_store_incarnation
closed = GroupCommit._cut

TWO_VALUES: Final = ["one decision per position", "decided is kept", "one value per number", "no unexpected error"]
"""Consequences of two values for one position: on the disks, or as a replica that refuses to go on."""
DOUBLE: Final = [
    "one batch per sequence",
    "one batch per place",
    "loglet keeps sessions in order",
    "acknowledged is readable",
]


@mutant(
    Replica._write,
    scenario="outbid",
    published="Mesos, src/log/replica.cpp; specs: Mesos, section 0, item 1",
    found_by=[*TWO_VALUES, "replicas forget nothing"],
)
def accepting_does_not_raise_the_promise(
    self: Replica, request: PaxosWrite, ticket: ReplicaTicket
) -> list[ReplicaEffect]:
    """A replica that accepts a write keeps the lower promise that the position had."""
    before = {position: self._floor(position) for position in range(request.first, request.first + len(request.values))}
    effects: list[ReplicaEffect] = []
    for effect in written(self, request, ticket):
        if isinstance(effect, PaxosPersist):
            records = tuple(attrs.evolve(record, promised=before[record.position]) for record in effect.records)
            for record in records:
                self.slots.put(record)
            effect = attrs.evolve(effect, records=records)  # noqa: PLW2901
        effects.append(effect)
    return effects


@mutant(Replica._promise_all, scenario="duel", published="Paxos Made Simple, section 2.5", found_by=TWO_VALUES)
def number_promised_twice(self: Replica, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """The number that was promised last is promised again, to any proposer."""
    if request.proposal == self.promised:
        self.promised -= 1
    return promised_once(self, request, ticket)


@mutant(PaxosSlots._chosen, scenario="outbid", found_by=TWO_VALUES)
def mark_counts_for_lower_numbers(self: PaxosSlots, proposal: int, first: int, stop: int) -> Iterator[PaxosRecord]:
    """When positions are marked decided, a replica takes its accepted value for the decision, without a look at the number."""
    for position in range(first, stop):
        record = self._open.get(position)
        if record is not None and record.performed != NOWHERE:
            yield record


@mutant(
    Recovery._follow,
    scenario="forgetful",
    published="Mesos, src/log/recover.cpp; specs: Mesos, section 0, item 2",
    found_by=TWO_VALUES,
)
def recovery_forgets_the_promise(self: Recovery, voting: list[PaxosRecovered]) -> FollowQuorum:
    """A replica that lost its store recovers what was written, not what was promised."""
    return attrs.evolve(followed(self, voting), promised=0)


@mutant(CrashVector.is_current, scenario="forgetful", published="specs: Mesos, section 0, item 2", found_by=TWO_VALUES)
def votes_of_lost_stores_count(self: CrashVector, node: NodeId, incarnation: int) -> bool:
    """A proposer counts what a replica said before it lost its store."""
    return True


@mutant(
    Round.outcome, scenario="amnesia", published="Mesos, 0.26; specs: Mesos, section 0, item 4", found_by=TWO_VALUES
)
def ignored_counts_as_accepted(self: Round) -> RoundOutcome | None:
    """A replica that does not vote is counted among those that accept."""
    votes = [attrs.evolve(answer, verdict=Verdict.ACCEPT) for answer in self._current()]
    return Accepted(tuple(votes)) if len(votes) >= self._quorum else None


@mutant(decided_to, scenario="paxos", found_by=["loglet tails move forward", "open tails below the stop"])
def tail_of_what_may_be_undecided(standings: Sequence[Standing], quorum: int) -> tuple[int, int]:
    """The tail check takes the highest position that any replica has written for a decided one."""
    return max(standing.end for standing in standings if standing.status is Status.VOTING), NOWHERE


@mutant(
    Coordinator._step_down,
    scenario="outbid",
    published="Mesos, src/log/coordinator.cpp; specs: Mesos, section 0, item 3",
    found_by=TWO_VALUES,
)
def coordinator_goes_on_with_the_number_of_another(self: Coordinator, rejection: Rejected) -> list[CoordinatorEffect]:
    """A refused batch is written again, with the number that was in the way."""
    term = self.term
    flight = None if term is None else term.replicator.flight
    if term is None or flight is None:
        return stepped_down(self, rejection)
    term.replicator.lost, term.replicator.proposal, self.proposal = None, rejection.proposal, rejection.proposal
    flight.write = attrs.evolve(flight.write, proposal=self.proposal)
    flight.votes, flight.round = Round(self.ensemble.quorum, self._crash_vector), next(self._rounds)
    return [PaxosSend(self.ensemble.members, flight.write, flight.round)]


@mutant(Coordinator.promised, scenario="outbid", published="Mesos, MESOS-1165", found_by=TWO_VALUES)
def coordinator_writes_before_it_has_filled(
    self: Coordinator, node: NodeId, number: int, reply: Promised
) -> list[CoordinatorEffect]:
    """An elected coordinator begins behind what all that promised have, not behind what one of them has."""
    effects = elected(self, node, number, reply)
    if self._election is not None and isinstance(outcome := self._election.outcome, Accepted) and effects:
        self._end = min(answer.end for answer in outcome.answers)
        return [CatchUp(self._end + 1, self.proposal + 1)]
    return effects


@mutant(SessionDigest.sessions, scenario="duel", found_by=DOUBLE)
def sessions_forgotten_at_a_failover(self: SessionDigest) -> Iterator[DigestedSession]:
    """The next leader knows nothing of the batches that are in the log."""
    return iter(())


@mutant(PositionDigest.encode_below, scenario="truncated", found_by=[*DOUBLE, "loglet refusals are true", "progress"])
def truncate_carries_no_sessions(self: PositionDigest, position: int) -> bytes:
    """A replica that has missed the dropped batches knows nothing of their sessions."""
    return b""


@mutant(open_store_incarnation, scenario="forgetful", found_by=TWO_VALUES)
async def lost_store_taken_for_a_new_one(store: DurableMap, environment: NodeEnvironment) -> StoreIncarnation:
    """A replica that finds its store empty votes at once, as if its node were new."""
    return await founded(store, attrs.evolve(environment, is_lost=lambda role: False))


@mutant(_restore_open, scenario="outbid", found_by=TWO_VALUES)
async def accepted_counts_as_decided_after_a_restart(store: DurableMap, segment: SegmentId, slots: PaxosSlots) -> None:
    """A replica that starts again takes all that it had accepted for learned."""
    found = await read_records(store, segment, slots.learned, 1 << 62, 1 << 30)
    for record in found:
        if record.performed != NOWHERE and not slots.is_learned(record.position):
            slots.learn(attrs.evolve(record, learned=True))


@mutant(
    Coordinator.seal_log,
    scenario="duel",
    within=100,
    found_by=["sealed takes nothing", "loglet tails move forward", "acknowledged below the stop"],
)
def seal_told_before_it_is_decided(self: Coordinator, ticket: ReplicaTicket) -> list[CoordinatorEffect]:
    """The sealing client is answered when the SEAL is about to be written."""
    if self.state is not CoordinatorState.LEADING:
        return sealed(self, ticket)
    return [*sealed(self, lambda _: None), PaxosResolve(ticket, self._end + 1)]


@mutant(Round.outcome, scenario="duel", published="Paxos Made Simple, section 2.1", found_by=TWO_VALUES)
def one_less_than_a_quorum_decides(self: Round) -> RoundOutcome | None:
    """Two rounds need not share a replica."""
    accepts = tuple(answer for answer in self._current() if answer.verdict is Verdict.ACCEPT)
    return Accepted(accepts) if len(accepts) >= self._quorum - 1 else None


@mutant(
    GroupCommit._cut,
    scenario="paxos",
    options=Options(faults=("slow disks", "blackout")),
    found_by=["acknowledged is on a quorum"],
)
def answered_before_the_write(self: GroupCommit) -> tuple[Changes, Sequence[Span]]:
    """A replica answers when a group of changes is closed, before it is written."""
    assert self._next is not None
    releases, self._next.releases = self._next.releases, []
    for release in releases:
        release()
    return closed(self)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
