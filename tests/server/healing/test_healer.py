"""Healing on the nodes of a simulated cluster: what it says, and what an operator may ask for."""

from __future__ import annotations

import pytest
import trio

from tests.simulation.world.stage import in_cluster, native
from virtuallog.admin.control import RebuildSegment
from virtuallog.admin.membership import DrainNode
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import decode_untrusted
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog.contract.versions import MOVED_SEGMENTS
from virtuallog.reconfiguration.core.node_table import Forget
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.native.messages import NativeReadWaves, NativeRepair
from virtuallog_server.healing.core.backoff import BACKOFF_SECONDS, ActionBackoff
from virtuallog_server.healing.core.failure_detector import FAILURES, RECHECK_SECONDS, ROUND_SECONDS
from virtuallog_server.healing.healer import Healer
from virtuallog_server.healing.rebuild import rebuild
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.world.cluster import Client, Cluster


async def servers_of(client: Client) -> list[tuple[int, ...]]:
    chain = (await client.log.view.refresh()).chain
    return [tuple(native().placement(segment.config).servers) for segment in chain.segments]


async def bystander(cluster: Cluster, client: Client) -> NodeId:
    """A log server that orders nothing."""
    placement = native().placement((await client.log.view.refresh()).chain.last.config)
    return next(server for server in placement.servers if server not in placement.orders)


def test_without_a_spare_node_a_dead_log_server_triggers_nothing_and_the_status_says_so() -> None:
    """The chain stays as it is; every other node sees why."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append(b"before")
        dead, version = await bystander(cluster, client), (await client.log.view.refresh()).version
        cluster.machines[dead].crash()
        await trio.sleep(30.0)  # noqa: TID251 -- simulated time

        await client.log.append(b"after")
        assert (await client.log.view.refresh()).version == version
        reports = {cluster.products[node].status().healing for node in cluster.nodes if node != dead}
        assert reports == {(f"log server {dead} has failed, no spare node",)}
        cluster.machines[dead].start()
        await trio.sleep(30.0)  # noqa: TID251 -- simulated time
        assert {cluster.products[node].status().healing for node in cluster.nodes} == {()}

    in_cluster(3, story)


def test_a_spare_node_takes_the_place_of_a_dead_log_server_once() -> None:
    """After a while; the sequencer stays where it is, and who is back gets nothing back."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append(b"before")
        dead, before = await bystander(cluster, client), await servers_of(client)
        cluster.machines[dead].crash()
        await trio.sleep(30.0)  # noqa: TID251 -- simulated time

        after, version = await servers_of(client), (await client.log.view.refresh()).version
        assert len(after[-1]) == len(before[-1])
        assert all(dead not in servers for servers in after)  # the closed segment has been rebuilt as well
        cluster.machines[dead].start()
        await trio.sleep(60.0)  # noqa: TID251 -- simulated time
        assert (await client.log.view.refresh()).version == version

    in_cluster(5, story)


def test_a_killed_sequencer_is_looked_at_when_its_connections_end() -> None:
    """Its host resets them, and refuses new ones: from there it takes three looks, and no round is waited for first."""

    async def story(cluster: Cluster, client: Client) -> None:
        cluster.world.network.set_quality(LinkQuality(refuse=1.0))
        for _ in range(4):
            (dead,) = native().placement((await client.log.view.refresh()).chain.last.config).orders
            await trio.sleep(ROUND_SECONDS * cluster.world.random("when").random())  # noqa: TID251 -- simulated time
            killed_at = cluster.world.now()
            cluster.machines[dead].crash(power=False)
            while dead in native().placement((await client.log.view.refresh()).chain.last.config).orders:
                await trio.sleep(0.01)  # noqa: TID251 -- simulated time
            assert cluster.world.now() - killed_at < FAILURES * RECHECK_SECONDS
            cluster.machines[dead].start()
            await trio.sleep(60.0)  # noqa: TID251 -- simulated time

    in_cluster(3, story)


def test_switched_off_nothing_is_replaced() -> None:
    """An operator does it."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append(b"before")
        version = (await client.log.view.refresh()).version
        placement = native().placement((await client.log.view.refresh()).chain.last.config)
        cluster.machines[min(placement.orders)].crash()
        await trio.sleep(30.0)  # noqa: TID251 -- simulated time

        assert (await client.log.view.refresh()).version == version
        await client.log.reconfig_extend("native")
        await client.log.append(b"after")

    in_cluster(3, story, healing="off")


def test_an_operator_may_have_a_segment_moved() -> None:
    """By a request to any node; asked again it finds nothing to do, and an open segment is refused."""

    async def story(cluster: Cluster, client: Client) -> None:
        log, services = client.log, client.log.view.environment.services
        await log.reconfig_extend("native", {"servers": "1,2,3"})
        positions = [await log.append(b"%d" % number) for number in range(10)]
        closed = (await log.reconfig_extend("native", {"servers": "1,2,3"})).chain.segments[-2]
        target = (NodeId(3), NodeId(4), NodeId(5))

        request = RebuildSegment(segment=closed.id, servers=target)
        changed = decode_untrusted((await services.call(NodeId(1), request, 30.0)).register)
        moved = changed.chain.segment_at(closed.start)
        assert moved is not None
        assert native().placement(moved.config).servers == target

        again = RebuildSegment(segment=moved.id, servers=target)
        assert decode_untrusted((await services.call(NodeId(2), again, 30.0)).register).version == changed.version
        for node in (1, 2, 3):
            cluster.machines[NodeId(node)].crash()
        async with cluster.client("reader", node=NodeId(2001)) as reader:
            reader.log.view.adopt(changed)
            found = await reader.log.read(LogPosition(positions[0]), LogPosition(positions[-1] + 1))
            assert [record.payload for batch in found for record in batch.records()] == [  # type: ignore[union-attr]
                b"%d" % number for number in range(10)
            ]
        for node in (1, 2, 3):
            cluster.machines[NodeId(node)].start()

    in_cluster(5, story)


def test_a_rebuild_is_not_put_on_a_disk_that_was_given_up_meanwhile() -> None:
    """The operator replaces node 4 while a copy is made on it. The chain stays as it is; the new directory has no copy."""

    async def story(cluster: Cluster, client: Client) -> None:
        log, view = client.log, client.log.view
        await log.reconfig_extend("native", {"servers": "1,2,3"})
        await log.append(b"kept")
        closed = (await log.reconfig_extend("native", {"servers": "1,2,3"})).chain.segments[-2]
        four = (await view.refresh()).nodes[NodeId(4)]

        async def four_is_given_up(_: int) -> None:
            await update_node_table(
                view.metastore, Forget(node=NodeId(4), store_id=four.store_id), view.environment.random
            )

        with pytest.raises(InvalidSettingError, match="have other data directories"):
            await rebuild(log, closed.id, (NodeId(1), NodeId(2), NodeId(4)), four_is_given_up, lambda: MOVED_SEGMENTS)
        assert (await view.refresh()).chain.find(closed.id) == closed

    in_cluster(5, story)


def test_a_drain_passes_over_a_node_whose_old_copy_has_a_hole() -> None:
    """Node 4 once lagged and has a wave behind a hole: what node 3 has goes to node 5 instead."""

    async def story(cluster: Cluster, client: Client) -> None:
        log, services = client.log, client.log.view.environment.services
        await log.reconfig_extend("native", {"servers": "1,2,3"})
        for number in range(3):
            await log.append(b"%d" % number)
        closed = (await log.reconfig_extend("native", {"servers": "1,2,5"})).chain.segments[-2]
        asked = NativeReadWaves(segment=closed.id, start=2, stop=3, max_bytes=1)
        held = await services.call(NodeId(1), asked, 1.0)
        await services.call(NodeId(4), NativeRepair(segment=closed.id, waves=held.waves, known_tail=2), 1.0)

        while not (await services.call(NodeId(1), DrainNode(node=NodeId(3)), 30.0)).done:
            await trio.sleep(0.5)  # noqa: TID251 -- simulated time

        moved = (await log.view.refresh()).chain.segment_at(closed.start)
        assert moved is not None
        assert native().placement(moved.config).servers == (1, 2, 5)

    in_cluster(5, story)


def test_a_client_that_knows_dead_servers_only_finds_the_new_ones() -> None:
    """Its chain is old, and no node that it names answers: it reads the chain, and reads and trims work."""

    async def story(cluster: Cluster, client: Client) -> None:
        log, services = client.log, client.log.view.environment.services
        await log.reconfig_extend("native", {"servers": "3,4,5"})
        position = await log.append(b"kept")
        closed = (await log.reconfig_extend("native", {"servers": "1,2,3", "sequencer": "1"})).chain.segments[-2]
        request = RebuildSegment(segment=closed.id, servers=(NodeId(1), NodeId(2), NodeId(3)))
        await services.call(NodeId(1), request, 30.0)
        known = log.view.cached
        assert known is not None
        assert known.chain.find(closed.id) is not None  # this client knows nothing of it
        for node in (3, 4, 5):
            cluster.machines[NodeId(node)].crash()

        (found,) = await log.read(position, LogPosition(position + 1))
        assert isinstance(found, PlacedBatch)
        assert [record.payload for record in found.records()] == [b"kept"]
        assert await log.prefix_trim(position) == position

    in_cluster(5, story)


def test_a_segment_that_is_open_or_gone_is_not_moved() -> None:
    """Nothing is done, and the answer says which it is."""

    async def story(cluster: Cluster, client: Client) -> None:
        last = (await client.log.view.refresh()).chain.last
        for segment, word in ((last.id, "open"), (type(last.id)(9, 9), "not in the chain")):
            request = RebuildSegment(segment=segment, servers=(NodeId(3), NodeId(4), NodeId(5)))
            with pytest.raises(InvalidSettingError, match=word):
                await client.log.view.environment.services.call(NodeId(1), request, 30.0)

    in_cluster(5, story)


def first(_: Healer) -> int:
    """A planted bug: each node believes that it is the first in rank."""
    return 0


@pytest.mark.parametrize("seed", [1, 5, 14])
def test_all_nodes_may_decide_at_once(seed: int) -> None:
    """Rank only spares work: the conditional put elects one, and nothing is lost or flaps."""
    assert run_seed(seed, "bereft", {"virtuallog_server.healing.healer:Healer._rank": first}).violations == ()


def test_actions_of_a_lane_come_one_at_a_time_and_not_too_often() -> None:
    """Calm after a success, and twice that after each further one until all was well; likewise after failures."""
    lane = ActionBackoff(calm_seconds=(10.0, 30.0))
    times = []
    for now in range(100):
        if lane.is_free(now):
            times.append(now)
            lane.begin()
            assert not lane.is_free(now)
            lane.succeeded(now)
    assert times == [0, 10, 30, 60, 90]

    lane.all_is_well()
    lane.begin()
    lane.succeeded(100)
    assert lane.is_free(110)


def test_failures_are_repeated_after_a_pause_that_grows() -> None:
    """Missing nodes come back in their own time; the problem is shown until the repair works."""
    lane, now, pauses = ActionBackoff(calm_seconds=(0.0, 0.0)), 0.0, []
    for _ in range(7):
        lane.begin()
        lane.failed("no majority", now)
        then = now
        while not lane.is_free(now):
            now += 0.25
        pauses.append(now - then)
    assert (pauses[0], pauses[-1]) == BACKOFF_SECONDS
    assert pauses == sorted(pauses)
    assert lane.problem == "no majority"

    lane.begin()
    lane.succeeded(now)
    assert lane.problem == ""
