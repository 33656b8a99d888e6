"""Disks that refuse, stall, or finish late."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group, record
from virtuallog.contract.errors import (
    DiskFullError,
    OverloadedError,
    RetryableError,
    StorageError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import replication
from virtuallog_loglets.raft.core.effects import RaftFail
from virtuallog_loglets.raft.core.election import HEARTBEAT_TICKS
from virtuallog_loglets.raft.messages import NOWHERE, AppendRecords, LeaderReply, RequestVote


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def test_refused_record_with_more_batches_behind_it_ends_the_term() -> None:
    """The disk is full while more waits than fits into one record: the leader takes the record back, leads no longer, and tells
    all callers that the outcome is unknown."""
    group = leading_group()
    group.node(1).refusal = DiskFullError("full")
    tickets = [group.offer(1, "x" * 700_000) for _ in range(3)]
    group.turn(1)

    assert not group.leads(1)
    assert group.shape(1) == "|"
    assert all(isinstance(group.outcome(1, ticket), UnavailableError) for ticket in tickets)


def test_follower_whose_disk_turns_out_to_be_full_takes_back_all_that_waits() -> None:
    """Three messages wait for the disk when it refuses the first. Nothing of them is acknowledged; once there is room, the leader
    sends them again, and a restart finds no hole."""
    group = leading_group()
    group.append(1, "settled")
    group.settle()
    for payload in ("a", "b", "c"):
        group.append(1, payload)
    for message in [each for each in group.messages if each.receiver == 2]:
        group.deliver(message)
    group.do(2, lambda at: at.requests.trim(1, "trim"))
    group.refuse(2, DiskFullError("full"))

    assert group[2].state.log.last_index == 1
    assert isinstance(group.outcome(2, "trim"), DiskFullError)

    group.settle()
    group.tick(times=4)
    assert group.entries(2) == ["a", "b", "c"]
    group.crash(2)
    assert group.shape(2).replace("|", "") == "111"


def test_refused_records_of_two_leaders_are_all_taken_back() -> None:
    """The records of a later leader, behind those of an earlier one in the queue of the disk, lie lower in the log. Both are refused.
    The later leader sends its own again: they are acknowledged once they are on the disk, and a restart finds them there."""
    group = Group.of_voters(3)
    group.begin_with(3, "11")

    def send(term: int, previous: int, ticket: str) -> None:
        request = AppendRecords(
            segment=SEGMENT, term=term, leader=NodeId(term), previous_index=previous, previous_term=1, commit=0,
            records=(record(previous + 1, term).blob,),
        )  # fmt: skip
        group.do(3, lambda at: at.replica.records_requested(request, ticket))

    send(1, 2, "of the earlier leader")
    send(2, 1, "of the later leader")
    group.refuse(3, DiskFullError("full"))
    assert group[3].state.log.last_index == 1

    send(2, 1, "again")
    assert group.outcome(3, "again") is None
    group.sync(3)
    assert group.outcome(3, "again").accepted
    group.crash(3)
    assert group.shape(3) == "|12"


def test_leader_whose_disk_turns_out_to_be_full_leads_no_longer() -> None:
    """Unless a record is committed by then: that one cannot be taken back, so the role begins anew from the disk."""
    group = leading_group()
    group.append(1, "settled")
    group.settle()
    tickets = [group.append(1, "a"), group.append(1, "b")]
    group.refuse(1, DiskFullError("full"))

    assert not group.leads(1)
    assert group[1].state.log.last_index == 1
    assert all(isinstance(group.outcome(1, ticket), UnavailableError) for ticket in tickets)


def test_candidate_whose_disk_refuses_records_gives_up() -> None:
    """It was voted for because of records that it has not got: without them it might lack what is committed."""
    group = leading_group()
    group.append(1, "settled")
    group.settle()
    group.append(1, "committed by the others")
    for message in list(group.messages):
        group.deliver(message)
    group.sync(1)
    group.crash(3)
    group[2]._deadline = group[2].ticks
    for message in [each for each in group.messages if each.receiver != 1]:
        group.drop(message)
    group.do(2, lambda at: at.replica.stand())
    for message in [each for each in group.messages if isinstance(each.request, RequestVote)]:
        group.deliver(message)
    assert group[2].role.name == "CANDIDATE"
    group.refuse(2, DiskFullError("full"))

    assert group[2].role.name == "FOLLOWER"
    group.settle(without=[1])
    assert not group.leads(2)


def test_leader_whose_disk_stands_still_steps_down_and_does_not_stand() -> None:
    """Its heartbeats would go on for ever, and nothing would be committed that needs its disk. Another replica is elected; this one
    stands for nothing until its disk goes on."""
    group = leading_group()
    group.append(1, "x")
    for _ in range(60):
        for node in group.nodes:
            group.do(node, lambda at: at.replica.tick(0))
        while group.messages:
            group.deliver(group.messages[0])
            group.sync(2)
            group.sync(3)

    assert not group.leads(1)
    assert sum(group.leads(node) for node in (2, 3)) == 1
    group.sync(1)
    group.tick(times=4)
    assert group.entries(1) == ["x"]


@pytest.mark.parametrize("voters", [1, 3])
def test_leader_without_room_refuses_batches_and_leads_on(voters: int) -> None:
    """No other voter has room: an election would change nothing. The refusal is certain, and the tail and the seal are answered."""
    group = leading_group(voters)
    group.append(1, "settled")
    group.settle()
    for node in group.nodes:
        group.node(node).refusal = DiskFullError("full")
        group[node].lacks_room = True
    group.tick(times=4)
    ticket = group.append(1, "refused")
    group.tick(times=60)

    assert isinstance(group.outcome(1, ticket), DiskFullError)
    assert (group.leads(1), group[1].state.term) == (True, 1)
    for node in group.nodes:
        group.node(node).refusal, group[node].lacks_room = None, False
    group.tick(times=4)
    again = group.offer(1, "again", sequence=1, ticket="again")
    group.turn(1)
    group.settle()
    assert group.outcome(1, again) == LeaderReply(place=1)
    assert group.entries(1) == ["settled", "again"]


def test_leader_whose_followers_have_no_room_leads_on() -> None:
    """They refuse a record, and hear from it all the same. It takes no more batches until they take that record, and can be sealed."""
    group = leading_group()
    for node in (2, 3):
        group.node(node).refusal = DiskFullError("full")
    waiting = group.append(1, "waits")
    group.settle()
    refused = group.append(1, "refused")
    group.tick(times=60)
    tail = group.tail(1)
    group.settle()

    assert (group.leads(1), group[1].state.term) == (True, 1)
    assert isinstance(group.outcome(1, refused), DiskFullError)
    assert (group.outcome(1, waiting), group.outcome(1, tail)) == (None, LeaderReply(place=0))
    group.node(2).refusal = None
    group.tick(times=8)
    assert group.outcome(1, waiting) == LeaderReply(place=0)
    group.node(2).refusal = DiskFullError("full")
    group.append(1, "again", sequence=1)
    seal = group.seal(1)
    group.tick(times=8)
    assert group.outcome(1, seal) == LeaderReply(place=2, sealed=True)


def test_full_follower_is_not_asked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks batches, and the log ends in a record that may use the last room. It is sent the batches with a heartbeat, and not as
    soon as it has refused them."""
    monkeypatch.setattr(replication, "MESSAGE_RECORDS", 1)
    group = leading_group()
    for number in range(3):
        group.append(1, f"{number}")
        group.settle(without=[3])
    group.node(3).refusal = DiskFullError("full")
    group.seal(1)

    group.tick(times=HEARTBEAT_TICKS)  # ends once all messages are answered

    assert group[1].state.is_sealed
    group.node(3).refusal = None
    group.tick(times=HEARTBEAT_TICKS * 20)
    assert group[3].state.is_sealed


def test_leader_without_room_makes_way_for_a_voter_that_has_room() -> None:
    """Nothing of the batch is in its log: the caller is sent elsewhere. It stands later than all others."""
    group = leading_group()
    group.append(1, "settled")
    group.settle()
    group[1].lacks_room = True
    ticket = group.append(1, "elsewhere")

    assert not group.leads(1)
    assert group.outcome(1, ticket) == LeaderReply(place=NOWHERE)
    group.tick(times=40)
    assert sum(group.leads(node) for node in (2, 3)) == 1


def test_leader_counts_itself_once_its_own_disk_has_the_record() -> None:
    """With one voter, and with a peer that has it as well."""
    for voters in (1, 2):
        group = leading_group(voters)
        ticket = group.append(1, "x")
        for message in list(group.messages):
            group.deliver(message)
        if voters == 2:
            group.sync(2)
            group.deliver(group.messages[0])
        assert group.outcome(1, ticket) is None
        group.sync(1)
        assert group.outcome(1, ticket) == LeaderReply(place=0)


def test_sync_of_an_earlier_term_does_not_count_for_the_present_one() -> None:
    """The leader was deposed while its disk wrote, and its record replaced by others at the same index: the write that ends then is
    no proof that these are durable."""
    group = leading_group()
    group.append(1, "settled")
    group.settle()
    group.append(1, "lost")
    group.messages.clear()
    first = group.node(1).writing[0]
    assert group[1].state.log.last_index == 2
    newer = [record(2, 5).blob, record(3, 5).blob]
    request = AppendRecords(
        segment=SEGMENT, term=5, leader=NodeId(2), previous_index=1, previous_term=1, commit=0, records=tuple(newer)
    )  # fmt: skip
    group.do(1, lambda at: at.replica.records_requested(request, "append"))
    while group.node(1).writing[0] is first:
        group.sync(1, 1)

    assert group[1].state.log.durable_index == 1
    assert group.outcome(1, "append") is None
    group.sync(1)
    assert group[1].state.log.durable_index == 3
    assert group.outcome(1, "append").accepted


def test_same_record_written_twice_is_durable_with_the_second_write() -> None:
    """A record is replaced, and comes back before the first write of it has ended. That write is behind the log by then: its end says
    nothing about the third."""
    group = Group.of_voters(2)
    group.begin_with(1, "1")
    for term, place in ((2, record(2, 2)), (3, record(2, 3)), (4, record(2, 2))):
        request = AppendRecords(
            segment=SEGMENT, term=term, leader=NodeId(2), previous_index=1, previous_term=1, commit=0,
            records=(place.blob,),
        )  # fmt: skip
        group.do(1, lambda at, request=request: at.replica.records_requested(request, request.term))  # type: ignore[misc]
    durable = []
    while group.node(1).writing:
        group.sync(1, 1)
        durable.append(group[1].state.log.durable_index)

    assert durable[-1] == 2 and set(durable[:-1]) == {1}
    assert group[1].state.log.term_at(2) == 2
    group.crash(1)
    assert group[1].state.log.term_at(2) == 2


def test_failed_write_ends_the_role() -> None:
    """Whether it is on the disk is unknown, so nothing may rest on this disk any more."""
    group = leading_group()
    group.append(1, "x")
    at = group.node(1)
    effects = at.replica.failed(at.writing[0], StorageError("gone"))

    assert [type(effect) for effect in effects] == [RaftFail]


@pytest.mark.parametrize("error", [DiskFullError("full"), OverloadedError("the disk is slow")])
def test_refusal_that_cannot_be_taken_back_ends_the_role_until_there_is_room(error: VirtualLogError) -> None:
    """Neither a term nor a record that the others have committed can be taken back, and the disk is sound. A node begins a role anew
    that ends with an error which may pass; after any other it stays closed until the process ends."""
    group = leading_group()
    group.append(1, "committed by the others")
    for _ in range(2):
        for message in list(group.messages):
            group.deliver(message)
        for follower in (2, 3):
            group.sync(follower)
    at = group.node(1)
    assert at.replica.state.commit == 1
    question = RequestVote(
        segment=SEGMENT, term=3, candidate=NodeId(2), last_index=9, last_term=9, forced=True
    )  # fmt: skip
    group.do(1, lambda at: at.replica.vote_requested(question, "vote"))

    for write in (at.writing[0], at.writing[-1]):
        assert at.replica.failed(write, error) == [RaftFail(error)]
    assert isinstance(error, RetryableError)


def test_term_and_vote_are_durable_before_an_answer_leaves() -> None:
    """A voter that forgot would vote again."""
    group = Group.of_voters(3)
    question = RequestVote(segment=SEGMENT, term=3, candidate=NodeId(2), last_index=0, last_term=0)
    group.do(1, lambda at: at.replica.vote_requested(question, "vote"))
    assert group.outcome(1, "vote") is None
    group.crash(1)
    assert group[1].state.term == 0

    group.do(1, lambda at: at.replica.vote_requested(question, "vote"))
    group.sync(1)
    assert group.outcome(1, "vote").granted
    group.crash(1)
    assert (group[1].state.term, group[1].state.vote) == (3, 2)


def test_acknowledgement_waits_for_all_that_was_written_before_it() -> None:
    """Also if the message itself had nothing new: its records may be on their way to the disk."""
    group = leading_group()
    group.append(1, "x")
    message = next(message for message in group.messages if message.receiver == 2)
    group.deliver(message, keep=True)
    group.deliver(message)
    assert not [each for each in group.messages if each.is_answer]

    group.sync(2)
    assert len([each for each in group.messages if each.is_answer]) == 2


def test_queue_of_batches_is_bounded() -> None:
    """A majority is away: the leader refuses batches beyond some bytes, and forgets none that it has taken."""
    group = leading_group()
    taken, refused = 0, None
    while refused is None:
        ticket = group.append(1, "x" * 1_000_000)
        refused = group.outcome(1, ticket)
        taken += refused is None

    assert isinstance(refused, OverloadedError)
    assert 20 < taken < 60


def test_trim_takes_effect_while_the_disk_is_never_idle() -> None:
    """Under load some write is always in flight. The records go once the trim itself is durable, and not before: a restart would
    find neither them nor the trim."""
    group = leading_group()
    for payload in ("a", "b", "c"):
        group.append(1, payload)
        group.settle()
    group.append(1, "d")
    group.do(1, lambda at: at.requests.trim(2, "trim"))
    group.append(1, "e")

    group.sync(1, 1)
    assert group[1].state.log.base.index == 0
    group.sync(1, 1)
    assert group[1].state.log.base.index == 2
    assert group.node(1).writing
