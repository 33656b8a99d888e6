"""Several coordinators, fills and clients over pure replicas; messages are lost, doubled and come in any order."""

from __future__ import annotations

import random

import attrs
import pytest

from tests.loglets.paxos.core.committee import Committee
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.coordinator import CoordinatorState
from virtuallog_loglets.paxos.core.replication import PATIENCE_MS
from virtuallog_loglets.paxos.messages import NOWHERE

SEEDS = 120
STEPS = 1200


@attrs.define(eq=False)
class Client:
    """A session that keeps a few batches in flight, and offers a batch again for as long as it does not know where it is."""

    session: SessionId
    committee: Committee
    batches: list[Batch] = attrs.field(factory=list)
    """Batches that were offered, in order."""
    places: dict[int, int] = attrs.field(factory=dict)
    """Acknowledged place of each batch, by index."""
    under_way: set[int] = attrs.field(factory=set)
    is_sealed: bool = False

    def offer(self, node: NodeId, source: random.Random) -> None:
        """The first batch alone; then a few at a time, and always those that are not settled first."""
        core = self.committee.members[node].coordinator
        if core.state not in (CoordinatorState.LEADING, CoordinatorState.CLOSED) or self.is_sealed:
            return
        unsettled = [i for i in range(len(self.batches)) if i not in self.places and i not in self.under_way]
        if unsettled:
            index = unsettled[0]
        elif len(self.batches) - len(self.places) < (3 if self.places else 1):
            index = len(self.batches)
            first = self.batches[-1].stop_sequence if self.batches else 0
            payload = b"%d of %s" % (index, self.session[:4])
            self.batches.append(Batch.build(self.session, first, [payload] * source.randint(1, 3)))
        else:
            return
        self.under_way.add(index)
        self.committee.perform(
            node,
            core.offer(
                self.batches[index],
                lambda outcome: self.settled(index, outcome),
                self.committee.now_ms,
                opens=not self.places,
                expected_tail=NOWHERE,
            ),
        )

    def settled(self, index: int, outcome: int | VirtualLogError) -> None:
        self.under_way.discard(index)
        if isinstance(outcome, int):
            assert self.places.setdefault(index, outcome) == outcome, "a batch has one place"
        elif isinstance(outcome, SealedError):
            self.is_sealed = True
        else:
            assert isinstance(outcome, UnavailableError | OutOfOrderError), outcome


def play(seed: int, *, closes: bool) -> tuple[Committee, list[Client]]:
    source = random.Random(seed)
    committee = Committee.of(source, source.choice((3, 3, 5)))
    nodes = committee.ensemble.members
    clients = [Client(SessionId(b"%4d" % number + bytes(12)), committee) for number in range(3)]
    committee.elect(nodes[0])
    reorders = source.choice((1, 4, 30))
    for step in range(STEPS):
        crash_vector = source.random()
        if committee.bag and crash_vector < 0.82:
            index = source.randrange(min(len(committee.bag), reorders))
            committee.deliver(index, copies=source.random() < 0.05)
        elif committee.bag and crash_vector < 0.84:
            committee.bag.pop(source.randrange(len(committee.bag)))
        elif crash_vector < 0.843:
            committee.elect(source.choice(nodes))
        elif crash_vector < 0.85:
            first = source.randrange(0, max(committee.decided, default=0) + 2)
            committee.fill(source.choice(nodes), first, first + source.randint(1, 3), source.randint(1, 9))
        elif crash_vector < 0.90:
            committee.now_ms += source.choice((10, 300, 1500))
            for node in nodes:
                committee.tick(node)
        elif closes and step > STEPS // 2 and crash_vector < 0.905:
            node = source.choice(nodes)
            core = committee.members[node].coordinator
            if core.state in (CoordinatorState.LEADING, CoordinatorState.CLOSED):
                committee.perform(node, core.seal_log(lambda outcome: None))
        else:
            source.choice(clients).offer(source.choice(nodes), source)
    settle(committee)
    return committee, clients


def settle(committee: Committee) -> None:
    """Nothing is lost any more, one coordinator stands until it is elected: then all is decided."""
    node = committee.ensemble.members[0]
    core = committee.members[node].coordinator
    for _ in range(50):
        committee.deliver_all()
        if core.state is CoordinatorState.CLOSED:
            return
        committee.elect(node)
        committee.deliver_all()
        if core.state in (CoordinatorState.LEADING, CoordinatorState.CLOSED):
            return
    raise AssertionError("no candidate can be elected")


@pytest.mark.parametrize("first", range(0, SEEDS, 30))
def test_replicas_agree_and_sessions_are_in_order_and_once(first: int) -> None:
    """For any fate of the messages a position has one decision (the committee checks it all the
    time). Acknowledged batches are at their places. The batches of a session are in the log in
    order, once, without a hole."""
    acknowledged = terms = 0
    for seed in range(first, first + 30):
        committee, clients = play(seed, closes=False)
        found = {batch.blob: place for place, batch in committee.batches()}
        everything = [batch for _, batch in committee.batches()]
        assert len(found) == len(everything), f"seed {seed}: once"
        for client in clients:
            own = [batch for batch in everything if batch.session == client.session]
            assert own == client.batches[: len(own)], f"seed {seed}: in order, without a hole"
            for index, place in client.places.items():
                assert found[client.batches[index].blob] == place, f"seed {seed}: acknowledged"
            acknowledged += len(client.places)
        terms += max(member.coordinator.proposal for member in committee.members.values())
    assert acknowledged > 200
    assert terms > 100


@pytest.mark.parametrize("first", range(1000, 1000 + SEEDS, 30))
def test_nothing_is_acknowledged_behind_a_seal(first: int) -> None:
    """Once a SEAL is decided, what was acknowledged lies below it; and all coordinators that learn of it are closed."""
    closed = 0
    for seed in range(first, first + 30):
        committee, clients = play(seed, closes=True)
        found = {batch.blob: place for place, batch in committee.batches()}
        for client in clients:
            for index, place in client.places.items():
                assert found.get(client.batches[index].blob) == place, f"seed {seed}"
        core = committee.members[committee.ensemble.members[0]].coordinator
        closed += core.state is CoordinatorState.CLOSED
    assert closed >= 5


def test_patience_ends() -> None:
    """A coordinator that no quorum answers gives up: what it was given is a maybe."""
    committee = Committee.of(random.Random(0))
    node = committee.ensemble.members[0]
    committee.elect(node)
    committee.deliver_all()
    core = committee.members[node].coordinator
    outcomes: list[object] = []
    committee.perform(node, core.append(b"x", outcomes.append))

    committee.deliver_all(between=[node])
    committee.now_ms += PATIENCE_MS
    committee.tick(node)

    assert core.state is CoordinatorState.INITIAL
    assert isinstance(outcomes[0], UnavailableError)
