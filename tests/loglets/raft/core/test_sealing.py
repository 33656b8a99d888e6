"""Seals: with batches in flight, without a leader, inherited, truncated, and what may follow one."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import Group
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import SealedError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.messages import LeaderReply

OTHER = SessionId(bytes([1] * 16))


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def test_batches_behind_a_seal_are_answered_once_it_is_committed() -> None:
    """A batch of the same scheduler turn, for which no record was cut, and one that comes later: their clients go on elsewhere at
    once, but hear of the SEAL only when it is certain. What is below it is committed."""
    group = leading_group()
    below = group.append(1, "below")
    waiting = [group.offer(1, "one"), group.offer(1, "two")]
    ticket = group.seal(1)
    waiting.append(group.offer(1, "three"))
    before = [group.outcome(1, each) for each in waiting]
    group.settle()

    assert group.outcome(1, below) == LeaderReply(place=0)
    assert before == [None, None, None]
    assert all(isinstance(group.outcome(1, each), SealedError) for each in waiting)
    assert group.outcome(1, ticket) == LeaderReply(place=1, sealed=True)
    assert group.entries(2) == ["below"]


def sealed_group() -> Group:
    """Three replicas of a sealed log with one batch, all of which know so."""
    group = leading_group()
    group.append(1, "only")
    group.seal(1)
    group.settle()
    group.tick(times=4)
    assert all(group[node].is_at_rest for node in (1, 2, 3))
    return group


def test_replica_that_forgot_that_the_seal_is_committed_learns_it_from_replicas_at_rest() -> None:
    """A replica fails before it has stored that the SEAL is committed. No leader sends heartbeats any more, so it stands; the
    others vote for it, although they have not heard that their leader is gone."""
    group = leading_group()
    group.append(1, "only")
    group.seal(1)
    group.settle()
    group.tick(times=4)
    group.node(3).disk.pop()
    group.crash(3)
    assert not group[3].state.is_sealed

    group.tick(times=50)

    assert all(group[node].state.is_sealed for node in (1, 2, 3))
    assert all(group[node].is_at_rest for node in (1, 2, 3))


def test_replica_that_lacks_the_seal_gets_it_from_replicas_at_rest() -> None:
    """A replica is cut off while the log is sealed, and the leader fails. The replicas that know the SEAL are at rest; the one that
    asks for their votes has less than they have, so one of them stands, and gives it what it lacks."""
    group = leading_group()
    group.append(1, "only")
    group.seal(1)
    group.settle(without=[3])
    group.tick(1, 2, times=4, without=[3])
    group.crash(1)
    assert group.shape(3) == "|"

    group.tick(times=60)

    assert group.entries(3) == ["only"]
    assert all(group[node].is_at_rest for node in (1, 2, 3))


def test_replicas_at_rest_do_not_stand_against_each_other() -> None:
    """A replica that lacks the SEAL asks four others at once; they wait for times of their own, so that one is elected."""
    group = leading_group(5)
    group.append(1, "only")
    group.seal(1)
    group.settle(without=[3])
    group.tick(1, 2, 4, 5, times=4, without=[3])
    group.crash(1)

    group.tick(times=100)

    assert group.entries(3) == ["only"]
    assert all(group[node].is_at_rest for node in group.nodes)


def test_transfer_of_a_sealed_log_has_an_end() -> None:
    """The leader of a log at rest is asked to hand over, and its message is lost: the caller hears of it after an election timeout."""
    group = sealed_group()
    group.do(1, lambda at: at.requests.transfer(NodeId(2), "transfer"))
    group.settle(without=[2])
    group.tick(times=20, without=[2])

    assert isinstance(group.outcome(1, "transfer"), UnavailableError)


def test_change_of_the_members_behind_a_seal_is_sent_until_it_is_committed() -> None:
    """The leader of a sealed log is not at rest while a record is not committed, even if all know the SEAL."""
    group = sealed_group()
    members = Configuration.of_voters((NodeId(1), NodeId(2))).members
    group.do(1, lambda at: at.requests.change_members(members, 0, "change"))
    group.settle(without=[2, 3])

    group.tick(times=4)

    assert group.outcome(1, "change") == LeaderReply(place=1, sealed=True)


def test_replica_that_was_removed_does_not_wake_a_sealed_log() -> None:
    """A replica that was removed without knowing asks for votes for ever; the others do not stand for it, again and again."""
    group = sealed_group()
    members = Configuration.of_voters((NodeId(1), NodeId(2))).members
    group.do(1, lambda at: at.requests.change_members(members, 0, "change"))
    group.settle(without=[3])
    group.tick(1, 2, times=4, without=[3])
    group.lose_disk(3, Configuration.of_voters((NodeId(1), NodeId(2), NodeId(3))))

    rests: list[bool] = []
    for _ in range(60):
        group.tick()
        rests.append(group[1].is_at_rest and group[2].is_at_rest)

    assert group[1].state.term == 1
    assert any(rests[-25:]), "each request wakes a follower, until its own election timeout"


@pytest.mark.parametrize("delivered", range(0, 40, 3))
def test_seal_behind_batches_in_flight_commits_all_or_a_prefix(delivered: int) -> None:
    """The leader fails after any number of steps. The replica that seals then finds either all batches below the SEAL, or a prefix of
    them; what was acknowledged is below the tail."""
    group = leading_group()
    tickets = [group.append(1, f"{number}") for number in range(3)]
    group.seal(1)
    for step in range(delivered):
        if group.messages:
            group.deliver(group.messages[0])
        group.sync(step % 3 + 1, 1)
    acknowledged = [ticket for ticket in tickets if isinstance(group.outcome(1, ticket), LeaderReply)]
    group.messages.clear()
    group.crash(1)
    ticket = group.seal(2, stand=True)
    group.settle(without=[1])
    group.settle()

    tail = group.outcome(2, ticket)
    assert tail.sealed
    assert group.entries(2) == [f"{number}" for number in range(tail.place)]
    assert tail.place >= len(acknowledged)


def test_seal_that_is_truncated_leaves_the_log_open() -> None:
    """Its leader was cut off: no client had heard of it, and the next leader takes batches."""
    group = leading_group()
    ticket = group.seal(1)
    group.sync(1)
    group.messages.clear()
    assert group[1].state.log.seal == 1
    group.elect_with(2, voters=[3])
    batch = group.append(2, "open")
    group.settle()
    group.tick(times=4)

    assert isinstance(group.outcome(1, ticket), UnavailableError)
    assert group.outcome(2, batch) == LeaderReply(place=0)
    assert group[1].state.log.seal == 0
    assert group.entries(1) == ["open"]


def test_seal_that_a_new_leader_inherits_is_committed_with_its_first_record() -> None:
    """It takes no batch, makes no second SEAL, and refuses for good once the SEAL is committed."""
    group = leading_group()
    group.append(1, "below")
    group.settle()
    group.seal(1)
    for message in list(group.messages):
        group.deliver(message)
    group.sync(2)
    group.messages.clear()
    assert group[2].state.log.seal == 2
    group.crash(1)
    group.elect_with(2, voters=[3])
    batch, ticket = group.append(2, "late", session=OTHER, sequence=0), group.seal(2)
    group.settle(without=[1])

    assert isinstance(group.outcome(2, batch), SealedError)
    assert group.outcome(2, ticket) == LeaderReply(place=1, sealed=True)
    assert group.entries(2) == ["below"]


@pytest.mark.parametrize("leader", ["alive", "cut off", "stalled"])
def test_replica_that_stands_for_a_seal_wins_against_the_leader(leader: str) -> None:
    """No election timeout passes: neither a leader that works, nor one that is paused, nor one whose disk stands still, keeps the log
    from being sealed."""
    group = leading_group()
    group.tick(times=2)
    below = group.append(1, "below")
    if leader == "alive":
        group.settle()
    else:
        group.messages.clear()  # it has not reached any replica
    ticket = group.seal(3, stand=True)
    for _ in range(6):
        for message in list(group.messages):
            (group.drop if leader == "cut off" and 1 in (message.sender, message.receiver) else group.deliver)(message)
        group.sync(2)
        group.sync(3)

    tail = group.outcome(3, ticket)
    assert tail.sealed
    assert tail.place == len(group.entries(3))
    group.settle()
    group.tick(times=60)
    assert all(group[node].state.is_sealed for node in (1, 2, 3))
    assert group.outcome(1, below) is not None


def test_two_replicas_that_stand_for_a_seal_at_once_find_one_tail() -> None:
    """One of them is elected, or none in the first round; the callers ask again until one SEAL is committed."""
    group = leading_group()
    group.append(1, "below")
    group.settle()
    answers = []
    for attempt in range(6):
        tickets = [(node, group.seal(node, f"{node} {attempt}", stand=True)) for node in (2, 3)]
        group.settle()
        answers += [group.outcome(node, ticket) for node, ticket in tickets]
        group.tick(times=1)
    tails = {answer.place for answer in answers if isinstance(answer, LeaderReply) and answer.sealed}

    assert None not in answers
    assert tails == {1}
    assert len(group.invariants.sealed_at) == 1


def test_records_behind_a_seal_leave_the_tail() -> None:
    """NOOPs of later leaders, and changes of the members, take an index and no offset."""
    group = sealed_group()
    for leader in (2, 3):
        group.elect_with(leader, voters={1, 2, 3} - {leader})
        group.settle()
        group.tick(times=2)
        ticket = group.tail(leader, f"tail {leader}")
        group.settle()
        assert group.outcome(leader, ticket) == LeaderReply(place=1, sealed=True)
    members = Configuration.of_voters((NodeId(1), NodeId(3))).members
    group.do(3, lambda at: at.requests.change_members(members, 0, "change"))
    group.settle()

    assert group.outcome(3, "change") == LeaderReply(place=1, sealed=True)
    assert group[3].state.log.last_index > group[3].state.log.seal


def test_each_replica_answers_for_a_sealed_log_alone_after_a_restart() -> None:
    """All of them begin anew, and none is elected: what is committed, and the tail, is known from each disk."""
    group = sealed_group()
    for node in (1, 2, 3):
        group.crash(node)
    for node in (1, 2, 3):
        tail, seal = group.tail(node, "tail"), group.seal(node, "seal")
        assert group.outcome(node, tail) == group.outcome(node, seal) == LeaderReply(place=1, sealed=True)
        assert group.entries(node) == ["only"]
    group.tick(times=60)
    assert {group[node].state.term for node in (1, 2, 3)} == {1}


def test_divergent_records_are_not_committed_at_their_replica() -> None:
    """A replica has records of a former leader that no other one has. What it gives to readers ends at its commit index."""
    group = leading_group()
    group.append(1, "all")
    group.settle()
    group.tick(times=2)
    group.append(1, "divergent")
    group.sync(1)
    group.messages.clear()
    group.elect_with(2, voters=[3])
    group.append(2, "decided", session=OTHER, sequence=0)
    group.settle(without=[1])
    assert group.entries(1) == ["all"]

    group.tick(times=10)
    assert group.entries(1) == ["all", "decided"]


def test_trim_past_the_seal_keeps_the_record_of_the_seal() -> None:
    """Every copy of a sealed log is sealed by the record, so it stays when all entries are gone."""
    group = sealed_group()
    group.do(1, lambda at: at.requests.trim(1, "trim"))
    group.settle()

    assert [record.kind.name for record in group.records(1)][-1] == "SEAL"
    assert group.entries(1) == []
    group.crash(1)
    ticket = group.tail(1)
    assert group.outcome(1, ticket) == LeaderReply(place=1, sealed=True)


def test_trim_beyond_the_tail_drops_what_is_committed_later() -> None:
    """A replica that lags hears of a trim before it knows that the entries are committed. It drops them once it does."""
    group = leading_group()
    for payload in ("a", "b", "c"):
        group.append(1, payload)
        group.settle(without=[3])
    group.do(3, lambda at: at.requests.trim(2, "trim"))
    group.sync(3)
    assert group.outcome(3, "trim").trim == 2
    group.crash(1)
    group.elect_with(2, voters=[3])
    group.settle()
    group.tick(times=4)

    assert group[3].state.log.base.index == 2
    assert group.entries(3) == ["c"]


def test_all_that_waits_at_a_replica_which_is_dropped_is_answered() -> None:
    """A batch, a read and a seal at a leader; a seal for which a replica stands; answers that wait for the disk."""
    group = leading_group()
    group.append(1, "x")
    group.tail(1)
    group.seal(1)
    group.seal(2, stand=True)
    group.do(2, lambda at: at.requests.trim(1, "trim"))
    error = SealedError("dropped")

    tickets = [[answer.ticket for answer in group[node].give_up(error)] for node in (1, 2)]

    assert tickets == [["append 0", "tail", "seal"], ["seal", "trim"]]
