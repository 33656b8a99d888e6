"""Small worlds and schedules for the tests of published defects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.loglets.paxos.core.leader_bench import Leader
from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog_loglets.paxos.messages import Status


def played_schedule(schedule: Callable[[World], Awaitable[None]], replicas: int = 3) -> set[bytes]:
    """Values decided for position 1 in the end, as users and replicas know them."""
    found: set[bytes] = set()

    async def play() -> None:
        async with playing(replicas, replicas // 2 + 1, is_safe=False) as world:
            await schedule(world)
            found.update((await world.decided())[1])

    simulated(play)()
    return found


async def with_number_one_used(world: World) -> None:
    """All replicas have promised the number 1 and learned position 0."""
    await world.start(*world.members)
    assert await world.coordinator(1).elect() == 0
    await world.until(lambda: all(world.standing(node).learned == 1 for node in world.members))
    await world.until(lambda: all(world.standing(node).promised == 1 for node in world.members))


async def lone_leader(world: World) -> Leader:
    await world.start(1)
    leader = world.coordinator(1)
    assert await leader.elect() == 0
    return leader


async def lose_disk(world: World, node: int) -> None:
    world.kill(node)
    world.wipe(node)
    await world.start(node, status=Status.EMPTY)
