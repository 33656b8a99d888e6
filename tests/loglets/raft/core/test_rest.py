"""A sealed log is at rest, and wakes for a replica that does not know of the SEAL."""

from __future__ import annotations

from tests.loglets.raft.core.group import Group
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.transitions import RaftRole


def sealed_without_node_2() -> Group:
    """Node 2 was cut off when the SEAL was committed, and has not even its record."""
    group = Group.of_voters(3, first_leader=1)
    group.append(1, "a")
    group.settle()
    group.append(1, "b")
    group.do(1, lambda at: at.requests.seal("seal", stand=False))
    group.settle(without=[2])
    group.tick(1, without=[2], times=3)
    assert group[3].state.is_sealed
    assert not group[2].state.is_sealed
    return group


def test_a_replica_that_lags_learns_of_the_seal_without_its_leader() -> None:
    """The leader is gone for good. The replica that lags cannot win; the other one leads for it, and both are at rest then."""
    group = sealed_without_node_2()

    group.tick(2, 3, times=60, without=[1])

    assert group[2].state.is_sealed
    assert group.entries(2) == ["a", "b"]
    assert group[2].state.tail == group[3].state.tail == 2


def test_the_leader_of_a_sealed_log_reminds_less_and_less_often() -> None:
    """A peer may never come back: some messages an hour, and not ten a second."""
    group = sealed_without_node_2()
    messages = 0

    for _ in range(2000):
        group.do(1, lambda at: at.replica.tick(0))
        messages += sum(message.receiver == 2 for message in group.messages)
        group.settle(without=[2])

    assert 3 < messages < 20
    assert not group[1].is_at_rest


def test_all_are_at_rest_once_all_know() -> None:
    """The peer comes back and asks for votes: the leader tells it at once, and no replica needs a tick any more."""
    group = sealed_without_node_2()
    group.tick(1, times=300, without=[2])

    group.tick(times=40)

    assert [group[node].is_at_rest for node in (1, 2, 3)] == [True, True, True]


def test_leader_that_was_woken_as_a_candidate_comes_to_rest() -> None:
    """Two replicas that know the SEAL stand for one that lacks it, and ask each other for votes. The one that wins tells the others,
    and needs no tick then."""
    group = sealed_without_node_2()
    group.crash(1)
    group.do(1, lambda at: at.replica.stand())
    group.do(3, lambda at: at.replica.stand())
    group.settle()
    group.tick(times=80)

    assert [group[node].is_at_rest for node in (1, 2, 3)] == [True, True, True]


def with_observer(group: Group) -> None:
    """Add replica 4, which has joined no log, as an observer, and end with it in the members of all that are reached."""
    group.add(NodeId(4), ReplicaState.begin(Configuration.unknown()))
    present = group[1].state.log.configuration
    members = {**present.members, NodeId(4): RaftMember(MemberKind.OBSERVER, "")}
    group.do(1, lambda at: at.requests.change_members(members, present.index, "add"))


def test_learner_that_lags_learns_of_the_seal_without_its_leader() -> None:
    """It stands for nothing, and asks all the same: a voter at rest wakes, leads, and gives it what it lacks."""
    group = Group.of_voters(3, first_leader=1)
    group.settle()
    with_observer(group)
    group.tick(times=3)
    group.append(1, "a")
    group.seal(1)
    group.settle(without=[4])
    group.tick(times=4, without=[4])
    group.crash(1)
    assert (group[4].role, group[4].state.is_sealed) == (RaftRole.LEARNER, False)

    group.tick(times=80)

    assert (group.entries(4), group[4].state.is_sealed, group[4].role) == (["a"], True, RaftRole.LEARNER)
    assert all(group[node].is_at_rest for node in group.nodes)


def test_learner_that_is_added_behind_a_seal_gets_the_log() -> None:
    """It is away when it is added. The leader reminds it, and the log is at rest again once it has the SEAL."""
    group = Group.of_voters(3, first_leader=1)
    group.append(1, "a")
    group.seal(1)
    group.settle()
    group.tick(times=4)
    with_observer(group)
    group.settle(without=[4])
    group.tick(times=30, without=[4])
    assert not group[1].is_at_rest

    group.tick(times=80)

    assert (group.entries(4), group[4].state.is_sealed) == (["a"], True)
    assert all(group[node].is_at_rest for node in group.nodes)


def test_learner_without_a_leader_disturbs_no_election() -> None:
    """It asks again and again while no voter can be elected: no term changes by that, and no answer makes it a candidate."""
    group = Group.of_voters(3, first_leader=1)
    group.settle()
    with_observer(group)
    group.tick(times=3)
    group.tick(2, 4, times=80, without=[1, 3])

    assert (group[2].state.term, group[4].state.term, group[4].role) == (1, 1, RaftRole.LEARNER)
