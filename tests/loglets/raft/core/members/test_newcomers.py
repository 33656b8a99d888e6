"""Newcomers: a store that knows nothing receives the log, is given its vote once it has caught up, and not before."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import Group
from virtuallog.contract.errors import InvalidSettingError, MalformedError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember, decode_untrusted
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.replication import MESSAGE_RECORDS
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import NO_MEMBER, NOWHERE, LeaderReply, RequestVote

NEW = 4


def group_with_a_blank_store() -> Group:
    """Voters 1 to 3, led by 1, with a committed record; store 4 has joined no log."""
    group = Group.of_voters(3)
    group.elect(1)
    group.append(1, "a")
    group.settle()
    group.add(NodeId(NEW), ReplicaState.begin(Configuration.unknown()))
    return group


def change(group: Group, ticket: str, kind: MemberKind | None, node: int = NEW, seen: int | None = None) -> None:
    """Ask replica 1 to add a member, or to remove it."""
    present = group[1].state.log.configuration
    members = {member: found for member, found in present.members.items() if member != node}
    if kind is not None:
        members[NodeId(node)] = RaftMember(kind, f"host:{node}")
    index = present.index if seen is None else seen
    group.do(1, lambda at: at.requests.change_members(members, index, ticket))


def kind_of(group: Group, at: int, node: int = NEW) -> MemberKind | None:
    member = group[at].state.log.configuration.members.get(NodeId(node))
    return None if member is None else member.kind


def test_a_newcomer_gets_its_vote_once_it_has_caught_up() -> None:
    """It learns first and counts for nothing; the leader then makes it a voter, on its own."""
    group = group_with_a_blank_store()
    assert group[NEW].role is RaftRole.NON_PARTICIPANT

    change(group, "add", MemberKind.PRE_VOTER)
    assert (kind_of(group, 1), group[1].state.log.configuration.quorum) == (MemberKind.PRE_VOTER, 2)
    group.settle(without=[NEW])
    assert isinstance(group.outcome(1, "add"), LeaderReply)
    group.tick(1, times=4, without=[NEW])
    assert kind_of(group, 1) is MemberKind.PRE_VOTER

    group.tick(1, times=4)

    assert [kind_of(group, node) for node in (1, 2, 3, NEW)] == [MemberKind.VOTER] * 4
    assert (group[NEW].role, group.entries(NEW)) == (RaftRole.FOLLOWER, ["a"])
    assert group[1].state.log.configuration.quorum == 3


def test_a_newcomer_that_is_more_than_a_message_behind_waits() -> None:
    """All but one message of what is committed: with less it would hold up the others' commits."""
    group = group_with_a_blank_store()
    for number in range(MESSAGE_RECORDS):
        group.append(1, f"{number}")
        group.settle()
    change(group, "add", MemberKind.PRE_VOTER)
    group.settle(without=[NEW])
    progress = group[1].leading.replicator.peers[NodeId(NEW)]  # type: ignore[union-attr]
    configuration, commit = group[1].state.log.configuration, group[1].state.commit
    assert configuration.index == commit

    progress.match = commit - 1  # it has all but the record with its membership
    assert group[1].leading.find_promotion() is None  # type: ignore[union-attr]
    for number in range(MESSAGE_RECORDS + 1):
        group.append(1, f"more {number}")
        group.settle(without=[NEW])
    progress.match = group[1].state.commit - MESSAGE_RECORDS - 1
    assert group[1].leading.find_promotion() is None  # type: ignore[union-attr]
    progress.match += 1
    progress.next = progress.match + 1
    promotion = group[1].leading.find_promotion()  # type: ignore[union-attr]
    assert promotion is not None and promotion[NodeId(NEW)].kind is MemberKind.VOTER


def test_a_newcomer_is_not_promoted_before_its_addition_is_committed() -> None:
    """The promotion would be a second change beside a pending one."""
    group = group_with_a_blank_store()
    change(group, "add", MemberKind.PRE_VOTER)
    group.settle(without=[2, 3])
    group.tick(1, times=3, without=[2, 3])

    assert group[NEW].state.log.end == group[1].state.log.end
    assert (kind_of(group, 1), group.outcome(1, "add")) == (MemberKind.PRE_VOTER, None)
    group.tick(1, times=3)
    assert kind_of(group, 1) is MemberKind.VOTER


def test_an_observer_is_never_given_a_vote() -> None:
    """It receives everything and stays as it is."""
    group = group_with_a_blank_store()
    change(group, "add", MemberKind.OBSERVER)
    group.settle()
    group.tick(1, times=6)

    assert (kind_of(group, 1), group[NEW].role, group.entries(NEW)) == (MemberKind.OBSERVER, RaftRole.LEARNER, ["a"])


def test_a_newcomer_is_not_promoted_while_the_leadership_is_transferred() -> None:
    """The other replica must end up with all that this one has: no record is made meanwhile."""
    group = group_with_a_blank_store()
    change(group, "add", MemberKind.PRE_VOTER)
    group.settle(without=[NEW])
    group.do(1, lambda at: at.requests.transfer(NodeId(2), "transfer"))
    group.settle()

    assert group[2].role is RaftRole.LEADER
    assert kind_of(group, 2) is not None
    group.tick(2, times=6)
    assert kind_of(group, 2) is MemberKind.VOTER  # the next leader goes on


def test_a_newcomer_that_dies_does_not_hold_up_the_log() -> None:
    """It counts for nothing, and can be removed again."""
    group = group_with_a_blank_store()
    change(group, "add", MemberKind.PRE_VOTER)
    group.append(1, "b")
    group.settle(without=[NEW, 3])

    assert group.entries(1) == ["a", "b"]
    change(group, "remove", None)
    group.settle(without=[NEW, 3])
    assert isinstance(group.outcome(1, "remove"), LeaderReply)
    assert kind_of(group, 1) is None


def test_a_store_without_a_log_restarts_as_one() -> None:
    """Its members are unknown, on its disk as well; it stands for nothing, however long it waits."""
    group = group_with_a_blank_store()
    group.crash(NEW)
    group.tick(NEW, times=50)

    assert (group[NEW].role, group[NEW].state.term) == (RaftRole.NON_PARTICIPANT, 0)
    assert group[NEW].state.log.configuration == Configuration.unknown()


def test_a_newcomer_whose_log_was_trimmed_begins_at_the_base() -> None:
    """It gets the state at the leader's base, with the members there, and a vote; then it may lead."""
    group = group_with_a_blank_store()
    for text in "bcd":
        group.append(1, text)
        group.settle()
    for node in (1, 2, 3):
        group.do(node, lambda at: at.requests.trim(3, "trim"))
        group.sync(node)
    assert group[1].state.log.base.index > 1
    change(group, "add", MemberKind.PRE_VOTER)
    group.settle()
    group.tick(1, times=6)

    assert (kind_of(group, NEW), group.entries(NEW)) == (MemberKind.VOTER, ["d"])
    group.do(1, lambda at: at.requests.transfer(NodeId(NEW), "transfer"))
    group.settle()
    group.append(NEW, "e")
    group.settle()
    group.tick(NEW, times=2)
    assert group.entries(2)[-1] == "e"


def test_the_members_change_only_once_the_leader_has_committed_a_record_of_its_own() -> None:
    """Ongaro, 2015: before, a change of an earlier leader may come to be committed beside this one."""
    group = Group.of_voters(3)
    while group[1].role is not RaftRole.LEADER:
        group.do(1, lambda at: at.replica.stand())
        for message in list(group.messages):
            if isinstance(message.request, RequestVote):
                group.deliver(message)
        for node in (1, 2, 3):
            group.sync(node)
    assert (group[1].state.log.last_index, group[1].state.commit) == (1, 0)

    change(group, "early", MemberKind.PRE_VOTER)

    assert isinstance(group.outcome(1, "early"), UnavailableError)
    assert "no record of this leader is committed" in str(group.outcome(1, "early"))


def test_a_second_change_waits_for_the_first_and_one_of_an_older_view_is_refused() -> None:
    """One change at a time, and none by a caller who has not seen the last one."""
    group = group_with_a_blank_store()
    change(group, "first", MemberKind.PRE_VOTER)
    change(group, "second", None, node=3)
    group.settle(without=[NEW])
    change(group, "stale", None, node=3, seen=0)
    change(group, "leader", None, node=1)

    assert isinstance(group.outcome(1, "first"), LeaderReply)
    assert isinstance(group.outcome(1, "second"), UnavailableError)
    assert "is not committed yet" in str(group.outcome(1, "second"))
    assert isinstance(group.outcome(1, "stale"), InvalidSettingError)
    assert isinstance(group.outcome(1, "leader"), InvalidSettingError)
    assert "transfer the leadership first" in str(group.outcome(1, "leader"))


def test_only_the_members_at_index_0_may_be_unknown() -> None:
    """A record that leaves a log without members is malformed."""
    blob = Configuration.unknown().encode()
    assert decode_untrusted(0, blob) == Configuration.unknown()
    with pytest.raises(MalformedError, match="without members"):
        decode_untrusted(5, blob)


@pytest.mark.parametrize(
    ("node", "kind", "address", "reason"),
    [
        (2, MemberKind.PRE_VOTER, "host:2", "store 2 is a member already"),
        (7, MemberKind.VOTER, "host:7", "a new member begins as PRE_VOTER or OBSERVER, not as kind 1"),
        (7, 9, "host:7", "not as kind 9"),
        (7, MemberKind.OBSERVER, "", "is no store with an address"),
        (7, MemberKind.OBSERVER, "h" * 300, "is no store with an address"),
        (0, MemberKind.OBSERVER, "host:0", "is no store with an address"),
        (7, NO_MEMBER, "", "store 7 is no member"),
        (1, NO_MEMBER, "", "transfer the leadership first"),
    ],
)
def test_one_member_that_cannot_be_added_or_removed(node: int, kind: int, address: str, reason: str) -> None:
    """The refusal says why, in one line, and no record is made."""
    group = group_with_a_blank_store()
    last = group[1].state.log.last_index
    group.do(1, lambda at: at.requests.change_member(NodeId(node), kind, address, 0, "change"))

    outcome = group.outcome(1, "change")
    assert isinstance(outcome, InvalidSettingError)
    assert reason in str(outcome)
    assert "\n" not in str(outcome)
    assert group[1].state.log.last_index == last


def test_a_replica_that_does_not_lead_names_the_leader() -> None:
    """Also of a change that cannot be: it may know older members."""
    group = group_with_a_blank_store()
    group.do(2, lambda at: at.requests.change_member(NodeId(7), NO_MEMBER, "", 0, "change"))

    assert group.outcome(2, "change") == LeaderReply(place=NOWHERE, leader=NodeId(1))
