"""Healing of segments that are striped over native loglets or over raft ones, on the nodes of a simulated cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest
import trio

from tests.simulation.world.stage import WAL
from virtuallog.admin.membership import DrainNode, ReplaceNode
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.placement import Placement
from virtuallog.contract.provider import compose
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.raft import RaftProvider
from virtuallog_loglets.striped import StripedProvider
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.world import open_world

Story = Callable[[Cluster, Client], Awaitable[None]]
ENTRIES = [b"%d" % number for number in range(12)]
EACH_KIND = pytest.mark.parametrize("of", ["native", "raft"])
ROTATING, SHARDED = {"stripes": "3", "servers": "1,2,3"}, {"groups": "1,2,3;4,5,6"}


def native() -> NativeProvider:
    return NativeProvider(WAL)


def raft() -> RaftProvider:
    return RaftProvider(WAL)


def in_cluster(nodes: int, story: Story) -> None:
    async def told() -> None:
        async with open_world(1) as world:
            cluster = Cluster(world, ClusterPlan(nodes=nodes, members=3, kinds=(native, raft, StripedProvider)))
            cluster.start()
            await cluster.wait_ready()
            async with cluster.client("client") as client:
                await passes(2)
                await story(cluster, client)

    scheduler.run(1, told)


async def passes(seconds: float) -> None:
    await trio.sleep(seconds)  # noqa: TID251 -- simulated time


def placement(segment: Segment) -> Placement:
    striped = StripedProvider()
    compose({"striped": striped, "native": native(), "raft": raft()})
    return striped.placement(segment.config)


async def filled(client: Client, settings: dict[str, str]) -> Segment:
    """An open striped segment with the entries in it."""
    log = client.log
    segment = (await log.reconfig_extend("striped", settings)).chain.last
    for payload in ENTRIES:
        await log.append(payload)
    return segment


async def closed(client: Client, settings: dict[str, str]) -> Segment:
    """The same, closed; the log goes on in a native loglet on nodes 1, 2 and 3."""
    segment = await filled(client, settings)
    chain = (await client.log.reconfig_extend("native", {"servers": "1,2,3"})).chain
    found = chain.find(segment.id)
    assert found is not None
    return found


async def entries(client: Client, segment: Segment) -> list[bytes]:
    """The entries of this segment, as a client reads them."""
    log, found = client.log, list[bytes]()
    stop = segment.stop if segment.stop is not None else LogPosition((await log.check_tail()).tail)
    async for item in log.reader(segment.start, stop).batches():
        if isinstance(item, PlacedBatch):
            found += [data.payload for data in item.records()]
    return found


async def now_at(client: Client, segment: Segment) -> Segment:
    """The segment that has this range now."""
    found = (await client.log.view.refresh()).chain.segment_at(segment.start)
    assert found is not None
    return found


async def read_by_these_alone(cluster: Cluster, client: Client, segment: Segment, nodes: Sequence[NodeId]) -> None:
    """All entries are there with all other nodes gone."""
    register = await client.log.view.refresh()
    for node in cluster.nodes:
        if node not in nodes and cluster.machines[node].running:
            cluster.machines[node].crash()
    async with cluster.client("reader", node=NodeId(2001)) as reader:
        reader.log.view.adopt(register)
        assert await entries(reader, segment) == ENTRIES


def test_a_node_that_orders_one_stripe_dies_and_appends_go_on() -> None:
    """At once, on the living nodes, without an operator; every entry is there once."""

    async def story(cluster: Cluster, client: Client) -> None:
        segment = await filled(client, ROTATING)
        orders = placement(segment).orders
        assert len(orders) == 3
        cluster.machines[max(orders)].crash()

        position = await client.log.append(b"after")

        latter = await now_at(client, segment)
        assert latter.stop is not None
        assert position >= latter.stop
        assert await entries(client, latter) == ENTRIES
        successor = (await client.log.view.refresh()).chain.last
        assert successor.kind == "striped"
        assert max(orders) not in placement(successor).orders

    in_cluster(5, story)


@EACH_KIND
def test_a_dead_server_of_an_open_striped_segment_is_replaced_by_a_spare_node(of: str) -> None:
    """After a while; in its place in each stripe."""

    async def story(cluster: Cluster, client: Client) -> None:
        segment = await filled(client, {**ROTATING, "sequencers": "1,2", "of": of})
        cluster.machines[NodeId(3)].crash()
        await passes(30)

        last = (await client.log.view.refresh()).chain.last
        assert last.kind == "striped"
        assert all(len(group) == 3 and 3 not in group for group in placement(last).groups)
        assert 3 not in placement(await now_at(client, segment)).servers  # the closed segment has been rebuilt as well
        assert await entries(client, await now_at(client, segment)) == ENTRIES

    in_cluster(5, story)


@EACH_KIND
def test_copies_of_every_stripe_are_made_again_elsewhere(of: str) -> None:
    """A node with a stripe of a closed segment is gone for good. What is left is readable without the others of its group."""

    async def story(cluster: Cluster, client: Client) -> None:
        segment = await closed(client, {**SHARDED, "of": of})
        cluster.machines[NodeId(5)].crash()
        await passes(60)

        moved = await now_at(client, segment)
        assert placement(moved).groups == ((1, 2, 3), (4, 6, 7))
        assert (moved.start, moved.stop) == (segment.start, segment.stop)
        await read_by_these_alone(cluster, client, moved, [NodeId(1), NodeId(7)])

    in_cluster(7, story)


@EACH_KIND
def test_a_node_that_orders_and_stores_stripes_is_drained(of: str) -> None:
    """The open segment continues elsewhere, closed ones move, stripe by stripe."""

    async def story(cluster: Cluster, client: Client) -> None:
        first = await closed(client, {**ROTATING, "of": of})
        second = await filled(client, {**ROTATING, "of": of})
        services = client.log.view.environment.services
        for _ in range(60):
            with suppress(RetryableError):
                if (await services.call(NodeId(4), DrainNode(node=NodeId(2)), 30.0)).done:
                    break
            await passes(0.5)

        for segment in (await client.log.view.refresh()).chain.segments:
            if segment.kind == "striped":
                where = placement(segment)
                assert 2 not in where.servers
                assert segment.stop is not None or 2 not in where.orders
        cluster.machines[NodeId(2)].crash()
        assert await entries(client, await now_at(client, first)) == ENTRIES
        assert await entries(client, await now_at(client, second)) == ENTRIES
        await client.log.append(b"after")

    in_cluster(5, story)


@EACH_KIND
def test_a_new_disk_gets_its_part_of_every_stripe(of: str) -> None:
    """Node 2 comes back empty in place of itself: one put for all stripes, so none may be left out."""

    async def story(cluster: Cluster, client: Client) -> None:
        segment = await closed(client, {**ROTATING, "of": of})
        register, machine = await client.log.view.refresh(), cluster.machines[NodeId(2)]
        machine.crash()
        machine.wipe()
        request = ReplaceNode(node=NodeId(2), store_id=register.nodes[NodeId(2)].store_id, addresses=(), force=True)
        services = client.log.view.environment.services
        for _ in range(20):
            if (await services.call(NodeId(1), request, 30.0)).waits:
                break
            await passes(0.5)
        machine.start()
        await passes(90)

        restored = await now_at(client, segment)
        assert restored.id != segment.id
        assert 2 in placement(restored).servers
        await read_by_these_alone(cluster, client, restored, [NodeId(2)])

    in_cluster(3, story)
