"""Bugs in refusals: a false reason, a session that is forgotten without a trace, an error in the wrong task."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.leader_client import _LeaderCall
from virtuallog.client.leader_search import LeaderTarget
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, OverloadedError, ReconfigurationNeededError, TailMismatchError
from virtuallog.contract.ports import Done
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.session_table import OrderedBatch, SessionTable, _Session
from virtuallog_loglets.paxos.core.effects import CoordinatorEffect
from virtuallog_loglets.paxos.core.leader_term import LeaderTerm
from virtuallog_loglets.paxos.core.read_index import LeadershipCheck, OfferedBatch, PendingRead, PendingReads
from virtuallog_loglets.paxos.core.rounds import Rejected
from virtuallog_loglets.paxos.drivers import coordinator_requests
from virtuallog_loglets.paxos.drivers.coordinator_requests import CoordinatorRequests
from virtuallog_loglets.paxos.messages import PaxosAppend, PaxosSeal, PaxosSettle, PaxosTruncate, Standing

TRUE: Final = ["loglet refusals are true"]
TWICE: Final = ["one batch per place", "loglet keeps sessions in order", "loglet refusals are true"]


@mutant(_LeaderCall._has_no_room, scenario="paxos", found_by=["errors as documented"], within=200)
def overloaded_settle_surfaces(self: _LeaderCall[Any], target: LeaderTarget) -> LeaderTarget:
    """A coordinator that has no room for a Settle, a Seal or a Truncate is not asked again: its error is the caller's."""
    assert self._doubt is not None
    raise self._doubt


request_as_it_should = CoordinatorRequests.request


@mutant(CoordinatorRequests.request, scenario="paxos", found_by=["no role closes by a retryable error"], within=200)
def full_queue_ends_the_role(
    self: CoordinatorRequests, request: PaxosAppend | PaxosSeal | PaxosTruncate | PaxosSettle, done: Done
) -> None:
    """A full queue before an election fails the whole role, and so all its callers, not only the refused one."""
    if len(self._early) >= coordinator_requests.EARLY_MAX:
        self._environment.fail(OverloadedError("no coordinator leads yet"))
    request_as_it_should(self, request, done)


@mutant(SessionTable._known, scenario="retired", found_by=TWICE, within=200)
def retired_session_is_taken_for_a_new_one(self: SessionTable, name: SessionId) -> _Session | None:
    """The next numbers of idle sessions are remembered, and not looked up."""
    return self._sessions.get(name)


@mutant(SessionTable._bound_idle, scenario="retired", found_by=TWICE, within=200)
def forgotten_sessions_leave_no_trace(self: SessionTable) -> None:
    """The earliest of too many idle sessions is dropped without a record that an unknown session may be an old one."""
    from virtuallog.exactly_once import session_table

    while len(self._idle) > session_table.IDLE_MAX:
        del self._idle[next(iter(self._idle))]


@mutant(SessionTable._retire, scenario="retired", found_by=[*TWICE, "acknowledged is readable"], within=200)
def sessions_are_retired_at_once(self: SessionTable, now_ms: int) -> None:
    """Every session without a batch in flight gives way to a new one, and its next number is dropped with it."""
    idle = [name for name, each in self._sessions.items() if not each.placements or each.placements[-1].committed]
    for name in idle:
        del self._sessions[name]


@mutant(SessionTable.find, scenario="retired", found_by=TWICE, within=200)
def batch_below_what_is_remembered_is_new(self: SessionTable, batch: Batch, *, opens: bool) -> OrderedBatch | None:
    """A batch of a known session is placed as a new one if it is not among the remembered batches."""
    session = self._known(batch.session)
    if session is None:
        if not opens:
            raise ReconfigurationNeededError("the sequencer has forgotten this session")
        return None
    if batch.first_sequence > session.next_sequence:
        raise OutOfOrderError(session.next_sequence)
    return next((each for each in session.placements if each.sequence == batch.first_sequence), None)


@mutant(SessionTable.find, scenario="retired", found_by=TRUE, within=200)
def forgotten_session_is_told_that_a_batch_is_missing(
    self: SessionTable, batch: Batch, *, opens: bool
) -> OrderedBatch | None:
    """A session that is not known counts as one that has not begun, whether or not any has been forgotten."""
    session = self._known(batch.session)
    if session is None:
        if not opens:
            raise OutOfOrderError(0)
        return None
    if batch.first_sequence == session.next_sequence:
        return None
    if batch.first_sequence > session.next_sequence:
        raise OutOfOrderError(session.next_sequence)
    for placement in session.placements:
        if placement.sequence == batch.first_sequence:
            return placement
    raise ReconfigurationNeededError("the sequencer has forgotten where this batch is")


release_as_it_should = PendingReads.released


@mutant(PendingReads.released, scenario="paxos", found_by=TRUE, within=200)
def refusal_names_an_old_tail(self: PendingReads, committed: int) -> list[PendingRead]:
    """The error of a refused condition names the beginning of the log instead of the tail that was found."""

    def old(each: PendingRead) -> PendingRead:
        error = each.outcome
        if isinstance(error, TailMismatchError):
            return attrs.evolve(each, outcome=TailMismatchError(error.expected, 0))
        return each

    return [old(each) for each in release_as_it_should(self, committed)]


@mutant(LeadershipCheck.count, scenario="superseded", found_by=TRUE)
def one_answer_confirms_the_lead(self: LeadershipCheck, node: NodeId, standing: Standing) -> bool | None:
    """The first replica that knows of no higher promise is enough: the one beside the coordinator never does."""
    self._crash_vector.hear(node, standing.incarnation, standing.incarnations)
    if standing.promised > self.proposal:
        return False
    self._answers[node] = standing
    return True


@mutant(LeaderTerm._hold, scenario="superseded", found_by=TRUE)
def refusals_need_no_confirmed_lead(self: LeaderTerm, offer: OfferedBatch) -> list[CoordinatorEffect]:
    """An offer that looks wrong on arrival is refused for good, once what this coordinator has written is decided."""
    return [*self._judge(offer, is_confirmed=True), *self._release()]


@mutant(LeaderTerm.confirmed, scenario="superseded", found_by=TRUE)
def answer_to_an_earlier_question_confirms(
    self: LeaderTerm, node: NodeId, number: int, standing: Standing
) -> list[CoordinatorEffect]:
    """The question of an answer is not looked at: an answer to one that was sent before a rival was
    elected counts for later callers."""
    confirmation = self._pending_reads.confirmation
    if confirmation is None:
        return []
    match confirmation.count(node, standing):
        case True:
            return self._settle(confirmation)
        case False:
            self.replicator.lost = Rejected(standing.promised, standing.coordinator)
    return []


MUTANTS: Final[tuple[Mutant, ...]] = (
    overloaded_settle_surfaces,
    full_queue_ends_the_role,
    retired_session_is_taken_for_a_new_one,
    forgotten_sessions_leave_no_trace,
    sessions_are_retired_at_once,
    batch_below_what_is_remembered_is_new,
    forgotten_session_is_told_that_a_batch_is_missing,
    refusal_names_an_old_tail,
    one_answer_confirms_the_lead,
    refusals_need_no_confirmed_lead,
    answer_to_an_earlier_question_confirms,
)
