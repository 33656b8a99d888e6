"""Bugs of a replicated log, planted in the cores of the Paxos log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from tests.simulation.explorer.mutant import ExploredMutant, explored
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import DurableMap
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import tail_check, values
from virtuallog_loglets.paxos.core.coordinator import Coordinator
from virtuallog_loglets.paxos.core.effects import (
    CoordinatorEffect,
    PaxosAnswer,
    PaxosPersist,
    ReplicaEffect,
    ReplicaTicket,
)
from virtuallog_loglets.paxos.core.fill_attempt import FillAttempt, FillEffect
from virtuallog_loglets.paxos.core.leader_term import LeaderTerm
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.proposal_queue import ClientTicket, QueuedPosition
from virtuallog_loglets.paxos.core.read_index import PendingRead
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.replication import Replicator
from virtuallog_loglets.paxos.core.slots import PaxosSlots
from virtuallog_loglets.paxos.core.tail_check import cover_of, decided_to
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.messages import (
    PaxosRecord,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Standing,
    Verdict,
)

chosen = FillAttempt._choose
counted = Replicator.written
promised = Replica._promise_all
some_promised = Replica._promise_some
started = Replicator.start
told = Coordinator.promised
written = Replica._write


# -- replicas ---------------------------------------------------------------------------------------------------------


@explored(Replica._promise_all, configuration="paxos-election", says="before that is on its disk")
def a_promise_is_not_persisted(self: Replica, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """An implicit promise is answered, and not written."""
    return [effect for effect in promised(self, request, ticket) if not isinstance(effect, PaxosPersist)]


@explored(Replica._promise_some, configuration="paxos-election", says="at 0 before that is on its disk")
def a_promise_of_a_position_is_not_persisted(
    self: Replica, request: Promise, ticket: ReplicaTicket
) -> list[ReplicaEffect]:
    """An explicit promise is answered, and not written."""
    return [effect for effect in some_promised(self, request, ticket) if not isinstance(effect, PaxosPersist)]


@explored(Replica._promise_all, configuration="paxos-duel", says="two coordinators are elected with one number")
def a_number_is_promised_twice(self: Replica, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """A replica promises a number again that it has promised."""
    if request.proposal == self.promised:
        return [PaxosAnswer(ticket, self._answer(Promised, Verdict.ACCEPT, request.proposal))]
    return promised(self, request, ticket)


@explored(Replica._promise_all, configuration="paxos-duel", says="goes back")
def a_lower_number_is_promised(self: Replica, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """A replica promises what it is asked for."""
    self.promised = request.proposal
    return [PaxosPersist(), PaxosAnswer(ticket, self._answer(Promised, Verdict.ACCEPT, request.proposal))]


@explored(Replica._write, configuration="paxos-failover", says="takes a promise back at")
def a_write_needs_no_promise(self: Replica, request: PaxosWrite, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """A replica accepts a value below what it has promised."""
    position, slots = request.first, self.slots
    if slots.is_learned(position):
        return written(self, request, ticket)
    record = PaxosRecord(
        position=position, promised=request.proposal, performed=request.proposal, value=request.values[0]
    )
    slots.put(record)
    return [PaxosPersist((record,)), PaxosAnswer(ticket, self._answer(PaxosWritten, Verdict.ACCEPT, request.proposal))]


@explored(Replica._write, configuration="paxos-outbid", says="takes an acceptance back at")
def accepting_raises_no_promise(self: Replica, request: PaxosWrite, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """The record of an accepted value keeps the promise that the position had before: defect 1 of docs/internals/sources.md."""
    floor = self._floor(request.first)
    effects = written(self, request, ticket)
    record = self.slots.open_record(request.first)
    if record is None or record.performed != request.proposal:
        return effects
    kept = attrs.evolve(record, promised=floor)
    self.slots.put(kept)
    return [PaxosPersist((kept,)) if isinstance(each, PaxosPersist) and each.records else each for each in effects]


@explored(PaxosSlots._chosen, configuration="paxos-outbid", says="which no majority has accepted")
def what_was_accepted_is_what_was_decided(
    self: PaxosSlots, proposal: int, first: int, stop: int
) -> Iterator[PaxosRecord]:
    """A replica takes its own value for the decision, though it was accepted with a lower number."""
    yield from (each for position, each in sorted(self._open.items()) if first <= position < stop and each.value)


@explored(PaxosSlots._close, configuration="paxos-seal-duel", says="behind a SEAL")
def a_learned_seal_closes_nothing(self: PaxosSlots) -> None:
    """A replica takes a SEAL for a position like others, so the next coordinator writes behind it."""


@explored(disk_format._restore_open, configuration="paxos-crash", says="takes an acceptance back at")
async def a_restart_forgets_what_is_undecided(store: DurableMap, segment: SegmentId, slots: PaxosSlots) -> None:
    """A replica begins with its header and what it knows to be decided."""


# -- fills ------------------------------------------------------------------------------------------------------------


@explored(FillAttempt._choose, configuration="paxos-failover", says="accepts NOP at 1 with")
def a_fill_lays_a_nop_over_a_value(self: FillAttempt, answers: Iterable[Promised | PaxosWritten]) -> list[FillEffect]:
    """A fill passes over what replicas have accepted and do not know to be decided."""
    return chosen(self, [attrs.evolve(each, records=tuple(r for r in each.records if r.learned)) for each in answers])


@explored(FillAttempt._choose, configuration="paxos-seal-failover", says="and SEAL is chosen")
def a_seal_is_not_recovered(self: FillAttempt, answers: Iterable[Promised | PaxosWritten]) -> list[FillEffect]:
    """A fill lays a NOP where a SEAL was accepted."""

    def kept(records: Sequence[PaxosRecord]) -> tuple[PaxosRecord, ...]:
        return tuple(each for each in records if each.learned or values.kind_of(each.value) is not ValueKind.SEAL)

    return chosen(self, [attrs.evolve(each, records=kept(each.records)) for each in answers])


@explored(FillAttempt._choose, configuration="paxos-again", says="and 2 is chosen")
def a_fill_takes_the_lowest_number(self: FillAttempt, answers: Iterable[Promised | PaxosWritten]) -> list[FillEffect]:
    """A fill writes the accepted value with the lowest number."""
    lowest: dict[int, int] = {}
    given = list(answers)
    for record in (each for answer in given for each in answer.records):
        lowest[record.position] = min(record.performed, lowest.get(record.position, record.performed))
    return chosen(
        self,
        [
            attrs.evolve(each, records=tuple(r for r in each.records if r.performed == lowest[r.position]))
            for each in given
        ],
    )


# -- coordinators -----------------------------------------------------------------------------------------------------


@explored(Replicator.start, configuration="paxos-append", says="which no majority has accepted")
def one_vote_decides(self: Replicator, item: QueuedPosition, now_ms: int, time_ms: int) -> list[CoordinatorEffect]:
    """A coordinator acknowledges what one replica has accepted."""
    effects = started(self, item, now_ms, time_ms)
    assert self.flight is not None
    self.flight.votes._quorum = 1
    return effects


@explored(Coordinator.promised, configuration="paxos-outbid", says="and 1 is chosen")
def the_end_is_the_lowest(self: Coordinator, node: NodeId, number: int, reply: Promised) -> list[CoordinatorEffect]:
    """An elected coordinator goes on behind what all of its quorum have."""
    return told(self, node, number, attrs.evolve(reply, end=0))


@explored(Coordinator.promised, configuration="paxos-duel", says="nodes have promised")
def promises_of_an_earlier_election_count(
    self: Coordinator, node: NodeId, number: int, reply: Promised
) -> list[CoordinatorEffect]:
    """A coordinator takes an answer for one to its present number."""
    return told(self, node, self._number, reply)


@explored(PositionDigest._take_batches, configuration="paxos-repeat", says="a batch is in the log twice")
def batches_of_earlier_terms_are_not_known(self: PositionDigest, position: int, value: bytes) -> None:
    """A coordinator begins without the sessions of what others have decided."""


@explored(LeaderTerm.settle, configuration="paxos-tail", says="was the least before")
def a_tail_needs_no_confirmed_lead(self: LeaderTerm, past: int, ticket: ClientTicket) -> list[CoordinatorEffect]:
    """A coordinator answers with its tail, though others may have been elected."""
    self._pending_reads.wait(PendingRead(ticket, self._proposals.next, None, past))
    return self._release()


@explored(cover_of, used_in=tail_check, configuration="paxos-check", says="was the least before")
def a_check_covers_what_all_have(standings: Mapping[NodeId, Standing], replicas: int, quorum: int) -> int | None:
    """The tail is behind the lowest end."""
    return min(each.end for each in standings.values()) if len(standings) >= quorum else None


@explored(decided_to, used_in=tail_check, configuration="paxos-check", says="is not decided")
def a_check_counts_one_acceptance(standings: Sequence[Standing], quorum: int) -> tuple[int, int]:
    """A position that one replica has accepted is taken for decided."""
    return decided_to(standings, 1)


MUTANTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, ExploredMutant))
