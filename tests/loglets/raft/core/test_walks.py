"""Random walks of a group of replicas: messages that are lost, doubled and overtaken, processes that end between syncs, disks that
refuse, files of the write-ahead log that go; seals, trims, transfers, changes of the members; clients that retry.

The invariants are checked after each step, the promises to clients with each answer. At the end the faults stop: then a leader
must be there soon, or the log be sealed and at rest, every call be answered, and all replicas have the same log.

    python -m tests.loglets.raft.core.test_walks 1 10000         many seeds, until one fails
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Final

import attrs
import pytest

from tests.loglets.raft.core.group import Group
from tests.loglets.raft.core.history import History
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import DiskFullError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import leader_term, log, replication
from virtuallog_loglets.raft.core.membership import MemberKind, RaftMember
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.core.replica_state import ReplicaState

STEPS: Final = 400
SEEDS: Final = 200
QUIET_TICKS: Final = 300
"""Ticks without faults within which the replicas must agree: some elections."""


@attrs.define(eq=False)
class Client:
    """A client that keeps a few batches of one session in flight, and offers again what has no answer."""

    session: SessionId
    sequence: int = 0
    """Of the first batch that is not acknowledged."""

    def payload(self, ahead: int) -> str:
        return f"{self.session[0]}.{self.sequence + ahead}"


@attrs.define(eq=False)
class Walk:
    """One group with its clients, and the steps that may be taken."""

    seed: int
    random: random.Random = attrs.field(init=False)
    group: Group = attrs.field(init=False)
    history: History = attrs.field(init=False)
    clients: list[Client] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.random = random.Random(self.seed)
        voters, first = self.random.choice([1, 2, 3, 3, 3, 3, 4, 5]), self.random.choice([0, 1])
        self.group = Group.of_voters(voters, first_leader=first, seed=self.seed)
        self.history = History(self.group)
        self.clients = [Client(SessionId(bytes([number] * 16))) for number in range(3)]
        members = self.group[1].state.log.origin
        if self.random.random() < 0.3:
            for extra in (voters + 1, voters + 2):
                self.group.add(NodeId(extra), ReplicaState.begin(members, NodeId(first)))

    def run(self) -> None:
        """Take some steps with faults, then some without."""
        steps = list(STEP_WEIGHTS)
        weights = [
            weight * self.random.choice([0, 1, 1, 3]) if weight < 5 else weight for weight in STEP_WEIGHTS.values()
        ]
        for step in self.random.choices(steps, weights, k=STEPS):
            nodes = [node for node in self.group.nodes if self.group.leads(node)] if self.random.random() < 0.4 else []
            step(self, self.random.choice(nodes or list(self.group.nodes)))
            self.history.listen()
        self.settle()
        self.history.check_log()

    # -- steps ----------------------------------------------------------------------------------------------------

    def deliver(self, _: NodeId) -> None:
        """Messages arrive: some of the oldest, seldom twice."""
        for _times in range(self.random.randint(1, 6)):
            if not self.group.messages:
                return
            message = self.random.choice(self.group.messages[:8])
            twice = not message.is_answer and self.random.random() < 0.05
            self.group.deliver(message, keep=twice)

    def lose(self, _: NodeId) -> None:
        if self.group.messages:
            self.group.drop(self.random.choice(self.group.messages))

    def sync(self, node: NodeId) -> None:
        self.group.sync(node, self.random.choice([1, 2, 100]))

    def tick(self, node: NodeId) -> None:
        """Time passes at all replicas, or faster at one."""
        faster = [node] * self.random.randint(1, 4)
        for each in faster if self.random.random() < 0.2 else list(self.group.nodes):
            if not self.group[each].is_at_rest:
                self.group.do(each, lambda at: at.replica.tick(0))
                self.group.turn(each)

    def crash(self, node: NodeId) -> None:
        self.group.crash(node)
        self.history.lose(node)

    def begin_file(self, node: NodeId) -> None:
        self.group.begin_file(node)

    def toggle_disk(self, node: NodeId) -> None:
        at = self.group.node(node)
        at.refusal = DiskFullError("full") if at.refusal is None else None

    def refuse(self, node: NodeId) -> None:
        """A disk turns out to be full, and soon is not any more."""
        doubtful = [write for write in self.group.node(node).writing if write.has_records and not write.essential]
        indexes = [change.index for write in doubtful for change in write.changes if isinstance(change, RaftRecord)]
        if indexes and indexes[0] > self.group[node].state.commit:  # else the role would end
            self.group.refuse(node, DiskFullError("full"))

    def append(self, node: NodeId) -> None:
        """Some clients offer their next batch, or one of those behind it, or one again."""
        for client in self.random.sample(self.clients, self.random.randint(1, len(self.clients))):
            while client.payload(0) in self.history.acknowledged:
                client.sequence += 1
            ahead = self.random.choice([0, 0, 0, 1, 2])
            payload, sequence = client.payload(ahead), client.sequence + ahead
            call = self.history.ask("append", node, payload)
            self.group.offer(
                node, payload, session=client.session, sequence=sequence, opens=sequence == 0, ticket=call
            )  # fmt: skip
        if self.random.random() < 0.8:
            self.group.turn(node)

    def append_at(self, node: NodeId) -> None:
        """A client of its own appends at a tail that it names."""
        payload, expected = f"at.{len(self.history.refused)}.{self.random.random()}", self.history.floor
        session = SessionId(self.random.randbytes(16))
        call = self.history.ask("append", node, payload, expected)
        self.group.offer(node, payload, session=session, sequence=0, opens=True, expected_tail=expected, ticket=call)
        self.group.turn(node)

    def tail(self, node: NodeId) -> None:
        call = self.history.ask("tail", node)
        self.group.do(node, lambda at: at.requests.check_tail(call))

    def seal(self, node: NodeId) -> None:
        call, stand = self.history.ask("seal", node), self.random.random() < 0.5
        self.group.do(node, lambda at: at.requests.seal(call, stand=stand))

    def transfer(self, node: NodeId) -> None:
        call, target = self.history.ask("transfer", node), self.random.choice(list(self.group.nodes))
        self.group.do(node, lambda at: at.requests.transfer(target, call))

    def trim(self, node: NodeId) -> None:
        call, offset = self.history.ask("trim", node), self.random.randint(0, self.history.floor)
        self.group.do(node, lambda at: at.requests.trim(offset, call))

    def change(self, node: NodeId) -> None:
        """An operator changes one member."""
        present = self.group[node].state.log.configuration
        members, which = dict(present.members), self.random.choice(list(self.group.nodes))
        if which in members and self.random.random() < 0.5:
            del members[which]
        else:
            members[which] = RaftMember(self.random.choice([MemberKind.VOTER, MemberKind.VOTER, MemberKind.PRE_VOTER]))
        call = self.history.ask("change", node)
        self.group.do(node, lambda at: at.requests.change_members(members, present.index, call))

    # -- the end --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let the faults stop: the replicas agree, and no call stays without an answer."""
        for at in self.group.nodes.values():
            at.refusal = None
        for _ in range(QUIET_TICKS):
            for node in self.group.nodes:
                self.group.turn(node)
            self.group.settle()
            self.history.listen()
            if not self.history.open and self.is_settled:
                return
            self.group.tick()
        raise AssertionError(
            f"no agreement: {[self.group.shape(node) for node in self.group.nodes]}, {self.history.open}"
        )

    @property
    def is_settled(self) -> bool:
        """True if the members have equal logs, and know all of them to be committed, or that the log is sealed and at rest."""
        newest = max((self.group[node].state for node in self.group.nodes), key=lambda state: state.commit)
        if newest.is_sealed:  # a learner asks for no votes, so it wakes none of them
            voters = newest.log.configuration_at(newest.commit).voters
            return all(self.group[node].is_at_rest for node in voters)
        members = [self.group[node] for node in newest.log.configuration.members]
        ends = {(replica.state.log.end, replica.state.commit) for replica in members}
        return ends == {(newest.log.end, newest.log.last_index)} and sum(self.group.leads(r.node) for r in members) == 1


STEP_WEIGHTS: Final[dict[Callable[[Walk, NodeId], None], float]] = {
    Walk.deliver: 60, Walk.sync: 30, Walk.tick: 10, Walk.append: 12, Walk.lose: 1, Walk.crash: 0.3, Walk.begin_file: 0.3,
    Walk.toggle_disk: 0.15, Walk.refuse: 0.3, Walk.append_at: 0.5, Walk.tail: 1, Walk.seal: 0.05, Walk.transfer: 0.2, Walk.trim: 0.4,
    Walk.change: 0.2,
}  # fmt: skip
"""Steps, and how often they are taken; the seldom ones more or less often from seed to seed."""


def walk(seed: int) -> Walk:
    """Run one seed."""
    made = Walk(seed)
    made.run()
    return made


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so small that a short walk meets them."""
    narrow_limits(monkeypatch.setattr)


def narrow_limits(put: Callable[[object, str, int], None]) -> None:
    """Set the limits."""
    put(log, "KEPT_BYTES_MAX", 400)
    put(replication, "WINDOW", 3)
    put(replication, "MESSAGE_RECORDS", 3)
    put(leader_term, "RECORDS_MAX", 3)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_replicas_agree_after_faults_and_keep_their_promises(first: int) -> None:
    """Nothing that a client was told turns out wrong, and without faults all replicas agree soon."""
    placed = sum(len(walk(seed).history.acknowledged) for seed in range(first, first + 50))

    assert placed > 300, "the walks do hardly anything"


if __name__ == "__main__":
    narrow_limits(setattr)
    for each in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            walk(each)
        except BaseException:
            sys.stderr.write(f"seed {each}\n")
            raise
