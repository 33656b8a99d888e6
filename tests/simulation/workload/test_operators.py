"""Answers to operators on a small simulated cluster. `emptied` and `replaced` judge which answers
are allowed."""

from __future__ import annotations

from contextlib import suppress

import attrs
import pytest
import trio

from virtuallog.admin.membership import ReplaceNode
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_simulation.scenarios.cluster.disk_loss import cut
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.transport import CALLS
from virtuallog_simulation.world.world import open_world


def test_a_refusal_reaches_an_operator_who_was_not_waiting() -> None:
    """A silent node makes each look take a second, so a refusal may come between two requests."""

    async def story() -> None:
        async with open_world(1, Options(transport=CALLS)) as world:
            cluster = Cluster(world, ClusterPlan(nodes=5, members=5, kinds=(provider,)), healing="off")
            cluster.start()
            await cluster.wait_serving()
            async with cluster.client("operator") as client:
                await client.log.reconfig_extend("native", {"servers": "1,2,3", "sequencer": "1"})
                await client.log.append(b"one")
                stores = {node: entry.store_id for node, entry in (await client.log.view.refresh()).nodes.items()}
                cut(world, NodeId(1), [NodeId(2)])
                cluster.machines[NodeId(3)].crash()
                request = ReplaceNode(node=NodeId(2), store_id=stores[NodeId(2)])
                with trio.fail_after(20), pytest.raises(InvalidSettingError, match="whole copies would be left"):
                    await _ask_until_done(client, NodeId(1), request)

    scheduler.run(1, story)


def test_each_request_has_its_own_answer() -> None:
    """An operator gives up waiting for a replacement, and asks for it with `--force`: what comes of the first is no answer to that."""

    async def story() -> None:
        async with open_world(1, Options(transport=CALLS)) as world:
            cluster = Cluster(world, ClusterPlan(nodes=5, members=5, kinds=(provider,)), healing="off")
            cluster.start()
            await cluster.wait_serving()
            async with cluster.client("operator") as client:
                await client.log.reconfig_extend("native", {"servers": "1,2,3", "sequencer": "1"})
                await client.log.append(b"one")
                stores = {node: entry.store_id for node, entry in (await client.log.view.refresh()).nodes.items()}
                cut(world, NodeId(1), [NodeId(2)])
                cluster.machines[NodeId(3)].crash()
                request = ReplaceNode(node=NodeId(2), store_id=stores[NodeId(2)])
                services = client.log.view.environment.services
                with suppress(UnavailableError):
                    await services.call(NodeId(1), request, 0.3)
                told = await services.call(NodeId(1), attrs.evolve(request, force=True), 5.0)
                assert told.waits
                assert (await client.log.view.refresh()).nodes[NodeId(2)].is_expected

    scheduler.run(1, story)


async def _ask_until_done(client: Client, via: NodeId, request: ReplaceNode) -> None:
    while True:
        with suppress(UnavailableError):  # the node has not found the register yet
            if (await client.log.view.environment.services.call(via, request, 5.0)).done:
                return
        await trio.sleep(0.3)
