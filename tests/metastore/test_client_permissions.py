"""A client of the register that may only read: what it meets half done it leaves to the nodes, and its read goes on."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from tests.metastore.test_client import die_half_way
from tests.metastore.world import THREE, A, B, C, World, simulated, world
from virtuallog.contract.errors import ForbiddenError, UnavailableError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import NodeId
from virtuallog_metastore.drivers.client import PaxosMetaStore
from virtuallog_metastore.messages import Accept, Ask, Learn, Prepare

REFUSED = (Prepare, Accept, Learn)
BYSTANDER_SECONDS = 1.0
"""Time until a node looks after the register."""


@attrs.frozen
class OnlyReads(Services):
    """Members as a certificate of the role client sees them: a refusal comes as late as another answer."""

    services: Services

    def post(self, node: NodeId, request: Any, done: Any, timeout_seconds: float) -> None:
        if isinstance(request, REFUSED):
            error = ForbiddenError(type(request).__name__, "virtuallog://test/client/app", "admin")
            self.services.post(node, Ask(slot=1, after=0), lambda _: done(error), timeout_seconds)
        else:
            self.services.post(node, request, done, timeout_seconds)

    async def call(self, node: NodeId, request: Any, timeout_seconds: float) -> Any:
        return await self.services.call(node, request, timeout_seconds)


def reader(cluster: World) -> PaxosMetaStore:
    client = cluster.client()
    client._services = OnlyReads(client._services)
    return client


async def look_later(cluster: World) -> None:
    """What the watchdog of a node does."""
    client = cluster.client()
    await client._clock.sleep(BYSTANDER_SECONDS)
    await client.get()


@simulated
async def test_a_read_waits_until_a_node_teaches_the_member_that_lags() -> None:
    """C has missed a version, and then A dies: B alone is no majority, and this client may not teach C."""
    async with world() as cluster:
        await cluster.start(THREE)
        cluster.isolate(C)
        assert await cluster.client().put(b"one", 0, attempt=5) == 1
        client = reader(cluster)
        assert await client.get() == (1, b"one")
        cluster.heal()
        cluster.crash(A)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_later, cluster)
            assert await client.get() == (1, b"one")
        assert cluster.count(Learn) > 0


@simulated
async def test_a_read_waits_until_a_node_finishes_what_a_dead_proposer_began() -> None:
    """One member has accepted a version, and its proposer is dead: this client may not run a ballot of its own."""
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"half", attempt=5, reached=(A,))
        cluster.isolate(C)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_later, cluster)
            assert await reader(cluster).get() == (1, b"half")


@simulated
async def test_without_nodes_that_finish_it_a_read_gives_up() -> None:
    """Nothing has been done, and the error says what the client may not do. It is one that is tried again."""
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"half", attempt=5, reached=(A,))
        cluster.isolate(C)

        with pytest.raises(UnavailableError, match="left to the nodes: Prepare needs the role admin"):
            await reader(cluster).get()


@simulated
async def test_a_put_is_refused_at_once() -> None:
    """A write needs the role, and no node finishes it for the client."""
    async with world() as cluster:
        await cluster.start(THREE)
        with pytest.raises(ForbiddenError):
            await reader(cluster).put(b"one", 0, attempt=5)
        assert await cluster.client(B).get() == (0, b"")
