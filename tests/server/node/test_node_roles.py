"""Roles of a node: which are open, and what is refused."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.server.node.world import FragileProvider, Ping, Pong, World, register_of, until
from virtuallog.admin.cluster_status import fetch_cluster
from virtuallog.admin.control import PrefixTrim, ReconfigExtend
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, DiskFullError, SealedError, UnavailableError
from virtuallog.contract.types import NodeId, Open


async def test_a_role_that_cannot_open_is_refused_and_the_node_lives_on(
    world: World, autojump_clock: MockClock
) -> None:
    """Corruption in one role: its callers get the reason, operators see it, planners stop using the node."""
    nodes = [await world.start(1, FragileProvider(corrupt=True)), await world.start(2), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    status = await world.status(1)
    assert status.failures == ("fragile: a bad block",)
    assert status.roles == ("metastore",)
    with pytest.raises(CorruptionError, match="a bad block"):
        await world.client().call(NodeId(1), Ping(), 5)
    assert nodes[0].virtual_log is not None
    assert isinstance(await nodes[0].virtual_log.check_tail(), Open)


async def test_a_role_that_fails_later_is_closed(world: World, autojump_clock: MockClock) -> None:
    """`environment.fail` closes the role for good and cancels what it has running; the rest goes on."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2), await world.start(3)]
    await until(lambda: fragile.environment is not None)
    assert await world.client().call(NodeId(1), Ping(), 5) == Pong()
    assert fragile.environment is not None
    ended = trio.Event()

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    fragile.environment.nursery.start_soon(work)
    fragile.environment.fail(CorruptionError("rot"))
    await ended.wait()

    with pytest.raises(CorruptionError, match="rot"):
        await world.client().call(NodeId(1), Ping(), 5)
    assert (await world.status(1)).failures == ("fragile: rot",)
    await until(lambda: all(node.identity.cluster for node in nodes))


async def test_a_node_that_has_lost_a_role_is_planned_with_as_a_dead_one(
    world: World, autojump_clock: MockClock
) -> None:
    """It keeps its place among the candidates: a planner must not take it for a smaller cluster, with fewer copies."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    assert fragile.environment is not None
    fragile.environment.fail(CorruptionError("rot"))
    world.stop(2)

    register = register_of(await world.status(1))
    cluster = await fetch_cluster(world.client(), register, NodeId(3))
    assert [(member.node, member.alive) for member in cluster.members] == [(1, False), (2, False), (3, True)]
    assert all("log-server" in member.roles for member in cluster.members)


async def test_a_role_task_that_raises_closes_only_its_role(world: World, autojump_clock: MockClock) -> None:
    """A task of a role that dies of a disk error does not take the node with it."""
    fragile = FragileProvider()
    await world.start(1, fragile)
    await world.start(2)
    await world.start(3)
    await until(lambda: fragile.environment is not None)
    assert fragile.environment is not None

    async def die() -> None:
        raise CorruptionError("in the background")

    fragile.environment.nursery.start_soon(die)
    await trio.sleep(1)  # noqa: TID251 -- simulated time

    assert (await world.status(1)).failures == ("fragile: in the background",)


async def test_a_request_before_the_role_is_open_is_unknown(world: World, autojump_clock: MockClock) -> None:
    """Handlers exist from the start; before the directory is formatted they ask for a retry."""
    await world.start(1, FragileProvider())

    with pytest.raises(UnavailableError, match="fragile is not ready"):
        await world.client().call(NodeId(1), Ping(), 5)


async def test_a_role_that_begins_anew_forgets_what_was_dropped_meanwhile(
    world: World, autojump_clock: MockClock
) -> None:
    """It was closed for a moment when the chain got shorter, and nothing changes in the chain after that."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    own, client = nodes[0].virtual_log, world.client()
    assert own is not None
    assert fragile.environment is not None
    await own.append(b"a")
    fragile.opening_seconds = 5.0
    fragile.environment.fail(DiskFullError("not a byte"))

    await client.call(NodeId(2), ReconfigExtend(kind="memory", settings=()), 5)
    assert (await client.call(NodeId(2), PrefixTrim(position=1), 5)).position == 1
    await until(lambda: nodes[0].is_open("fragile"))
    await until(lambda: 2 in fragile.forgotten)


async def test_a_role_can_look_up_its_segments(world: World, autojump_clock: MockClock) -> None:
    """`segment_config` answers from the decided chain only: a segment that is not in it does not exist."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    segment = register_of(await world.status(1)).chain.last

    assert await nodes[1].segment_config(segment.id) == ("memory", b"")
    with pytest.raises(SealedError, match="is not in the chain"):
        await nodes[1].segment_config(SegmentId(1, segment.id.attempt + 1))
