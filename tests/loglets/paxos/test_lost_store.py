"""A node with a lost replica store comes back while the log goes on: no acknowledged entry is lost,
under any leader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.loglets.paxos.cluster import SEGMENT, payloads_of, running_cluster, writer
from tests.loglets.paxos.core.leader_bench import Leader
from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import NOWHERE, Status


@attrs.define(eq=False)
class Load:
    """Appends one entry after the other, through a coordinator on any node that lives."""

    world: World
    done: int = 0
    leader: Leader | None = None
    stopped: bool = False

    async def run(self) -> None:
        while not self.stopped:
            with self.world.clock.timeout(1.0) as scope:
                await self._append()
            if scope.cancelled_caught:  # its node may have died with the append
                self.leader = None
            await self.world.clock.sleep(0.002)

    async def _append(self) -> None:
        if self.leader is None:
            self.leader = await self._elected()
        elif await self.leader.append(b"entry %d" % self.done) is not None:
            self.done += 1
        else:
            self.leader = None

    async def _elected(self) -> Leader | None:
        for node in sorted(self.world.machines):
            leader = self.world.coordinator(node)
            if await leader.elect() is not None:
                return leader
        await self.world.clock.sleep(0.2)
        return None

    async def more(self, count: int = 20) -> None:
        """Wait until `count` more appends are acknowledged."""
        goal = self.done + count
        await self.world.until(lambda: self.done >= goal)


@asynccontextmanager
async def loading(world: World) -> AsyncIterator[Load]:
    """Three replicas that keep themselves whole, and appends."""
    await world.start(1, 2, 3)
    world.keep(1, 2, 3)
    load = Load(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(load.run)
        yield load
        load.stopped = True


async def lose(world: World, node: int) -> None:
    """The machine dies, and comes back without what its replica had stored."""
    world.kill(node)
    world.wipe(node)
    await world.start(node, status=Status.EMPTY)
    world.keep(node)


async def votes(world: World, node: int) -> None:
    await world.until(lambda: world.standing(node).status is Status.VOTING)


async def found_on(world: World, *nodes: int) -> int:
    """Number of acknowledged entries; each is on each of the nodes, at its place."""
    end = max(position for position, _ in world.acknowledged)
    await world.until(lambda: all(world.standing(node).learned > end for node in nodes))
    decided = await world.decided()
    for position, payload in world.acknowledged:
        assert decided[position] == {payload}
    for node in nodes:
        kept = await world.payloads(node, 0, end)
        assert [payload for payload in kept if payload in {each for _, each in world.acknowledged}] == [
            payload for _, payload in world.acknowledged
        ]
    return len(world.acknowledged)


@pytest.mark.parametrize("seed", range(3))
@simulated
async def test_one_after_the_other_loses_its_store_under_load(seed: int) -> None:
    """Each of three, the one that leads as well. In the end no store is left that was there when the log began, and all is there."""
    async with playing(seed=seed) as world, loading(world) as load:
        for node in (3, 2, 1):
            await load.more()
            await lose(world, node)
            await load.more(5)
            await votes(world, node)
        await load.more()
        load.stopped = True

        assert await found_on(world, 1, 2, 3) >= load.done


@simulated
async def test_a_store_is_lost_again_while_it_recovers() -> None:
    """Three times, at moments of no importance."""
    async with playing() as world, loading(world) as load:
        for seconds in (0.005, 0.05, 0.5):
            await load.more()
            await lose(world, 3)
            await world.clock.sleep(seconds)
        await votes(world, 3)
        await load.more()
        load.stopped = True

        assert await found_on(world, 1, 2, 3) >= load.done


@simulated
async def test_a_majority_of_lost_stores_is_not_made_up_for() -> None:
    """Two of three stores are lost: their decisions are unknown. The replicas wait, and nothing is
    acknowledged any more."""
    async with playing() as world, loading(world) as load:
        await load.more()
        world.kill(2, 3)
        for node in (2, 3):
            world.wipe(node)
            await world.start(node, status=Status.EMPTY)
            world.keep(node)
        await world.clock.sleep(1)
        done = load.done
        await world.clock.sleep(60)
        load.stopped = True

        assert [world.standing(node).status for node in (1, 2, 3)] == [Status.VOTING, Status.EMPTY, Status.EMPTY]
        assert load.done == done


async def test_a_copy_of_a_closed_log_is_made_again_unasked(autojump_clock: MockClock) -> None:
    """No client appends to it, and perhaps none reads it: the node itself sees that the chain names
    it. Then both others may go."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for n in range(10):
            await one.append(b"%d" % n)
        await one.loglet.seal()
        tail = await one.loglet.check_tail()
        cluster.crash(3)
        cluster.nodes[NodeId(3)].disk.wipe()
        cluster.nodes[NodeId(3)].joined = SEGMENT.version  # the log may be older than the store
        await cluster.start(3)
        provider = cluster.nodes[NodeId(3)].provider
        assert provider is not None
        assert provider.replicas is not None
        assert not provider.replicas.replicas

        await provider.sweep_loglets(SEGMENT.version, [SEGMENT])
        (replica,) = provider.replicas.replicas
        while replica.core.seal == NOWHERE:
            await cluster.clock.sleep(0.1)
        cluster.crash(1)
        cluster.crash(2)

        assert await cluster.client().check_tail() == tail
        assert await payloads_of(cluster.client()) == [b"%d" % n for n in range(10)]


async def test_a_new_store_makes_no_replica_of_a_newer_log_unasked(autojump_clock: MockClock) -> None:
    """It cannot have lost it; the first request shows whether this node is one of its replicas."""
    async with running_cluster() as cluster:
        cluster.create()
        provider = cluster.nodes[NodeId(3)].provider
        assert provider is not None
        assert provider.replicas is not None

        await provider.sweep_loglets(SEGMENT.version, [SEGMENT])

        assert not provider.replicas.replicas
