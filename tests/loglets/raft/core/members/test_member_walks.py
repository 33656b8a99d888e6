"""Random walks of a log that grows from one store and changes its members: blank stores that join, catch up and get a vote,
members that are removed and are told so, with the faults of the other walks.

    python -m tests.loglets.raft.core.members.test_member_walks 1 10000         many seeds, until one fails
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import attrs
import pytest

from tests.loglets.raft.core.group import Group
from tests.loglets.raft.core.history import History
from tests.loglets.raft.core.test_walks import Walk, narrow_limits
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.messages import NO_MEMBER

STORES: Final = 6
MEMBER_WALK_STEPS: Final = 1200
"""More than in the other walks: a store must join before it can be removed."""
SEEDS: Final = 60


@attrs.define(eq=False)
class MemberWalk(Walk):
    """A log founded by store 1, and stores that have joined none."""

    joined: set[NodeId] = attrs.field(factory=set, init=False)
    """Stores that were members, by a committed record."""
    present: Configuration = attrs.field(factory=Configuration.unknown, init=False)
    """The newest members, by a committed record."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.group = Group.of_voters(1, first_leader=1, seed=self.seed)
        self.history = History(self.group)
        for number in range(2, STORES + 1):
            self.group.add(NodeId(number), ReplicaState.begin(Configuration.unknown()))

    def run(self) -> None:
        steps = list(MEMBER_STEPS)
        weights = [
            weight * self.random.choice([0, 1, 1, 3]) if weight < 5 else weight for weight in MEMBER_STEPS.values()
        ]
        for step in self.random.choices(steps, weights, k=MEMBER_WALK_STEPS):
            leaders = [node for node in self.group.nodes if self.group.leads(node)]
            chosen = leaders if leaders and self.random.random() < 0.5 else list(self.group.nodes)
            step(self, self.random.choice(chosen))
            self.history.listen()
            self.look()
        self.settle()
        self.look()
        self.history.check_log()

    def look(self) -> None:
        """Note the newest members that some store knows to be committed. After a crash it may know less."""
        for node in self.group.nodes:
            state = self.group[node].state
            known = state.log.configuration_at(state.commit)
            if known.index >= self.present.index and known.members:
                self.present = known
            self.joined |= set(known.members)

    def add_or_remove(self, node: NodeId) -> None:
        """An operator adds a blank store, or removes a member, as this replica has it."""
        present = self.group[node].state.log.configuration
        blank = [each for each in self.group.nodes if each not in self.joined and not self.group[each].state.is_removed]
        call = self.history.ask("change", node)
        if blank and self.random.random() < 0.7:
            store, kind = (
                self.random.choice(blank),
                self.random.choice([MemberKind.PRE_VOTER] * 4 + [MemberKind.OBSERVER]),
            )
            self.group.do(node, lambda at: at.requests.change_member(store, kind, "host:1", present.index, call))
        else:
            store = self.random.choice(list(present.members) or [node])
            self.group.do(node, lambda at: at.requests.change_member(store, NO_MEMBER, "", present.index, call))

    def retire(self, _: NodeId) -> None:
        """A leader tells removed stores that they are; some are never told."""
        present = self.present
        gone = [each for each in self.joined if each not in present.members and not self.group[each].state.is_removed]
        if gone:
            store = self.random.choice(sorted(gone))
            call = self.history.ask("retire", store)
            self.group.do(store, lambda at: at.replica.retire(present.index, call))


MEMBER_STEPS: Final[dict[Callable[[MemberWalk, NodeId], None], float]] = {
    Walk.deliver: 60, Walk.sync: 30, Walk.tick: 10, Walk.append: 8, Walk.lose: 1, Walk.crash: 0.4, Walk.begin_file: 0.4,
    Walk.toggle_disk: 0.1, Walk.tail: 0.5, Walk.transfer: 0.6, Walk.trim: 0.4, MemberWalk.add_or_remove: 5,
    MemberWalk.retire: 1,
}  # fmt: skip
"""Steps, and how often they are taken."""


def walk(seed: int) -> MemberWalk:
    """Run one seed."""
    made = MemberWalk(seed)
    made.run()
    return made


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_members_come_and_go_and_nothing_acknowledged_is_lost(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two majorities in a row always share a voter; newcomers end with equal logs; tombstones change nothing."""
    narrow_limits(monkeypatch.setattr)
    walks = [walk(seed) for seed in range(first, first + 20)]

    assert sum(len(each.history.acknowledged) for each in walks) > 100, "the walks do hardly anything"
    assert sum(len(each.present.voters) > 1 for each in walks) > 5, "hardly any store becomes a voter"
    assert sum(len(each.joined - set(each.present.members)) for each in walks) > 5, "hardly any member is removed"


if __name__ == "__main__":
    narrow_limits(setattr)
    for each in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            walk(each)
        except BaseException:
            sys.stderr.write(f"seed {each}\n")
            raise
