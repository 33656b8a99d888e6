"""Striped over native loglets, with servers that die: rotating sequencers over the same servers, and disjoint sets of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.loglets.native.cluster import SEGMENT, SMALL_WAL, Cluster, running_cluster
from tests.loglets.rereplication import Spaced
from tests.loglets.striped.cluster import open_striped, session_on, striped_native
from virtuallog.contract.batch import Batch
from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.errors import RetryableError, SealedError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import Request
from virtuallog.contract.provider import compose
from virtuallog.contract.types import LogletOffset, NodeId, Open, PlacedBatch, Sealed
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.messages import NativeGetState, NativeStore
from virtuallog_loglets.striped import StripedProvider
from virtuallog_loglets.striped.config import StripedConfig
from virtuallog_loglets.striped.core.layout import offset_of

pytestmark = pytest.mark.usefixtures("autojump_clock")


def sharded(cluster: Cluster) -> StripedConfig:
    """Stripe 0 on nodes 1 to 3, stripe 1 on nodes 4 to 6."""
    parts = StripedConfig(of="native", stripes=(b"", b"")).parts(SEGMENT)
    for part, first in zip(parts, (1, 4), strict=True):
        servers = tuple(NodeId(first + n) for n in range(3))
        cluster.chain[part] = NativeConfig(servers=servers, sequencer=servers[0], boot=1)
    return StripedConfig(of="native", stripes=tuple(cluster.chain[part].encode() for part in parts))


async def append_on(loglet: Loglet, stripe: int, number: int) -> range:
    return await loglet.append(
        Batch.build(session_on(stripe, 2), number, [b"%d.%d" % (stripe, number)]), opens=number == 0
    )


async def payloads(loglet: Loglet, start: int, stop: int) -> list[bytes]:
    found: list[bytes] = []
    while start < stop:
        items = await loglet.read(LogletOffset(start), LogletOffset(stop), 1 << 20)
        found += [item.batch.payloads[0] for item in items if isinstance(item, PlacedBatch)]
        start = items[-1].stop
    return found


async def test_a_slow_stripe_is_given_the_time_that_it_takes() -> None:
    """Each call takes 0.2 to 0.4 s, and so an append some 0.55 s. A filler that is given up sooner lands all the same: a stripe that is slow,
    as it has too much to do, would have more of them to do, and each append would take three times as long."""
    async with running_cluster(quality=LinkQuality(delay_seconds=0.1)) as cluster:
        loglet = open_striped(cluster, striped_native(cluster, 2))
        await append_on(loglet, 1, 0)
        clock = cluster.environment().clock
        began = clock.monotonic()
        for number in range(1, 11):
            await append_on(loglet, 1, number)
        assert clock.monotonic() - began < 10 * 0.7


async def test_any_minority_of_servers_may_die() -> None:
    """Rotating: both stripes are on the same three servers, and neither sequencer is on the one that dies."""
    async with running_cluster() as cluster:
        loglet = open_striped(cluster, striped_native(cluster, 2))
        await append_on(loglet, 1, 0)
        cluster.crash(3)
        for number in range(1, 4):
            await append_on(loglet, 1, number)
        assert (await append_on(loglet, 0, 0)).start >= offset_of(8), "behind all that was acknowledged"
        tail = await loglet.check_tail()
        assert isinstance(tail, Open)
        assert await payloads(loglet, 0, tail.tail) == [b"1.0", b"1.1", b"1.2", b"1.3", b"0.0"]


async def test_a_minority_of_each_set_may_die() -> None:
    """Sharded over disjoint servers."""
    async with running_cluster(nodes=6) as cluster:
        loglet = open_striped(cluster, sharded(cluster))
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


@pytest.mark.parametrize("own", [0, 1])
async def test_with_the_sequencer_of_a_stripe_the_loglet_is_at_its_end(own: int) -> None:
    """The sequencer of the append or of a lower stripe is gone: the append says so or is a maybe; a
    seal needs no sequencer."""
    async with running_cluster() as cluster:
        loglet = open_striped(cluster, striped_native(cluster, 2))
        await append_on(loglet, own, 0)
        before = (await loglet.check_tail()).tail
        cluster.crash(1)  # it ordered stripe 0

        with pytest.raises(RetryableError):
            await append_on(loglet, own, 1)

        await loglet.seal()
        tail = await loglet.check_tail()
        assert isinstance(tail, Sealed)
        assert tail.tail >= before


async def test_a_seal_that_reached_one_stripe_is_completed_by_the_next_check() -> None:
    """Its client died in between. Another one appends, and then looks."""
    async with running_cluster() as cluster:
        config = striped_native(cluster, 2)
        loglet = open_striped(cluster, config)
        await append_on(loglet, 0, 0)
        await append_on(loglet, 1, 0)
        await cluster.client(config.parts(SEGMENT)[0]).seal()

        with pytest.raises(SealedError):
            await append_on(loglet, 1, 1)

        assert await open_striped(cluster, config).check_tail() == Sealed(offset_of(2))
        with pytest.raises(SealedError):
            await append_on(loglet, 1, 1)


async def test_a_closed_loglet_is_copied_stripe_by_stripe() -> None:
    """Node 3 is dead, node 4 takes its place in both stripes; then it is left with one other, and has everything."""
    async with running_cluster(nodes=4) as cluster:
        config = striped_native(cluster, 2)
        loglet = open_striped(cluster, config)
        for number in range(5):
            await append_on(loglet, number % 2, number // 2)
        await loglet.seal()
        stop = LogletOffset((await loglet.check_tail()).tail)
        cluster.crash(3)

        provider = StripedProvider()
        compose({"native": NativeProvider(SMALL_WAL), "striped": provider})
        target = provider.move(SEGMENT, config.encode(), (NodeId(1), NodeId(2), NodeId(4)))
        await provider.replicate(SEGMENT, config.encode(), target, stop, cluster.environment(), Spaced())
        cluster.crash(1)
        cluster.crash(2)

        moved = provider.open(SEGMENT, target, cluster.environment())
        assert await payloads(moved, 0, stop) == [b"0.0", b"1.0", b"0.1", b"1.1", b"0.2"]


async def test_it_says_which_stripe_has_the_first_hole() -> None:
    """Each server of each stripe is asked, and its answer is shown in offsets of the whole."""
    async with running_cluster() as cluster:
        config = striped_native(cluster, 2)
        loglet = open_striped(cluster, config)
        await append_on(loglet, 1, 0)
        await cluster.client(config.parts(SEGMENT)[0]).append(
            Batch.build(session_on(0, 2, b"z"), 0, [b"a"]), opens=True
        )
        cluster.crash(3)
        provider = StripedProvider()
        compose({"native": NativeProvider(SMALL_WAL), "striped": provider})

        *servers, together = await provider.explain(SEGMENT, config.encode(), cluster.environment())

        assert [evidence.source for evidence in servers] == [f"stripe {s}, node {n}" for s in (0, 1) for n in (1, 2, 3)]
        assert [bool(evidence.problem) for evidence in servers] == [False, False, True] * 2
        assert servers[0].facts["tail"] == offset_of(4), "stripe 0 has two places: slots 0 and 2"
        assert {evidence.facts.get("trim", 0) for evidence in servers} == {0}
        assert together.source == COMBINED
        facts = together.facts
        assert (facts["tail"], facts["first hole"], facts["sealed"]) == (offset_of(3), "stripe 1", False)
        assert facts["by"] == ["stripe 1, node 1", "stripe 1, node 2"]
        assert facts["spare"] == 0
        assert [order["node"] for order in facts["orders"]] == [1, 2]


async def test_waves_of_a_stripe_that_come_late_do_not_end_it() -> None:
    """Everything that goes to the servers of stripe 0 is kept for a while: its appends, and those above on stripe 1, wait."""
    async with running_cluster() as cluster:
        config = striped_native(cluster, 2)
        loglet, lower = open_striped(cluster, config), config.parts(SEGMENT)[0]
        await append_on(loglet, 1, 0)

        def gate(_node: NodeId, request: Request[Any]) -> bool:
            return not (isinstance(request, NativeStore | NativeGetState) and request.segment == lower)

        cluster.gate = gate
        places: list[range] = []

        async def append() -> None:
            places.append(await append_on(loglet, 1, 1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await cluster.clock.sleep(0.3)
            assert not places
            cluster.release()
        assert places == [range(offset_of(3), offset_of(3) + 1)]
