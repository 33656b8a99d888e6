"""Replicas that may have forgotten something, and come back: RecoverTest of Mesos, and CoordinatorTest.RecoveryRace."""

from __future__ import annotations

from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import PaxosRecover, Status

TEN = [str(number).encode() for number in range(1, 11)]


@simulated
async def test_recovery_race() -> None:
    """MESOS-3280. While one of three replicas votes, an election ends at once: the others say that they ignore it. With a second
    one it succeeds; the third finds a quorum that votes and recovers from it."""
    async with playing() as world:
        await world.start(1, 2, 3, status=Status.STARTING)
        await world.replica(1).adopt(Status.VOTING)
        leader, started = world.coordinator(1), world.clock.monotonic()

        assert await leader.elect() is None
        assert world.clock.monotonic() - started < 0.1  # simulated: round trips, and no timeout

        await world.replica(2).adopt(Status.VOTING)
        assert await leader.elect() == 0
        world.disks[NodeId(3)].write_seconds = 0.01  # so that each status lasts
        seen = _statuses(world, 3)
        world.keep(3, auto_initialize=True)
        await world.voting(3)
        assert seen == [Status.STARTING, Status.RECOVERING, Status.VOTING]
        assert await leader.append(b"hello world") == 1


@simulated
async def test_racing_catchup() -> None:
    """Two of five recover at the same time, then one of them leads. In Mesos its first election fails, as it does not know which
    number was promised to others before; here that is part of what it has recovered (defect 2)."""
    async with playing(replicas=5, quorum=3) as world:
        await world.start(1, 2, 3)
        first = world.coordinator(1)
        assert await first.elect() == 0
        assert [await first.append(payload) for payload in TEN] == [*range(1, 11)]
        await world.start(4, 5, status=Status.EMPTY)

        world.keep(4, 5)
        await world.voting(4, 5)

        fourth = world.coordinator(4)
        assert await fourth.elect() == 10
        assert await world.payloads(4, 1, 10) == TEN
        assert await fourth.append(b"hello hello") == 11
        assert await world.payloads(4, 11, 11) == [b"hello hello"]


@simulated
async def test_recover_protocol_retry() -> None:
    """One replica votes and two are empty: they cannot recover, however often they try. Once an
    operator has initialised the second one, the third recovers."""
    async with playing() as world:
        await world.start(1)
        await world.start(2, 3, status=Status.EMPTY)

        world.keep(3)
        await world.clock.sleep(25)
        assert world.standing(3).status is Status.EMPTY
        world.kill(2)
        world.wipe(2)
        await world.start(2, status=Status.VOTING)

        await world.voting(3)


@simulated
async def test_auto_initialization() -> None:
    """Three empty replicas found a log together, and no two of them do: the third one might know better."""
    async with playing() as world:
        await world.start(1, 2, 3, status=Status.EMPTY)

        world.keep(1, 2, auto_initialize=True)
        await world.clock.sleep(5)
        assert Status.VOTING not in {world.standing(node).status for node in (1, 2)}

        world.keep(3, auto_initialize=True)
        await world.voting(1, 2, 3)
        await _works(world)


@simulated
async def test_auto_initialization_retry() -> None:
    """The same, when the third one does not hear the first questions of the two others."""
    async with playing() as world:
        await world.start(1, 2, 3, status=Status.EMPTY)
        lost = world.catch(PaxosRecover, to=3, times=2)

        world.keep(1, 2, auto_initialize=True)
        await world.clock.sleep(0.1)
        assert len(lost.kept) == 2
        world.keep(3, auto_initialize=True)

        await world.voting(1, 2, 3)
        await _works(world)


async def _works(world: World) -> None:
    leader = world.coordinator(1)
    assert await leader.elect() == 0
    assert await leader.append(b"hello world") == 1
    assert await world.payloads(1, 1, 1) == [b"hello world"]


def _statuses(world: World, node: int) -> list[Status]:
    """Collects the statuses that a replica takes on."""
    seen = [world.standing(node).status]

    async def watch() -> None:
        while seen[-1] is not Status.VOTING:
            if (status := world.standing(node).status) is not seen[-1]:
                seen.append(status)
            await world.clock.sleep(0.0001)

    world.nursery.start_soon(watch)
    return seen
