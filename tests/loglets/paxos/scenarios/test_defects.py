"""The defects of Mesos' log that ours must not have, by their numbers in docs/internals/sources.md.

Each rule must matter. Defects 1 and 2 lose acknowledged entries: their tests play a schedule twice,
with the product as it is and with the rule taken out. Without the rule the schedule must end with
two values for one position. The tests of 3 to 7 are run again with the behaviour of Mesos, and must
fail: `test_a_rule_that_is_taken_out_is_missed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import pytest

from tests.loglets.paxos.scenarios.defect_world import lone_leader, lose_disk, played_schedule, with_number_one_used
from tests.loglets.paxos.world import SEGMENT, STRANGER, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.errors import StorageError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.coordinator import Coordinator
from virtuallog_loglets.paxos.core.effects import CoordinatorEffect, PaxosAnswer, ReplicaEffect, ReplicaTicket
from virtuallog_loglets.paxos.core.fill_attempt import FillAttempt, FillFinish
from virtuallog_loglets.paxos.core.leader_term import LeaderTerm
from virtuallog_loglets.paxos.core.recovery import FollowQuorum, Recovery
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.rounds import CrashVector, Ignored, Rejected
from virtuallog_loglets.paxos.drivers.fill_driver import _RangeFill, fill
from virtuallog_loglets.paxos.messages import (
    Learn,
    PaxosRecovered,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Status,
    Verdict,
)
from virtuallog_simulation.world.planted_bug import planted

X, Y = b"X", b"Y"
SLOW_SECONDS = 0.4
"""Less than an election waits for answers, more than a recovery takes."""


# -- 1: accepting raises the promise ------------------------------------------------------------------------------------


def test_accepting_raises_the_promise() -> None:
    """A coordinator that was outbid overwrites nothing that others have accepted since. Else an append that was acknowledged is
    lost, and another value is decided in its place."""
    assert played_schedule(outbid) == {X}

    with planted({"virtuallog_loglets.paxos.core.replica:Replica._write": accepts_and_keeps_the_promise}):
        assert played_schedule(outbid) == {X, Y}


async def outbid(world: World) -> None:
    """K is elected by all, then N by two of them. What N appends, the third one accepts as well, which still has K's number. K, who knows
    nothing of N, writes there, too. Then N's replica dies, the only one that has learned what was decided."""
    await world.start(1, 2, 3)
    k, n, m = (world.coordinator(node) for node in (1, 2, 3))
    assert await k.elect() == 0
    world.catch(Promise, to=1, sender=2)
    assert await n.elect() == 0
    world.catch(PaxosWrite, to=3, sender=2)
    world.unlearned = frozenset({1, 3})
    assert await n.append(X) == 1
    world.separate(1, 2)

    assert await k.append(Y) is None  # 3 refuses it, 1 should

    world.kill(2)
    world.unlearned = frozenset()
    await m.insist()


write = Replica._write


def accepts_and_keeps_the_promise(self: Replica, request: PaxosWrite, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """The rule of Mesos: what is accepted keeps the promise that was there before."""
    floors = {position: self._floor(position) for position in range(request.first, request.first + len(request.values))}
    effects = write(self, request, ticket)
    for position, floor in floors.items():
        record = self.slots.open_record(position)
        if record is not None and record.performed == request.proposal:
            self.slots.put(attrs.evolve(record, promised=floor))
    return effects


# -- 2: what a lost store had promised ----------------------------------------------------------------------------------


def test_recovery_restores_the_promise() -> None:
    """A replica that lost its disk has promised before what it cannot know any more: it recovers that, too. Else two coordinators
    have the same number, and both get quorums through it."""
    assert played_schedule(forgotten) == {Y}

    with planted({"virtuallog_loglets.paxos.core.recovery:Recovery._follow": follows_without_promise}):
        assert played_schedule(forgotten) == {X, Y}


async def forgotten(world: World) -> None:
    """C is elected by 2 and 3 while 1 is cut off. 3 loses its disk and recovers. D, on 1, knows
    nothing of C and takes the next number: that of C. Both write the same position, and C gets
    its quorum. Then 2 dies, and a later proposer finds two values with one number."""
    await with_number_one_used(world)
    world.separate(1, 2, 3)
    c = world.coordinator(2)
    assert await c.elect() == 0
    await lose_disk(world, 3)
    world.separate(1, 3, blocked=False)
    await world.recover(3)
    d = world.coordinator(1)
    await d.insist()
    world.unlearned = frozenset({3})

    await c.append(X)
    await d.append(Y)

    world.kill(2)
    await world.coordinator(1).insist()


follow = Recovery._follow


def follows_without_promise(self: Recovery, voting: list[PaxosRecovered]) -> FollowQuorum:
    """The rule of Mesos: an answer to a replica that recovers does not say what was promised."""
    return attrs.evolve(follow(self, voting), promised=0)


def test_votes_of_a_lost_store_are_dropped() -> None:
    """A recovery gets what a quorum knows. A promise in transit is known only to the replica that
    gave it. So a proposer that counts it must hear from its other votes that the store is gone."""
    assert played_schedule(in_flight, replicas=5) == {Y}

    with planted({"virtuallog_loglets.paxos.core.rounds:CrashVector.is_current": counts_any_store}):
        assert played_schedule(in_flight, replicas=5) == {X, Y}


async def in_flight(world: World) -> None:
    """P is promised a number by 1 and 3, and 3's answer travels slowly. 3 loses its disk and
    recovers from 2, 4 and 5, which have not been asked. They and the new 3 give Q the same
    number. Then P gets the old promise of 3, and one of 2. Both write the same position, and P
    gets its quorum. Then 1 dies, and a later proposer finds two values with one number."""
    await with_number_one_used(world)
    p, q = world.coordinator(1), world.coordinator(4)
    for node in (4, 5):
        world.separate(node, 1)
    world.separate(4, 2)
    late = world.catch(Promise, to=2, sender=1)
    world.network.link(NodeId(3), NodeId(1)).clogged_until = world.clock.monotonic() + SLOW_SECONDS
    elected: list[int | None] = []

    async def elect() -> None:
        elected.append(await p.elect())

    world.nursery.start_soon(elect)
    await world.until(lambda: world.standing(3).promised == world.standing(1).promised == 2 and len(late.kept) == 1)
    await world.clock.sleep(0.01)
    await lose_disk(world, 3)
    await world.recover(3)
    assert await q.elect() == 0
    await world.clock.sleep(SLOW_SECONDS)
    late.release()
    await world.until(lambda: elected != [])
    world.unlearned = frozenset({2, 3})

    await p.append(X)
    await q.append(Y)

    world.kill(1)
    world.separate(4, 2, blocked=False)
    await world.coordinator(4).insist()


def counts_any_store(self: CrashVector, node: NodeId, incarnation: int) -> bool:
    """Every vote counts, as in Mesos, which knows of no stores."""
    return True


# -- 3: who is refused, leads no longer ---------------------------------------------------------------------------------


@simulated
async def test_a_refused_coordinator_is_not_elected_any_more() -> None:
    """In Mesos the writer continued with the number of the writer that turned it out, and replicas
    could not tell them apart. Ours writes nothing more before it is elected again."""
    async with playing() as world:
        await world.start(1, 2, 3)
        first, second = world.coordinator(1), world.coordinator(2)
        assert await first.elect() == 0
        assert await second.elect() == 0
        assert await first.append(X) is None
        assert not first.running.is_leading
        written = world.count(PaxosWrite)

        assert await first.append(X) is None

        assert world.count(PaxosWrite) == written
        assert await second.append(Y) == 1
        assert await first.insist() == 1
        assert await first.append(X) == 2


# -- 4: ignored is not refused ------------------------------------------------------------------------------------------


@simulated
async def test_ignored_is_not_refused() -> None:
    """A quorum that does not vote refuses nothing: a fill, here that of a replica which recovers, tries the same number again after a
    pause. Mesos took it for a refusal with the number 0, and crashed. Of an election, see test_recovery_race."""
    async with playing() as world:
        await world.start(1, 2, 3, status=Status.EMPTY)
        environment = world.machines[NodeId(1)].environment
        world.requests.clear()
        ended: list[int] = []

        async def run() -> None:
            ended.append(await fill(SEGMENT, world.ensemble, environment, environment.node, 7, 0, 1))

        world.nursery.start_soon(run)
        await world.clock.sleep(2)
        assert ended == []
        asked = [request.proposal for node, request in world.requests if node == 2 and isinstance(request, Promise)]
        assert len(asked) > 1
        assert set(asked) == {7}
        for node in (2, 3):
            await world.replica(node).adopt(Status.VOTING)
        await world.until(lambda: ended != [])
        assert ended == [7]


# -- 5: every request is answered ---------------------------------------------------------------------------------------


@simulated
async def test_a_write_to_a_learned_position_is_answered() -> None:
    """In Mesos the replica is silent and the writer waits for ever. Ours returns the decision, even
    if it equals the written value."""
    async with playing(replicas=1, quorum=1) as world:
        leader = await lone_leader(world)
        assert await leader.append(X) == 1
        (decided,) = await world.read(1, 1, 1)

        other = await _write(world, 1, values.append(Y, 0))
        same = await _write(world, 1, decided.value)

        assert (other.verdict, other.records) == (Verdict.ACCEPT, (decided,))
        assert (same.verdict, same.records) == (Verdict.ACCEPT, (decided,))


@simulated
async def test_a_write_to_a_truncated_position_is_answered() -> None:
    """The same where nothing is left to compare: a tombstone."""
    async with playing(replicas=1, quorum=1) as world:
        leader = await lone_leader(world)
        for payload in (X, Y, X):
            assert await leader.append(payload) is not None
        assert await leader.truncate(3) == 4

        written = await _write(world, 1, values.append(Y, 0))

        (record,) = written.records
        assert (written.verdict, record.position, record.learned) == (Verdict.ACCEPT, 1, True)
        assert values.is_tombstone(record.value)


@simulated
async def test_a_failed_store_is_answered() -> None:
    """A replica with a failed store answers with an error, and its machine gets a report: no wrong
    answer and no silence."""
    async with playing(replicas=1, quorum=1) as world:
        await world.start(1)
        world.disks[NodeId(1)].fail_write()

        for proposal in (1, 2):
            with pytest.raises(VirtualLogError):
                await world.ask(1, Promise(segment=SEGMENT, proposal=proposal, coordinator=STRANGER))

        (failure,) = world.failures
        assert isinstance(failure[1], StorageError)
        world.failures.clear()


# -- 6, 7: what is decided ----------------------------------------------------------------------------------------------


@simulated
async def test_a_learned_position_is_told_whatever_the_number() -> None:
    """A promise of a decided position needs no number: a proposer with a low number gets the
    decision and need not ask again."""
    async with playing(replicas=1, quorum=1) as world:
        leader = await lone_leader(world)
        assert await leader.append(X) == 1

        promise = Promise(segment=SEGMENT, proposal=1, coordinator=STRANGER, first=1, stop=2)
        promised = await world.ask(1, promise)

        assert promised.verdict is Verdict.ACCEPT
        (record,) = promised.records
        assert (record.learned, values.payload_of(record.value)) == (True, X)


@simulated
async def test_a_tombstone_is_always_learned() -> None:
    """A fill of positions that others have truncated passes the tombstone on as a decision. As a
    value to accept it would lose its meaning, in Mesos, and its receiver would keep the
    positions below."""
    async with playing() as world:
        await world.start(1, 2)
        leader = world.coordinator(1)
        assert await leader.elect() == 0
        for payload in (X, Y, X, Y):
            assert await leader.append(payload) is not None
        assert await leader.truncate(3) == 5
        await world.until(lambda: world.standing(2).begin == 3)
        await world.start(3)
        world.requests.clear()

        environment = world.machines[NodeId(3)].environment
        await fill(SEGMENT, world.ensemble, environment, environment.node, 9, 0, 3)

        assert world.standing(3).begin == 3
        written = [
            value for _, request in world.requests if isinstance(request, PaxosWrite) for value in request.values
        ]
        assert [value for value in written if values.is_tombstone(value)] == []
        learned = [record for _, request in world.requests if isinstance(request, Learn) for record in request.records]
        assert any(values.is_tombstone(record.value) for record in learned)
        assert all(record.learned for record in learned)


# -- 8: maybe -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reaches", "decided"), [(2, True), (None, False)])
def test_an_unknown_append_may_yet_be_decided(reaches: int | None, decided: bool) -> None:
    """An append that ends without an answer is in the log, or it is not: that depends on whom it reached, which its caller cannot
    know. In both cases the same answer: maybe, and the coordinator leads no longer."""

    async def play() -> None:
        async with playing() as world:
            await world.start(1, 2, 3)
            first = world.coordinator(1)
            assert await first.elect() == 0
            for node in (2, 3):
                world.catch(PaxosWrite, to=node, sender=1, answers=node == reaches)
            assert await first.append(X) is None
            assert not first.running.is_leading
            world.kill(1)

            second = world.coordinator(2)
            await second.insist()
            await second.append(Y)

            found = await world.decided()
            assert [found[position] for position in sorted(found)[1:]] == ([{X}, {Y}] if decided else [{Y}])

    simulated(play)()


# -- Mesos as it is -----------------------------------------------------------------------------------------------------

after = Coordinator._after


def goes_on_when_refused(
    self: Coordinator, term: LeaderTerm, effects: list[CoordinatorEffect]
) -> list[CoordinatorEffect]:
    """3: takes the number of who refused it for its own, and leads."""
    replicator = term.replicator
    if not isinstance(replicator.lost, Rejected):
        return after(self, term, effects)
    self.proposal = replicator.proposal = replicator.lost.proposal
    replicator.lost = None
    return [*effects, *term.give_up(UnavailableError("refused"))]


learn_from = _RangeFill._learn_from


def takes_ignored_for_refused(self: _RangeFill, finish: FillFinish | None) -> None:
    """4: goes on with another number."""
    learn_from(self, FillFinish(Rejected(self.proposal)) if finish == FillFinish(Ignored()) else finish)


def says_nothing_about_decisions(self: Replica, request: PaxosWrite, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """5: no answer at all."""
    return [] if self.slots.is_learned(request.first) else write(self, request, ticket)


promise_some = Replica._promise_some


def demands_a_number_for_decisions(self: Replica, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
    """6: a learned position has a promise as well, and refuses a lower number."""
    if request.proposal > self.promised:
        return promise_some(self, request, ticket)
    return [PaxosAnswer(ticket, self._answer(Promised, Verdict.REJECT, self.promised))]


def takes_decisions_for_values(self: FillAttempt, answers: Iterable[Promised | PaxosWritten]) -> None:
    """Defect 7: every value in a promise is written again."""


@pytest.mark.parametrize(
    ("test", "target", "rule_of_mesos"),
    [
        (
            test_a_refused_coordinator_is_not_elected_any_more,
            "core.coordinator:Coordinator._after",
            goes_on_when_refused,
        ),
        (test_ignored_is_not_refused, "drivers.fill_driver:_RangeFill._learn_from", takes_ignored_for_refused),
        (test_a_write_to_a_learned_position_is_answered, "core.replica:Replica._write", says_nothing_about_decisions),
        (test_a_write_to_a_truncated_position_is_answered, "core.replica:Replica._write", says_nothing_about_decisions),
        (
            test_a_learned_position_is_told_whatever_the_number,
            "core.replica:Replica._promise_some",
            demands_a_number_for_decisions,
        ),
        (test_a_tombstone_is_always_learned, "core.fill_attempt:FillAttempt._note", takes_decisions_for_values),
    ],
)
def test_a_rule_that_is_taken_out_is_missed(test: Callable[[], None], target: str, rule_of_mesos: object) -> None:
    """With the behaviour of Mesos the test of the defect fails, by its assertion or because no answer arrives."""
    with planted({f"virtuallog_loglets.paxos.{target}": rule_of_mesos}):
        assert _fails(test)


# -- shared -------------------------------------------------------------------------------------------------------------


def _fails(test: Callable[[], None]) -> bool:
    """True if a test fails by its assertion or because no answer arrives; any other error fails this test, too."""
    failed = False
    try:
        test()
    except* (AssertionError, UnavailableError):
        failed = True
    return failed


async def _write(world: World, position: int, value: bytes) -> PaxosWritten:
    request = PaxosWrite(segment=SEGMENT, proposal=9, coordinator=STRANGER, first=position, values=(value,))
    return await world.ask(1, request)
