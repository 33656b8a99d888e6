"""Striped over replicated loglets, with servers that die: both stripes on the same servers, and on disjoint sets of them."""

from __future__ import annotations

import pytest

from tests.loglets.cluster import SEGMENT
from tests.loglets.raft.cluster import running_cluster
from tests.loglets.rereplication import Spaced
from tests.loglets.striped.cluster import CLUSTERS, append_on, open_striped, payloads, striped, striped_provider
from virtuallog.contract.errors import SealedError
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed
from virtuallog_loglets.striped.core.layout import offset_of

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.mark.parametrize("of", CLUSTERS)
async def test_any_minority_of_servers_may_die(of: str) -> None:
    """Rotating: both stripes are on the same three servers, and neither is ordered by the one that dies."""
    async with CLUSTERS[of]() as cluster:
        loglet = open_striped(cluster, striped(cluster, 2))
        await append_on(loglet, 1, 0)
        cluster.crash(3)
        for number in range(1, 4):
            await append_on(loglet, 1, number)
        assert (await append_on(loglet, 0, 0)).start >= offset_of(8), "behind all that was acknowledged"
        tail = await loglet.check_tail()
        assert isinstance(tail, Open)
        assert await payloads(loglet, 0, tail.tail) == [b"1.0", b"1.1", b"1.2", b"1.3", b"0.0"]


@pytest.mark.parametrize("of", CLUSTERS)
async def test_a_minority_of_each_set_may_die(of: str) -> None:
    """Sharded over disjoint servers."""
    async with CLUSTERS[of](nodes=6) as cluster:
        loglet = open_striped(cluster, striped(cluster, 2, is_sharded=True))
        assert await loglet.check_tail() == Open(0)
        cluster.crash(3)
        cluster.crash(6)
        for number in range(3):
            await append_on(loglet, 0, number)
            await append_on(loglet, 1, number)
        await loglet.seal()
        tail = await loglet.check_tail()
        assert tail == Sealed(offset_of(6))
        assert len(await payloads(loglet, 0, tail.tail)) == 6


@pytest.mark.parametrize("of", CLUSTERS)
async def test_a_seal_that_reached_one_stripe_is_completed_by_the_next_check(of: str) -> None:
    """Its client died in between. Another one appends, and then looks."""
    async with CLUSTERS[of]() as cluster:
        config = striped(cluster, 2)
        loglet = open_striped(cluster, config)
        await append_on(loglet, 0, 0)
        await append_on(loglet, 1, 0)
        await cluster.client(config.parts(SEGMENT)[0]).seal()

        with pytest.raises(SealedError):
            await append_on(loglet, 1, 1)

        assert await open_striped(cluster, config).check_tail() == Sealed(offset_of(2))
        with pytest.raises(SealedError):
            await append_on(loglet, 1, 1)


@pytest.mark.parametrize("of", CLUSTERS)
async def test_a_closed_loglet_is_copied_stripe_by_stripe(of: str) -> None:
    """Node 3 is dead, node 4 takes its place in both stripes; then it is left with one other, and has everything."""
    async with CLUSTERS[of](nodes=4) as cluster:
        config = striped(cluster, 2)
        loglet = open_striped(cluster, config)
        for number in range(5):
            await append_on(loglet, number % 2, number // 2)
        await loglet.seal()
        stop = LogletOffset((await loglet.check_tail()).tail)
        cluster.crash(3)

        provider = striped_provider()
        target = provider.move(SEGMENT, config.encode(), (NodeId(1), NodeId(2), NodeId(4)))
        await provider.replicate(SEGMENT, config.encode(), target, stop, cluster.environment(), Spaced())
        cluster.crash(1)
        cluster.crash(2)

        moved = provider.open(SEGMENT, target, cluster.environment())
        assert await payloads(moved, 0, stop) == [b"0.0", b"1.0", b"0.1", b"1.1", b"0.2"]


@pytest.mark.parametrize("own", [0, 1])
async def test_stripe_whose_raft_leader_dies_goes_on(own: int) -> None:
    """Its replicas elect another leader: an append, to this stripe or above it, waits and needs no other loglet."""
    async with running_cluster() as cluster:
        loglet = open_striped(cluster, striped(cluster, 2))
        await append_on(loglet, own, 0)
        cluster.crash(1)  # it led stripe 0

        await append_on(loglet, own, 1)

        await loglet.seal()
        tail = await loglet.check_tail()
        assert isinstance(tail, Sealed)
        assert await payloads(loglet, 0, tail.tail) == [b"%d.%d" % (own, number) for number in (0, 1)]
