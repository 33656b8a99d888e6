"""The demand that no live server of a database lags for good, once there is peace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.scenarios.database.servers import DatabaseServers
from virtuallog_simulation.world.cluster import Client, Cluster
from virtuallog_simulation.world.world import World

LAG_SECONDS: Final = 10.0
"""Within this time each live server has applied what was in the log when the peace began."""
CAUGHT_UP: Final = "zelos servers that caught up"
_PAUSE_SECONDS: Final = 0.05


async def demand_no_lag(world: World, cluster: Cluster, servers: DatabaseServers) -> None:
    """Ask the log for its tail, and wait until each server that runs has applied all below it.

    Adds a violation if one has not within `LAG_SECONDS`.
    """
    began = world.now()
    async with cluster.client("tail") as client:
        with trio.move_on_after(LAG_SECONDS):
            tail = await _tail(client)
            while any(position < tail for position in _applied(cluster, servers).values()):
                await trio.sleep(_PAUSE_SECONDS)
            world.demanded("no lag", world.now() - began)
            world.counts[CAUGHT_UP] += len(_applied(cluster, servers))
            return
    message = f"{LAG_SECONDS:g} s after the peace began servers have applied {dict(_applied(cluster, servers))}"
    world.violations.append(Violation("no server lags", message))


async def _tail(client: Client) -> int:
    while True:
        try:
            return (await client.log.check_tail()).tail
        except UnavailableError:
            await trio.sleep(_PAUSE_SECONDS)


def _applied(cluster: Cluster, servers: DatabaseServers) -> Mapping[NodeId, int]:
    """Cursor of each live server; -1 where there is no replica yet, or any more. A node whose disks
    were replaced stays out, and a role that a disk has closed is judged by `Machine.stopped`."""
    return {
        node: servers.lives[node].replica.cursor if node in servers.lives else -1
        for node, machine in cluster.machines.items()
        if machine.running and not machine.wiped and not _refusals(cluster, node)
    }


def _refusals(cluster: Cluster, node: NodeId) -> bool:
    product = cluster.products.get(node)
    return product is not None and bool(product.refusals)
