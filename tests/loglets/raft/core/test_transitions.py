"""Tables of transitions: the code checks each change against them, and makes each change that they name."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from tests.loglets.raft.core.members.test_member_walks import MemberWalk
from tests.loglets.raft.core.test_members import change, leading_group
from tests.loglets.raft.core.test_walks import narrow_limits, walk
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import replication
from virtuallog_loglets.raft.core.election import ELECTION_TICKS
from virtuallog_loglets.raft.core.membership import MemberKind
from virtuallog_loglets.raft.core.transitions import FLOWS, ROLES, RUN_STATES, RaftRole, Transitions
from virtuallog_loglets.raft.messages import RequestVote


def demote(*, wins: bool) -> None:
    """The first of two voters takes the vote of the second and fails before its own disk has that. The second one stands."""
    group = leading_group(2)
    change(group, 1, n2=MemberKind.OBSERVER)
    for message in list(group.messages):
        group.deliver(message)
    group.sync(2)
    stand(group, 2, voters={1}, wins=wins)


def remove(*, wins: bool) -> None:
    """The first of three voters removes the second and adds it again. The second one stands when it has just the first of both
    records, and does not know yet that it is committed. The disk of the first one has no more."""
    group = leading_group(3)
    group.append(1, "a")  # what lies before the first entry is dropped
    group.settle()
    change(group, 1, n2=None)
    group.settle(without=[2])
    change(group, 1, n2=MemberKind.PRE_VOTER)
    while group[2].role is not RaftRole.NON_PARTICIPANT:
        group.do(1, lambda at: at.replica.tick(0))
        for message in list(group.messages):
            (group.drop if 3 in (message.sender, message.receiver) else group.deliver)(message)
    stand(group, 2, voters={1, 3}, wins=wins)


def remove_and_add() -> None:
    """The second of three voters is cut off while it is removed and added again. It receives one record after the other."""
    group = leading_group(3)
    group.append(1, "a")  # what lies before the first entry is dropped
    group.settle()
    change(group, 1, n2=None)
    group.settle(without=[2])
    change(group, 1, n2=MemberKind.VOTER)
    group.tick(1, 3, times=8)


def stand(group: Group, node: int, *, voters: set[int], wins: bool) -> None:
    """Have a replica stand, and be elected by some that hear from no leader; or hear of another election."""
    group.crash(1)
    for message in list(group.messages):
        group.drop(message)
    for voter in voters:
        group[voter]._deadline = 1000
        for _ in range(ELECTION_TICKS):
            group.do(voter, lambda at: at.replica.tick(0))
    group.do(node, lambda at: at.replica.stand())
    if not wins:
        group.ask(node, RequestVote(segment=SEGMENT, term=9, candidate=NodeId(1), last_index=0, last_term=0))
    while group.messages:
        group.deliver(group.messages[0])
        for voter in voters:
            group.sync(voter)
    group.settle()


def test_each_change_of_the_tables_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table names a change that does not happen: walks make most of them."""
    seen: set[tuple[enum.Enum, enum.Enum]] = set()
    checked = Transitions.checked

    def recorded(self: Transitions[Any], before: Any, after: Any) -> Any:
        seen.add((before, after))
        return checked(self, before, after)

    monkeypatch.setattr(Transitions, "checked", recorded)
    narrow_limits(monkeypatch.setattr)
    for seed in range(10):
        walk(seed)
        MemberWalk(seed).run()
    monkeypatch.setattr(replication, "MESSAGE_RECORDS", 1)
    for wins in (False, True):
        demote(wins=wins)
        remove(wins=wins)
    remove_and_add()

    tables: list[Transitions[Any]] = [ROLES, RUN_STATES, FLOWS]
    changes = {change for change in seen if change[0] is not change[1]}
    assert changes == {change for table in tables for change in table.causes}


def test_change_that_is_in_no_table_is_a_broken_invariant() -> None:
    """It ends the role of the node."""
    with pytest.raises(AssertionError, match="no change from LEADER to CANDIDATE"):
        ROLES.checked(RaftRole.LEADER, RaftRole.CANDIDATE)
