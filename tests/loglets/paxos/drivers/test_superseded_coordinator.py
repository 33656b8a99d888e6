"""A coordinator that has been outbid and does not know it yet, while its own replica has learned more than it has decided."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.loglets.paxos.cluster import payloads_of, running_cluster, writer
from tests.loglets.paxos.core.leader_bench import Leader
from tests.loglets.paxos.world import SEGMENT, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.drivers.coordinator_requests import CoordinatorRequests
from virtuallog_loglets.paxos.loglet import PaxosLoglet
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    CoordinatorReply,
    PaxosSettle,
    PaxosTruncate,
    PaxosWrite,
    Promise,
    Status,
)
from virtuallog_loglets.paxos.offsets import offset_of


@simulated
async def test_an_outbid_coordinator_asked_to_trim_leads_no_longer() -> None:
    """A client knows the tail from the new leader and asks the old one to trim up to there. That one finds out that others have
    decided more than it has: it resigns, and the client asks elsewhere. Its node goes on as before."""
    async with playing() as world:
        former, leader = await _outbid(world)

        outcome = await _trim(world, former, offset_of(4))

        assert isinstance(outcome, UnavailableError)
        assert not former.running.is_leading
        assert world.standing(1).begin == 0
        assert await _trim(world, leader, offset_of(4)) == CoordinatorReply(place=offset_of(4), coordinator=leader.node)


@simulated
async def test_an_outbid_writer_truncates_nothing() -> None:
    """The same for a log that is used by itself."""
    async with playing() as world:
        former, _ = await _outbid(world)

        with world.within(), pytest.raises(UnavailableError):
            await former.running.truncate(4)

        assert not former.running.is_leading


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_an_outbid_coordinator_does_not_miss_a_batch_that_another_one_has(
    is_cut_off: bool, autojump_clock: MockClock
) -> None:
    """3 leads and does not know that 2 was elected and has taken a batch. A client offers the next
    batch to 3, as 2 is dead or unknown to it, and 3 is cut off from the others. 3 lacks the
    batch before, which was acknowledged and will not be offered again. So before 3 reports a
    missing batch it asks whether it still leads, and the real leader takes the batch."""
    async with running_cluster() as cluster:
        config = cluster.create(coordinator=3)
        loglet, other = cluster.client(), cluster.environment()
        session = writer(loglet)
        await session.append(b"through 3")
        for node in (1, 2) if is_cut_off else ():
            cluster.network.link(NodeId(node), NodeId(3)).blocked = True
            cluster.network.link(NodeId(3), NodeId(node)).blocked = True
        await other.services.call(NodeId(2), PaxosSettle(segment=SEGMENT, insist=True), 5.0)
        through_two = PaxosLoglet(SEGMENT, attrs.evolve(config, coordinator=NodeId(2)), other)
        await through_two.append(session.batch(b"through 2"), opens=False)
        if not is_cut_off:
            cluster.crash(2)

        await session.append(b"the next")

        assert await payloads_of(loglet) == [b"through 3", b"through 2", b"the next"]


@pytest.mark.parametrize("asks", ["the tail", "a later tail", "a later batch"])
@simulated
async def test_a_position_that_a_recovery_has_filled_is_no_reason_to_refuse(asks: str) -> None:
    """2 leads, elected without 3, which alone has position 2. Then 1 recovers from an empty disk
    and fills position 2 with a promise for it alone. So all know it but the coordinator on 2.
    That coordinator refuses no client that expects the tail of the others, a later one, or the
    place behind a batch that 2 does not know."""
    async with playing(replicas=3) as world:
        leader = await _led_without(world, filled=2)
        expected = {"the tail": offset_of(3), "a later tail": offset_of(9)}.get(asks, NOWHERE)
        told: list[int | VirtualLogError] = []
        batch = Batch.build(SessionId(bytes(16)), 0 if expected != NOWHERE else 1, [b"x"])
        core, opens = leader.running.core, expected != NOWHERE

        leader.running.step(lambda: core.offer(batch, told.append, 0, opens=opens, expected_tail=expected))
        await world.until(lambda: bool(told))

        assert isinstance(told[0], UnavailableError)
        assert not leader.running.is_leading


async def _led_without(world: World, filled: int) -> Leader:
    """2 leads, and knows nothing of the position `filled`, which is decided."""
    await world.start(1, 2, 3)
    first, second = world.coordinator(1), world.coordinator(2)
    await first.insist()
    assert await first.append(b"one") == filled - 1
    await world.until(lambda: all(world.standing(node).learned == filled for node in (1, 2, 3)))
    caught = [world.catch(PaxosWrite, to=node) for node in (1, 2)]
    first.append_soon(b"at 3 alone")
    await world.until(lambda: world.standing(3).end == filled)
    world.kill(1)
    for each in caught:
        each.lift()
    await world.start(1)
    unheard = world.catch(Promise, to=3, sender=2)
    await second.insist()
    unheard.lift()
    world.kill(1)
    world.wipe(1)
    await world.start(1, status=Status.EMPTY)
    await world.recover(1)
    await world.until(lambda: all(world.standing(node).learned == filled + 1 for node in (1, 2, 3)))
    assert second.running.is_leading
    return second


async def _outbid(world: World) -> tuple[Leader, Leader]:
    """2 leads, and 1, which led before, has learned three entries from it."""
    await world.start(1, 2, 3)
    former, leader = world.coordinator(1), world.coordinator(2)
    assert await former.elect() == 0
    assert await leader.elect() == 0
    for payload in (b"a", b"b", b"c"):
        assert await leader.append(payload) is not None
    await world.until(lambda: world.standing(1).learned == 4)
    assert former.running.is_leading
    return former, leader


async def _trim(world: World, leader: Leader, offset: int) -> CoordinatorReply | VirtualLogError:
    outcomes: list[CoordinatorReply | VirtualLogError] = []
    answered = trio.Event()

    def done(outcome: CoordinatorReply | VirtualLogError) -> None:
        outcomes.append(outcome)
        answered.set()

    machine = world.machines[leader.node]
    requests = CoordinatorRequests(machine.replica, machine.environment, leader.running)
    requests.request(PaxosTruncate(segment=SEGMENT, offset=offset), done)
    with world.within():
        await answered.wait()
    return outcomes[0]
