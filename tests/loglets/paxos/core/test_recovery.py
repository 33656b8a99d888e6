"""Recovery of a replica that does not vote: the scenarios of Mesos, and the promises that Mesos forgets."""

from __future__ import annotations

import pytest

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.recovery import BecomeStatus, FollowQuorum, Recovery, RecoveryStep
from virtuallog_loglets.paxos.messages import Incarnation, PaxosRecovered, Status

EMPTY, STARTING, RECOVERING, VOTING = Status.EMPTY, Status.STARTING, Status.RECOVERING, Status.VOTING


def recovered(
    status: Status,
    begin: int = 0,
    end: int = 0,
    promised: int = 0,
    trim: int = 0,
    incarnation: int = 1,
    told: tuple[tuple[int, int], ...] = (),
) -> PaxosRecovered:
    return PaxosRecovered(
        status=status,
        promised=promised,
        begin=begin,
        end=end,
        incarnation=incarnation,
        incarnations=tuple(Incarnation(node=NodeId(node), incarnation=number) for node, number in told),
        trim=trim,
    )


def next_step_of(
    own: PaxosRecovered | Status, *others: PaxosRecovered | Status, quorum: int = 2, auto_initialize: bool = False
) -> RecoveryStep | None:
    """Step of node 1, once nodes 2, 3, ... have answered in this order."""
    recovery = Recovery(NodeId(1), own if isinstance(own, PaxosRecovered) else recovered(own), quorum, auto_initialize)
    for node, answer in enumerate(others, 2):
        recovery.answered(NodeId(node), answer if isinstance(answer, PaxosRecovered) else recovered(answer))
    return recovery.next_step


def status_after(own: Status, *others: Status, auto_initialize: bool) -> Status | None:
    """The status that is to be taken next; None: ask again."""
    match next_step_of(own, *others, auto_initialize=auto_initialize):
        case BecomeStatus() as become:
            return become.status
        case FollowQuorum():
            return RECOVERING
        case None:
            return None


@pytest.mark.parametrize(
    ("own", "others", "without", "with_auto"),
    [
        # The six of Mesos, quorum 2.
        (EMPTY, (VOTING, VOTING, VOTING), RECOVERING, RECOVERING),  # a fourth voter: the operator has removed one
        (EMPTY, (VOTING, VOTING), RECOVERING, RECOVERING),
        (EMPTY, (VOTING,), None, None),  # stays empty until a second one votes
        (EMPTY, (VOTING, EMPTY), None, None),  # stuck: the knowledge of the two empty ones is lost
        (EMPTY, (EMPTY, EMPTY), None, STARTING),
        (EMPTY, (), None, None),
        # And the rest of the way.
        (EMPTY, (EMPTY,), None, None),  # the third may know something
        (EMPTY, (EMPTY, STARTING), None, STARTING),
        (EMPTY, (STARTING, STARTING), None, STARTING),
        (EMPTY, (STARTING, VOTING), None, None),
        (EMPTY, (EMPTY, RECOVERING), None, None),
        (STARTING, (EMPTY, STARTING), None, None),
        (STARTING, (STARTING, STARTING), None, VOTING),
        (STARTING, (STARTING, VOTING), None, VOTING),
        (STARTING, (STARTING,), None, None),
        (STARTING, (VOTING, VOTING), RECOVERING, RECOVERING),  # a quorum that votes goes before all else
        # After a crash while it was catching up, for any reason.
        (RECOVERING, (VOTING, VOTING), RECOVERING, RECOVERING),
        (RECOVERING, (VOTING, EMPTY), None, None),
        (RECOVERING, (STARTING, STARTING), None, None),
    ],
)
def test_scenarios(own: Status, others: tuple[Status, ...], without: Status | None, with_auto: Status | None) -> None:
    """Each case gives the next step, without auto-initialisation and with it."""
    assert status_after(own, *others, auto_initialize=False) is without
    assert status_after(own, *others, auto_initialize=True) is with_auto


def test_a_log_of_one_replica() -> None:
    """With quorum 1 a replica may found a log alone, and has no quorum to follow."""
    assert next_step_of(EMPTY, quorum=1) is None
    assert next_step_of(EMPTY, quorum=1, auto_initialize=True) == BecomeStatus(status=STARTING)
    assert next_step_of(STARTING, quorum=1, auto_initialize=True) == BecomeStatus(status=VOTING)


def test_what_a_quorum_knows_is_taken_over() -> None:
    """The range is as wide as that of the voting replicas; the promise is the highest, also if nothing was written with it."""
    verdict = next_step_of(
        recovered(EMPTY, incarnation=7),
        recovered(VOTING, begin=5, end=20, promised=3, trim=10),
        recovered(VOTING, begin=2, end=18, promised=9),
    )

    assert verdict == FollowQuorum(
        begin=2,
        end=20,
        promised=9,
        incarnations=(Incarnation(node=NodeId(2), incarnation=1), Incarnation(node=NodeId(3), incarnation=1)),
        trim=10,
    )


def test_answers_of_replicas_that_do_not_vote_tell_nothing() -> None:
    """They may have forgotten as well: their range and promise are no reason to wait for positions
    that no replica has."""
    verdict = next_step_of(
        EMPTY, recovered(RECOVERING, end=99, promised=99), recovered(VOTING, end=4), recovered(VOTING, end=5)
    )

    assert isinstance(verdict, FollowQuorum)
    assert (verdict.end, verdict.promised) == (5, 0)


def test_a_voting_replica_counts_itself() -> None:
    """Catching up without leading, it is one of the quorum that it asks."""
    verdict = next_step_of(recovered(VOTING, begin=3, end=8), recovered(VOTING, begin=5, end=11))

    assert isinstance(verdict, FollowQuorum)
    assert (verdict.begin, verdict.end) == (3, 11)


def test_two_answers_of_one_node_are_one() -> None:
    """The network may repeat an answer; that is no second vote."""
    recovery = Recovery(NodeId(1), recovered(EMPTY), quorum=2)

    recovery.answered(NodeId(2), recovered(VOTING))
    recovery.answered(NodeId(2), recovered(VOTING))

    assert recovery.next_step is None


def test_an_answer_of_a_store_that_is_gone_does_not_count() -> None:
    """Node 2 answered, then lost its disk, too, and asked node 3, which says so."""
    former = recovered(VOTING, incarnation=1)

    assert next_step_of(EMPTY, former, recovered(VOTING, told=((2, 5),))) is None
    assert isinstance(next_step_of(EMPTY, former, recovered(VOTING, told=((2, 1),))), FollowQuorum)


def test_a_late_answer_of_a_former_store_does_not_take_the_place_of_a_newer_one() -> None:
    """The former store voted, but what it knew is lost: its vote would make a quorum that does not exist."""
    recovery = Recovery(NodeId(1), recovered(EMPTY), quorum=2)

    recovery.answered(NodeId(2), recovered(EMPTY, incarnation=5))
    recovery.answered(NodeId(2), recovered(VOTING, incarnation=1))
    recovery.answered(NodeId(3), recovered(VOTING))

    assert recovery.next_step is None


def test_the_incarnations_that_were_told_are_recovered() -> None:
    """A lost store had heard of other lost stores, so the new one must know them too. The newest
    number of each counts; its own is left out."""
    verdict = next_step_of(
        recovered(EMPTY, incarnation=9, told=((3, 2),)),
        recovered(VOTING, incarnation=4, told=((1, 9), (3, 7), (5, 1))),
        recovered(VOTING, incarnation=7, told=((2, 3),)),
    )

    assert isinstance(verdict, FollowQuorum)
    assert {each.node: each.incarnation for each in verdict.incarnations} == {2: 4, 3: 7, 5: 1}


def test_who_founds_a_log_with_others_takes_over_what_the_first_of_them_promised() -> None:
    """One of three votes already, and may have promised a number."""
    verdict = next_step_of(STARTING, recovered(STARTING), recovered(VOTING, promised=4), quorum=2, auto_initialize=True)

    assert isinstance(verdict, BecomeStatus)
    assert (verdict.status, verdict.promised) == (VOTING, 4)
