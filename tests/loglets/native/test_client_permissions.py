"""A NativeLoglet's client that may neither seal nor repair: what it meets half done it leaves to the chain."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.loglets.native.cluster import Cluster, running_cluster, writer
from virtuallog.contract.errors import ForbiddenError, SealedError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.messages import NativeGetState, NativeRepair, NativeSeal, NativeStore, NativeTrim

REFUSED = (NativeSeal, NativeRepair, NativeStore, NativeTrim)


@attrs.frozen
class AsClient(Services):
    """Nodes as a certificate of the role client sees them: a refusal comes as late as another answer."""

    services: Services

    def post(self, node: NodeId, request: Any, done: Any, timeout_seconds: float) -> None:
        if isinstance(request, REFUSED):
            error = ForbiddenError(type(request).__name__, "virtuallog://test/client/app", "admin")
            self.services.post(node, NativeGetState(segment=request.segment), lambda _: done(error), timeout_seconds)
        else:
            self.services.post(node, request, done, timeout_seconds)

    async def call(self, node: NodeId, request: Any, timeout_seconds: float) -> Any:
        return await self.services.call(node, request, timeout_seconds)


def limited(cluster: Cluster) -> NativeLoglet:
    client = cluster.client()
    environment = client._environment
    return attrs.evolve(client, environment=attrs.evolve(environment, services=AsClient(environment.services)))


async def test_it_appends_and_reads_tails(autojump_clock: MockClock) -> None:
    """Nothing of that needs a seal or a repair."""
    async with running_cluster() as cluster:
        cluster.create()
        client = limited(cluster)
        assert await writer(client).append(b"a", b"b") == range(2)
        assert await client.check_tail() == Open(LogletOffset(2))


async def test_a_seal_that_is_not_complete_looks_like_a_loglet_that_is_gone(autojump_clock: MockClock) -> None:
    """One server is sealed, and this client may not seal the others: at once, not after ten seconds of asking again."""
    async with running_cluster() as cluster:
        cluster.create()
        client, admin = limited(cluster), cluster.client()
        await writer(client).append(b"a")
        began = cluster.clock.monotonic()
        cluster.gate = lambda node, request: not (isinstance(request, NativeSeal) and node != 1)
        cluster.nursery.start_soon(admin.seal)
        await cluster.clock.sleep(0.2)

        with pytest.raises(SealedError, match="left to others: NativeSeal needs the role admin"):
            await check_until_it_fails(client, cluster)
        assert cluster.clock.monotonic() - began < 5

        cluster.release()
        await admin.seal()
        assert await admin.check_tail() == Sealed(LogletOffset(1))


async def check_until_it_fails(client: NativeLoglet, cluster: Cluster) -> None:
    """A majority that looks unsealed may have answered first."""
    for _ in range(20):
        await client.check_tail()
        await cluster.clock.sleep(0.05)


async def test_what_it_may_not_do_is_refused_at_once(autojump_clock: MockClock) -> None:
    """A refusal is no silence: the client does not ask again."""
    async with running_cluster() as cluster:
        cluster.create()
        client = limited(cluster)
        await writer(client).append(b"a")
        for forbidden in (client.seal, lambda: client.prefix_trim(LogletOffset(1))):
            with pytest.raises(ForbiddenError):
                await forbidden()
