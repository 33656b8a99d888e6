"""Sessions over changes of the leader: a batch that is offered again gets the place that it has, and a session has no hole."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import Group
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import OutOfOrderError
from virtuallog.exactly_once import session_table
from virtuallog_loglets.raft.messages import LeaderReply

OTHER = SessionId(bytes([1] * 16))


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def test_new_leader_keeps_the_batches_of_sessions_for_as_long_as_an_old_one() -> None:
    """The sessions of the log count as used when the term begins, and not as idle since the clock began: another session that
    begins does not push them out."""
    group = leading_group()
    group.append(1, "a")
    group.settle()
    group.crash(1)
    group[2].now_ms = 10_000_000
    group.elect(2)

    group.offer(2, "b", session=OTHER, sequence=0, now_ms=10_000_050)
    group.turn(2)
    group.settle()
    again = group.append(2, "a", sequence=0, opens=True)
    group.settle()

    assert group.outcome(2, again) == LeaderReply(place=0)


def test_batch_that_was_committed_keeps_its_place_over_two_changes_of_the_leader() -> None:
    """Its client never heard, and offers it again to each new leader."""
    group = leading_group()
    group.append(1, "a")
    group.append(1, "b")
    group.settle()
    for leader, former in ((2, 1), (3, 2)):
        group.crash(former)
        group.elect(leader)
        again = [group.append(leader, payload, sequence=number) for number, payload in enumerate(["a", "b"])]
        group.settle()
        assert [group.outcome(leader, ticket) for ticket in again] == [LeaderReply(place=0), LeaderReply(place=1)]

    group.tick(times=4)
    assert group.entries(1) == ["a", "b"]


def test_batch_in_a_record_that_is_not_committed_waits_for_that_record() -> None:
    """The former leader's record is in the log of the new one, which has not committed anything of its term yet."""
    group = leading_group()
    group.append(1, "a")
    for message in list(group.messages):
        group.deliver(message)
    group.sync(2)
    group.sync(3)
    group.crash(1)
    group.elect_with(2, voters=[3])
    again = group.append(2, "a", sequence=0)
    assert group.outcome(2, again) is None
    group.settle(without=[1])

    assert group.outcome(2, again) == LeaderReply(place=0)
    assert group.entries(2) == ["a"]


def test_session_goes_on_behind_what_was_committed() -> None:
    """A client has two batches in flight, and the leader fails between them: the first is in the log, the second is not. The client
    offers both again, and the session has no hole."""
    group = leading_group()
    group.append(1, "zero")
    group.settle()
    group.append(1, "one")
    for message in list(group.messages):
        group.deliver(message)
    group.append(1, "two")
    group.messages.clear()
    group.sync(2)
    group.sync(3)
    group.crash(1)
    group.elect(2)

    skipped = group.append(2, "two", sequence=2)
    one = group.append(2, "one", sequence=1)
    group.settle()
    assert group.outcome(2, skipped) == LeaderReply(place=2)
    assert group.outcome(2, one) == LeaderReply(place=1)
    assert group.entries(2) == ["zero", "one", "two"]


def test_batch_ahead_of_its_predecessor_is_refused() -> None:
    """The predecessor was lost with the former leader; it must come first."""
    group = leading_group()
    group.append(1, "zero")
    group.settle()
    group.append(1, "one")
    group.messages.clear()
    group.crash(1)
    group.elect(2)
    ticket = group.append(2, "two", sequence=2)
    group.settle()

    assert isinstance(group.outcome(2, ticket), OutOfOrderError)
    assert group.outcome(2, ticket).expected_sequence == 1


def test_sessions_travel_with_the_base() -> None:
    """A replica that was sent the base, and none of the records below, leads: it knows the sessions all the same."""
    group = leading_group()
    for payload in ("a", "b", "c"):
        group.append(1, payload)
        group.settle(without=[3])
    for node in (1, 2):
        group.do(node, lambda at: at.requests.trim(2, "trim"))
        group.sync(node)
    group.tick(times=6)
    assert group[3].state.log.base.index == 2
    group.elect_with(3, voters=[1, 2])
    group.settle()
    again = [group.append(3, payload, sequence=number) for number, payload in enumerate(["a", "b", "c"])]
    group.settle()

    assert [group.outcome(3, ticket) for ticket in again] == [LeaderReply(place=place) for place in range(3)]
    group.crash(3)
    group.elect_with(3, voters=[1, 2])
    late = group.append(3, "b", sequence=1)
    group.settle()
    assert group.outcome(3, late) == LeaderReply(place=1)


def test_offsets_are_dense_over_many_changes_of_the_leader() -> None:
    """Records of leaders that take an index and no offset, and batches that are lost with their leader, leave no gap."""
    group = leading_group(5)
    leader, acknowledged = 1, dict[int, str]()
    for number in range(30):
        following = leader % 5 + 1
        kept, lost = f"kept {number}", f"lost {number}"
        ticket = group.append(leader, kept, session=session(number), sequence=0)
        group.settle()
        acknowledged[group.outcome(leader, ticket).place] = kept
        group.append(leader, lost, session=session(number + 1000), sequence=0)
        group.messages.clear()
        group.crash(leader)
        group.elect_with(following, voters={1, 2, 3, 4, 5} - {leader, following})
        group.settle()
        leader = following

    assert list(acknowledged) == list(range(30))
    assert group.entries(leader) == list(acknowledged.values())


def session(number: int) -> SessionId:
    """A session of its own."""
    return SessionId(number.to_bytes(16, "big"))


def test_new_leader_inherits_more_sessions_than_it_would_admit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The former leader had retired the sessions of the digest, and has admitted as many new ones as it may. Their batches are in the
    log, and not committed yet: the next leader takes them over all the same, and leads."""
    group = leading_group()
    group.append(1, "a")
    group.settle()
    group.append(1, "b", session=OTHER, sequence=0)
    group.settle(without=[3])
    group.crash(1)
    monkeypatch.setattr(session_table, "SESSIONS_MAX", 1)
    group.elect(2)

    again = group.append(2, "b", session=OTHER, sequence=0)
    assert group.outcome(2, again) == LeaderReply(place=1)
