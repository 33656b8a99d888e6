"""The tail of a log of replicas: by what a quorum says, and never more than that.

Against a slow obvious Paxos below: acceptors that promise and accept, proposers that die anywhere, messages that are lost.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs
import pytest

from virtuallog.contract.types import NodeId, Open, Sealed, Tail
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.slots import PaxosSlots
from virtuallog_loglets.paxos.core.tail_check import AskStandings, PaxosTailCheck, SettleThrough, TailEstablished
from virtuallog_loglets.paxos.messages import NOWHERE, Incarnation, PaxosRecord, Standing, Status
from virtuallog_loglets.paxos.offsets import offset_of

SEAL = "seal"


def standing(
    end: int,
    learned: int | None = None,
    uniform: int = 1,
    uniform_from: int = 0,
    seal: int = NOWHERE,
    seal_seen: int = NOWHERE,
    status: Status = Status.VOTING,
    incarnation: int = 1,
    others: tuple[tuple[int, int], ...] = (),
) -> Standing:
    return Standing(
        status=status, incarnation=incarnation, promised=1, begin=0, learned=end + 1 if learned is None else learned, end=end,
        uniform_from=uniform_from, uniform=uniform, seal=seal, seal_seen=seal_seen,
        incarnations=tuple(Incarnation(node=NodeId(node), incarnation=number) for node, number in others),
    )  # fmt: skip


def checked(*standings: Standing | None, replicas: int = 3) -> list[AskStandings | SettleThrough | TailEstablished]:
    """Effects of the last of these answers, of nodes 1, 2, ...; None stands for no answer."""
    check = PaxosTailCheck(replicas, replicas // 2 + 1)
    effects = check.begin()
    for node, answer in enumerate(standings, start=1):
        if answer is not None:
            effects = check.answer(NodeId(node), answer)
    return effects


def open_after(position: int) -> list[TailEstablished]:
    return [TailEstablished(Open(offset_of(position + 1)))]


# -- one by one -------------------------------------------------------------------------------------------------------


def test_an_empty_log_has_tail_0() -> None:
    """Before the first coordinator, and when it has filled position 0."""
    nothing = standing(0, learned=0, uniform=NOWHERE, uniform_from=1)

    assert checked(nothing, nothing) == [TailEstablished(Open(0))]
    assert checked(nothing, standing(0)) == [TailEstablished(Open(0))]


def test_a_minority_says_nothing() -> None:
    """However much it has learned: an acknowledged entry may be on the others."""
    assert checked(standing(7)) == []
    assert checked(standing(7), standing(7, status=Status.RECOVERING), standing(7, status=Status.EMPTY)) == []


def test_what_one_has_learned_is_decided() -> None:
    """The others lag, and it does not matter."""
    assert checked(standing(7), standing(5, learned=3)) == open_after(7)


def test_what_a_quorum_accepted_with_one_number_is_decided() -> None:
    """No replica has learned it yet. A number belongs to one value per position."""
    assert checked(standing(7, learned=4, uniform_from=3), standing(7, learned=3, uniform_from=4)) == open_after(7)


def test_different_numbers_decide_nothing_by_themselves() -> None:
    """One of the two values may be lost; so it is waited for."""
    ask = [AskStandings(2, past=7)]

    assert checked(standing(7, learned=4, uniform=1), standing(7, learned=4, uniform=2)) == ask
    assert checked(standing(7, learned=4, uniform_from=6), standing(7, learned=4, uniform_from=6)) == ask, "5 is open"


def test_a_third_answer_may_show_that_the_rest_is_nobodys_yet() -> None:
    """An acknowledged entry is on two of three: what only one of three has is in flight."""
    lonely, others = standing(9, learned=5, uniform_from=9), standing(7, learned=5)

    assert checked(lonely, None, others) == [AskStandings(2, past=9)]
    assert checked(lonely, others, others) == open_after(7)


def test_a_stale_tail_is_not_told() -> None:
    """Two replicas were cut off and know little; the one that is asked with either of them has accepted more."""
    stale, fresh = standing(3), standing(8, learned=4)

    assert checked(stale, fresh) == [AskStandings(2, past=8)]


def test_the_end_of_a_sealed_log_is_where_its_seal_is() -> None:
    """One replica that has learned it is enough, in any status and with any writes behind it."""
    whole = standing(12, seal=5, seal_seen=5)

    assert checked(whole) == [TailEstablished(Sealed(offset_of(5)))]
    assert checked(attrs.evolve(whole, status=Status.RECOVERING)) == [TailEstablished(Sealed(offset_of(5)))]


def test_a_seal_that_a_quorum_accepted_counts_before_anybody_learns_it() -> None:
    """It is decided, and so is everything below."""
    alike = standing(7, learned=4, uniform_from=4, seal_seen=6)

    assert checked(alike, alike) == [TailEstablished(Sealed(offset_of(6)))]


def test_a_seal_that_one_has_accepted_may_come_true() -> None:
    """Neither open nor sealed, until it is settled."""
    assert checked(standing(7, learned=7, seal_seen=7, uniform_from=7, uniform=2), standing(6)) == [
        AskStandings(2, past=7)
    ]


def test_a_seal_further_down_that_was_not_decided_hides_one_above() -> None:
    """A replica reports only the lowest SEAL that it accepted and hides those above: another
    replica must report them."""
    hides, clear = standing(7, learned=3, seal_seen=2), standing(7, learned=5)

    assert checked(hides, hides, replicas=3) == [AskStandings(2, past=7)]
    assert checked(attrs.evolve(hides, uniform_from=3), attrs.evolve(clear, learned=4)) == open_after(7)


def test_a_vote_of_a_store_that_is_gone_does_not_count() -> None:
    """Node 1 accepted position 7, lost its disk, and node 2 has been told of the new store: 7 may be decided otherwise."""
    gone, other = standing(7, learned=5), standing(7, learned=5)

    assert checked(gone, other) == open_after(7)
    assert checked(gone, attrs.evolve(other, incarnations=(Incarnation(node=NodeId(1), incarnation=2),))) == []


def test_what_stays_open_is_settled_and_asked_for_again() -> None:
    """The leader may be gone."""
    check = PaxosTailCheck(3, 2)
    check.begin()
    check.answer(NodeId(1), standing(7, learned=5, uniform=2))
    assert check.answer(NodeId(2), standing(6, learned=5)) == [AskStandings(2, past=7)]

    assert check.answer(NodeId(1), standing(7, learned=6, uniform=2)) == [], "it answered, and this is not enough"
    assert check.waited_long() == [SettleThrough(7)]
    assert check.settled() == [AskStandings(3)]
    assert check.answer(NodeId(2), standing(9, learned=8)) == open_after(7)


# -- at random --------------------------------------------------------------------------------------------------------


@attrs.define
class Acceptor:
    """One promise for all positions: the simplest Paxos there is."""

    promised: int = 0
    accepted: dict[int, tuple[int, str]] = attrs.field(factory=dict)
    learned: set[int] = attrs.field(factory=set)

    def standing(self) -> Standing:
        """Standing of a replica with this state."""
        slots = PaxosSlots()
        for position, (number, value) in sorted(self.accepted.items()):
            data = values.seal(0) if value == SEAL else values.append(value.encode(), 0)
            record = PaxosRecord(position=position, promised=number, performed=number, value=data)
            if position in self.learned:
                slots.learn(attrs.evolve(record, learned=True))
            else:
                slots.put(record)
        uniform_from, uniform = slots.uniform()
        return standing(slots.end, slots.learned, uniform, uniform_from, slots.seal, slots.seal_seen)


@attrs.define
class World:
    """Acceptors, and what has been decided among them."""

    source: random.Random
    acceptors: list[Acceptor]
    decided: dict[int, str] = attrs.field(factory=dict)
    votes: dict[tuple[int, int], set[int]] = attrs.field(factory=dict)
    """(position, number): who has ever accepted it."""
    proposals: int = 0

    @property
    def quorum(self) -> int:
        return len(self.acceptors) // 2 + 1

    @property
    def learned(self) -> int:
        """Positions decided without a hole: some proposer may know them."""
        return next(position for position in range(len(self.decided) + 1) if position not in self.decided)

    def proposer(self) -> Iterator[None]:
        """One coordinator: each step is one message that arrives. It may be left alone at any step."""
        self.proposals += 1
        number, promises = self.proposals, list[dict[int, tuple[int, str]]]()
        for acceptor in self.source.sample(self.acceptors, self.quorum):
            if number <= acceptor.promised:
                return
            acceptor.promised = number
            promises.append(dict(acceptor.accepted))
            yield
        end = max((p for promise in promises for p in promise), default=-1)
        new = self.source.randrange(4)
        found = [
            max((promise[p] for promise in promises if p in promise), default=(0, "nop"))[1] for p in range(end + 1)
        ]
        closed = SEAL in found
        wanted = (found or ["nop"]) + ([] if closed else [f"data {number}"] * new + [SEAL] * self.source.randrange(2))
        known = self.learned  # what it knows to be decided it does not write again
        writes = [(p, value, k) for p, value in enumerate(wanted) for k in range(len(self.acceptors)) if p >= known]
        for position, value, k in sorted(writes, key=lambda write: write[0] + self.source.random() * 3):
            if self.source.random() < 0.8:
                self.write(number, position, value, k)
                yield

    def write(self, number: int, position: int, value: str, k: int) -> None:
        acceptor = self.acceptors[k]
        if number < acceptor.promised or position in acceptor.learned:
            return
        acceptor.promised, acceptor.accepted[position] = number, (number, value)
        votes = self.votes.setdefault((position, number), set())
        votes.add(k)
        if len(votes) >= self.quorum:
            assert self.decided.setdefault(position, value) == value, "the obvious Paxos is broken"

    def learn(self) -> None:
        """One acceptor learns one decision."""
        if self.decided:
            newest = self.source.random() < 0.5  # a coordinator tells of its own positions, not of those before it
            position = max(self.decided) if newest else self.source.choice(list(self.decided))
            acceptor = self.source.choice(self.acceptors)
            acceptor.accepted[position] = (10_000, self.decided[position])
            acceptor.learned.add(position)

    def judge(self, tail: Tail, acknowledged: set[int]) -> None:
        """True if a check that began after all `acknowledged` positions were decided may return this tail."""
        below = list(range(1 + tail.tail // offset_of(2)))
        assert all(position in self.decided for position in below if position or tail.tail)
        assert SEAL not in [self.decided.get(position) for position in below]
        if isinstance(tail, Sealed):
            assert self.decided[len(below)] == SEAL
        else:
            sealed = [position for position in acknowledged if self.decided[position] == SEAL]
            assert not sealed, "a seal was complete"
            assert all(position in below for position in acknowledged)


@pytest.mark.parametrize("replicas", [3, 5])
def test_no_tail_is_told_that_is_not_so(replicas: int) -> None:
    """Random lives of a log: Open covers what was acknowledged before, nothing undecided and no SEAL; Sealed is the SEAL."""
    told: list[Tail] = []
    for seed in range(300):
        source = random.Random(seed)
        world = World(source, [Acceptor() for _ in range(replicas)])
        proposers: list[Iterator[None]] = []
        for _ in range(source.randrange(10, 120)):
            if len(proposers) < 2 and source.random() < 0.2:
                proposers.append(world.proposer())
            if proposers and next(proposer := source.choice(proposers), "over") == "over":
                proposers.remove(proposer)
            if source.random() < 0.2:
                world.learn()
            if source.random() < 0.3:
                told += _one_check(world, proposers)
    assert {type(tail) for tail in told} == {Open, Sealed}
    assert len(told) > 1000
    assert sum(tail.tail > 0 for tail in told) > 250


def _one_check(world: World, proposers: list[Iterator[None]]) -> list[Tail]:
    """Ask in random order while proposers go on; the tail, if there is one."""
    check, acknowledged = PaxosTailCheck(len(world.acceptors), world.quorum), set(world.decided)
    check.begin()
    nodes = list(enumerate(world.acceptors)) * 2
    world.source.shuffle(nodes)
    for node, acceptor in nodes:
        for effect in check.answer(NodeId(node), acceptor.standing()):
            if isinstance(effect, TailEstablished):
                world.judge(effect.tail, acknowledged)
                return [effect.tail]
        for proposer in proposers:
            next(proposer, None)
    return []
