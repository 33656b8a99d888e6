"""View of a node of the Paxos log: the part that moves and checks look at."""

from __future__ import annotations

import attrs

from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.messages import PaxosRecord
from virtuallog_simulation.explorer.paxos.catch_up import PaxosCatchUp
from virtuallog_simulation.explorer.paxos.disk import PaxosDisk
from virtuallog_simulation.explorer.paxos.state import PaxosNodeView, StoredPosition
from virtuallog_simulation.explorer.paxos.texts import value_text


def decision_of(replica: Replica, disk: PaxosDisk, position: int) -> PaxosRecord | None:
    """Record of a position that is known to be decided here; None if it is not."""
    if position < replica.begin or not replica.slots.is_learned(position):
        return None
    record = replica.slots.recent(position) or disk.record(position)
    return None if record is None else attrs.evolve(record, learned=True)


def view_of(
    replica: Replica, core: Coordinator, disk: PaxosDisk, running: PaxosCatchUp | None, boot: int
) -> PaxosNodeView:
    """View of a node."""
    term, members = core.term, core.ensemble.members
    flight = None if term is None else term.replicator.flight
    question = None if term is None else term._pending_reads.confirmation
    attempt = None if running is None else running.attempt
    known = [(p, found) for p in range(replica.begin, replica.end + 1) if (found := decision_of(replica, disk, p))]
    groups = [group for group in (disk.writing, disk.next) if group is not None]
    waiting = [answer.ticket for group in groups for answer in group.answers]
    waiting += [waiter.ticket for waiter in replica._parked._waiters]
    accepted = [] if flight is None else [node for node in members if flight.votes.has_accepted(node)]
    confirmed = [] if question is None else [node for node in members if question.has_answered(node)]
    return PaxosNodeView(
        node=replica.node,
        boot=boot,
        stored_promise=disk.header().promised,
        stored=tuple(
            StoredPosition(each.position, each.promised, each.performed, value_text(each.value), each.learned)
            for each in disk.records()
        ),
        promised=replica.promised,
        learned=tuple((position, value_text(record.value)) for position, record in known),
        state=core.state.value,
        proposal=core.proposal,
        serves=core.state in (CoordinatorState.LEADING, CoordinatorState.CLOSED),
        election=core._number if core.state is CoordinatorState.ELECTING else 0,
        began=0 if term is None else term.replicator._began,
        flight=0 if flight is None else flight.round,
        accepted=frozenset(accepted),
        question=0 if question is None or term is None else term._check_round,
        confirmed=frozenset(confirmed),
        unannounced=term is not None and flight is None and term.replicator.has_unannounced,
        catch_up=() if running is None else running.name,
        attempt=() if running is None or attempt is None else (*running.name, running.attempts, *sorted(attempt._open)),
        filling=running is not None and running.is_filling,
        looking=running is not None and running.is_looking,
        source=0 if running is None else running.source,
        has_hole=replica.learned <= replica.end,
        writing=disk.writing is not None,
        owed=frozenset((ticket[0], ticket[1]) for ticket in waiting if ticket is not None),
        parked=replica.waiting,
    )
