"""Bugs in what is refused: a reason that is not true, a session that is forgotten and does not show it, an error that is nobody's."""

from __future__ import annotations

from typing import Final

import attrs

from tests.mutants.mutant import Mutant, mutant
from virtuallog.batch import Batch, SessionId
from virtuallog.errors import OutOfOrderError, OverloadedError, ReconfigurationNeededError, TailMismatchError
from virtuallog.ordering.sessions import Placement, Sessions, _Session
from virtuallog.ports import Done
from virtuallog.types import NodeId
from virtuallog_loglets.paxos import reception
from virtuallog_loglets.paxos.audience import Audience, Confirmation, Offer, Pending
from virtuallog_loglets.paxos.coordinator_effects import Effect
from virtuallog_loglets.paxos.leader_client import _Errand
from virtuallog_loglets.paxos.leadership import Target
from virtuallog_loglets.paxos.messages import Append, Seal, Settle, Standing, Truncate
from virtuallog_loglets.paxos.reception import Reception
from virtuallog_loglets.paxos.reign import Reign
from virtuallog_loglets.paxos.rounds import Rejected

TRUE: Final = ["loglet refusals are true"]
TWICE: Final = ["one batch per place", "loglet keeps sessions in order", "loglet refusals are true"]


@mutant(_Errand._has_no_room, scenario="paxos", found_by=["errors as documented"], within=200)
def overloaded_settle_surfaces(self: _Errand, target: Target) -> Target:
    """A coordinator that has no room for a Settle, a Seal or a Truncate is not asked again: its error is the caller's."""
    assert self._doubt is not None
    raise self._doubt


request_as_it_should = Reception.request


@mutant(Reception.request, scenario="paxos", found_by=["no role closes by a retryable error"], within=200)
def full_queue_ends_the_role(self: Reception, request: Append | Seal | Truncate | Settle, done: Done) -> None:
    """Whoever finds the queue before an election full is refused, and so is everybody else: the role is told of it."""
    if len(self._early) >= reception.EARLY_MAX:
        self._environment.fail(OverloadedError("no coordinator leads yet"))
    request_as_it_should(self, request, done)


@mutant(Sessions._known, scenario="retired", found_by=TWICE, within=200)
def retired_session_is_taken_for_a_new_one(self: Sessions, name: SessionId) -> _Session | None:
    """Where idle sessions go on is remembered, and not looked up."""
    return self._sessions.get(name)


@mutant(Sessions._bound_idle, scenario="retired", found_by=TWICE, within=200)
def forgotten_sessions_leave_no_trace(self: Sessions) -> None:
    """Too many idle sessions: the earliest goes, and nobody is told that an unknown session may be an old one."""
    from virtuallog.ordering import sessions

    while len(self._idle) > sessions.IDLE_MAX:
        del self._idle[next(iter(self._idle))]


@mutant(Sessions._retire, scenario="retired", found_by=[*TWICE, "acknowledged is readable"], within=200)
def sessions_are_retired_at_once(self: Sessions, now_ms: int) -> None:
    """Whoever is not in the middle of a batch gives way to a newcomer, and with him where he goes on."""
    idle = [name for name, each in self._sessions.items() if not each.placements or each.placements[-1].committed]
    for name in idle:
        del self._sessions[name]


@mutant(Sessions.find, scenario="retired", found_by=TWICE, within=200)
def batch_below_what_is_remembered_is_new(self: Sessions, batch: Batch, *, opens: bool) -> Placement | None:
    """A batch of a known session that is none of those remembered is placed: it must be a new one."""
    session = self._known(batch.session)
    if session is None:
        if not opens:
            raise ReconfigurationNeededError("the sequencer has forgotten this session")
        return None
    if batch.first_sequence > session.next_sequence:
        raise OutOfOrderError(session.next_sequence)
    return next((each for each in session.placements if each.sequence == batch.first_sequence), None)


@mutant(Sessions.find, scenario="retired", found_by=TRUE, within=200)
def forgotten_session_is_told_that_a_batch_is_missing(self: Sessions, batch: Batch, *, opens: bool) -> Placement | None:
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


release_as_it_should = Audience.released


@mutant(Audience.released, scenario="paxos", found_by=TRUE, within=200)
def refusal_names_an_old_tail(self: Audience, committed: int) -> list[Pending]:
    """A refused condition is told the beginning of the log instead of the tail that was found."""

    def old(each: Pending) -> Pending:
        error = each.outcome
        if isinstance(error, TailMismatchError):
            return attrs.evolve(each, outcome=TailMismatchError(error.expected, 0))
        return each

    return [old(each) for each in release_as_it_should(self, committed)]


@mutant(Confirmation.count, scenario="superseded", found_by=TRUE)
def one_answer_confirms_the_lead(self: Confirmation, node: NodeId, standing: Standing) -> bool | None:
    """The first replica that knows of no higher promise is enough: the one beside the coordinator never does."""
    self._roll.hear(node, standing.incarnation, standing.incarnations)
    if standing.promised > self.proposal:
        return False
    self._answers[node] = standing
    return True


@mutant(Reign._hold, scenario="superseded", found_by=TRUE)
def refusals_need_no_confirmed_lead(self: Reign, offer: Offer) -> list[Effect]:
    """An offer that looks wrong on arrival is refused for good, once what this coordinator has written is decided."""
    return [*self._judge(offer, is_confirmed=True), *self._release()]


@mutant(Reign.confirmed, scenario="superseded", found_by=TRUE)
def answer_to_an_earlier_question_confirms(self: Reign, node: NodeId, number: int, standing: Standing) -> list[Effect]:
    """Which question a standing answers is not looked at: one that was sent before a rival was elected counts for later callers."""
    confirmation = self._audience.confirmation
    if confirmation is None:
        return []
    match confirmation.count(node, standing):
        case True:
            return self._settle(confirmation)
        case False:
            self.writing.lost = Rejected(standing.promised, standing.coordinator)
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
