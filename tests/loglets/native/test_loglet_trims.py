"""Trims of a native loglet."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.native.cluster import SEGMENT, read_all, running_cluster, writer
from tests.loglets.native.test_loglet import ZERO
from virtuallog.contract.errors import SealedError, UnavailableError
from virtuallog.contract.types import Gap, GapKind, LogletOffset, NodeId, Open, PlacedBatch, Sealed


async def test_item_40_a_fresh_client_trims_what_it_has_never_seen(autojump_clock: trio.testing.MockClock) -> None:
    """It knows no tail: its zero must not turn the trim into nothing."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for n in range(4):
            await one.append(b"%d" % n)

        assert await cluster.client().prefix_trim(LogletOffset(3)) == 3
        assert await cluster.client().prefix_trim(LogletOffset(99)) == 4
        assert await cluster.client().prefix_trim(LogletOffset(1)) == 4
        assert await cluster.client().check_tail() == Open(4)
        assert await cluster.client().read(ZERO, LogletOffset(4), 9) == [Gap(0, 4, GapKind.TRIMMED)]


async def test_a_trim_point_that_was_told_is_never_told_lower(autojump_clock: trio.testing.MockClock) -> None:
    """A trim reached one server of three. A client that learns of it there brings it to a majority
    before it answers."""
    async with running_cluster() as cluster:
        cluster.create(sequencer=3)
        one = writer(cluster.client())
        for n in range(4):
            await one.append(b"%d" % n)
        cluster.crash(1)
        cluster.crash(2)
        with pytest.raises(UnavailableError):
            await one.loglet.prefix_trim(LogletOffset(2))

        await cluster.start(2)
        assert await cluster.client().prefix_trim(ZERO) == 2
        await cluster.start(1)
        cluster.crash(3)
        assert await cluster.client().prefix_trim(ZERO) == 2


async def test_a_trim_inside_a_wave_keeps_the_rest_of_it(autojump_clock: trio.testing.MockClock) -> None:
    """Waves are stored whole; the trim point may lie anywhere."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        await writer(loglet).append(b"a", b"b", b"c")
        await loglet.prefix_trim(LogletOffset(1))
        await loglet.seal()

        gap, batch = await loglet.read(ZERO, LogletOffset(2), 99)
        assert gap == Gap(0, 1, GapKind.TRIMMED)
        assert isinstance(batch, PlacedBatch)
        assert [record.payload for record in batch.records()] == [b"b"]
        assert await cluster.client().check_tail() == Sealed(3)


async def test_space_comes_back_after_trims(autojump_clock: trio.testing.MockClock) -> None:
    """A server that is appended to and trimmed for long keeps a few WAL segments, and restarts from them."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for _ in range(100):
            places = await one.append(b"x" * 2000)
            await one.loglet.prefix_trim(LogletOffset(places.start))
        await cluster.clock.sleep(1)

        for node in cluster.nodes.values():
            assert node.disk.used_bytes <= 5 * cluster.wal_settings.segment_bytes
        for number in (1, 2, 3):
            cluster.crash(number)
            await cluster.start(number)
        assert await one.loglet.check_tail() == Open(100)
        assert await read_all(cluster.client(), 99, 100) == [b"x" * 2000]


async def test_a_dropped_loglet_is_not_created_again(autojump_clock: trio.testing.MockClock) -> None:
    """Late appends, stores and seals find nothing and leave nothing, also after a restart."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        for node in cluster.nodes.values():
            assert node.provider is not None
            await node.provider.forget(2)
        del cluster.chain[SEGMENT]

        for operation in (one.append(b"b"), one.loglet.check_tail(), one.loglet.seal(), one.loglet.read(ZERO, ZERO, 1)):
            with pytest.raises(SealedError):
                await operation
        for number in (1, 2, 3):
            cluster.crash(number)
            await cluster.start(number)
        with pytest.raises(SealedError):
            await one.append(b"b")
        with pytest.raises(SealedError):
            await one.loglet.seal()


async def test_a_role_that_is_closed_leaves_nobody_waiting_for_it_to_forget(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its node follows the register with one task; that goes on for the other roles."""
    async with running_cluster() as cluster:
        cluster.create()
        provider, scope = cluster.nodes[NodeId(1)].provider, cluster.nodes[NodeId(1)].scope
        assert provider is not None and scope is not None
        raised: list[UnavailableError] = []

        async def forget() -> None:
            try:
                await provider.forget(2)
            except UnavailableError as error:
                raised.append(error)

        with cluster.clock.timeout(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(forget)
                await trio.lowlevel.checkpoint()
                scope.cancel()
        assert len(raised) == 1
