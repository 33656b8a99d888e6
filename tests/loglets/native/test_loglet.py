"""The whole NativeLoglet, over a simulated network and simulated disks. Items are those of specs/delos.md, section 11."""

from __future__ import annotations

import contextlib

import attrs
import pytest
import trio

from tests.loglets.native.cluster import SEGMENT, Cluster, read_all, running_cluster, writer
from tests.loglets.outage import seal_after_an_outage
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, ReconfigurationNeededError, SealedError, UnavailableError
from virtuallog.contract.types import Gap, GapKind, LogletOffset, NodeId, Open, Sealed
from virtuallog.testing.sim.links import LinkQuality
from virtuallog_loglets.native.drivers.sequencer_service import RESUME_SECONDS
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.messages import (
    NativeAppend,
    NativeReadWaves,
    NativeSeal,
    NativeStore,
)

ZERO = LogletOffset(0)


async def test_what_is_appended_is_read_back_and_survives_a_seal(autojump_clock: trio.testing.MockClock) -> None:
    """The plain life of a loglet: append, tail, read, seal, tail, read."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)

        assert await one.append(b"a", b"b") == range(2)
        assert await one.append(b"c") == range(2, 3)
        assert await loglet.check_tail() == Open(3)
        assert await read_all(loglet, 0, 3) == [b"a", b"b", b"c"]
        await loglet.seal()
        assert await loglet.check_tail() == Sealed(3)
        assert await read_all(cluster.client(), 1, 3) == [b"b", b"c"]
        assert await loglet.wait_tail(LogletOffset(3)) == Sealed(3)


@pytest.mark.parametrize("nodes", [1, 3, 5, 7])
async def test_item_26_any_minority_may_fail(nodes: int, autojump_clock: trio.testing.MockClock) -> None:
    """Appends, tails, reads, seals and trims go on without (N - 1) / 2 servers."""
    async with running_cluster(nodes) as cluster:
        cluster.create(nodes)
        loglet = cluster.client()
        one = writer(loglet)
        await one.append(b"a")
        for node in range(nodes // 2 + 2, nodes + 1):
            cluster.crash(node)

        await one.append(b"b")
        assert await loglet.check_tail() == Open(2)
        await loglet.seal()
        assert await loglet.check_tail() == Sealed(2)
        assert await read_all(cluster.client(), 0, 2) == [b"a", b"b"]
        assert await loglet.prefix_trim(LogletOffset(1)) == 1


async def test_without_a_majority_nothing_is_answered_and_later_all_is(autojump_clock: trio.testing.MockClock) -> None:
    """Unavailable, which is neither failed nor done; the servers come back and know everything."""
    async with running_cluster() as cluster:
        cluster.create(sequencer=3)
        loglet = cluster.client()
        await writer(loglet).append(b"a")
        await seal_after_an_outage(cluster, loglet)

        tail = await loglet.check_tail()
        assert tail in {Sealed(1), Sealed(2)}, "the second append is a maybe"
        assert (await read_all(loglet, 0, tail.tail))[0] == b"a"


async def test_item_37_servers_that_lose_power_keep_what_they_said(autojump_clock: trio.testing.MockClock) -> None:
    """Entries, seal, trim: all of them, after every server has been restarted."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for n in range(5):
            await one.append(b"%d" % n)
        await one.loglet.prefix_trim(LogletOffset(2))
        await one.loglet.seal()
        await cluster.restart(1, 2, 3)

        loglet = cluster.client()
        assert await loglet.check_tail() == Sealed(5)
        assert await loglet.read(ZERO, LogletOffset(2), 99) == [Gap(0, 2, GapKind.TRIMMED)]
        assert await read_all(loglet, 2, 5) == [b"2", b"3", b"4"]


async def test_item_29_a_slow_sync_and_a_seal(autojump_clock: trio.testing.MockClock) -> None:
    """Appends with slow syncs while a seal arrives: everything acknowledged lies below the sealed tail."""
    for delay in (0.0, 0.001, 0.004, 0.009, 0.015, 0.03):
        async with running_cluster(seed=int(delay * 1e4)) as cluster:
            cluster.create()
            for node in cluster.nodes.values():
                node.disk.faults.write_seconds = (0.005, 0.02)
            acknowledged: list[int] = []
            async with trio.open_nursery() as nursery:
                for n in range(8):
                    nursery.start_soon(_append_until_sealed, cluster, b"%d" % n, acknowledged)
                await cluster.clock.sleep(delay)
                sealer = cluster.client()
                await sealer.seal()
                tail = await sealer.check_tail()
            assert isinstance(tail, Sealed)
            assert all(place < tail.tail for place in acknowledged)
            assert await cluster.client().check_tail() == tail, "everybody has been heard"


async def _append_until_sealed(cluster: Cluster, name: bytes, acknowledged: list[int]) -> None:
    one = writer(cluster.client(), name)
    try:
        while True:
            acknowledged += await one.append(name)
    except SealedError:
        pass


async def test_item_35_a_sequencer_does_not_restart_in_place(autojump_clock: trio.testing.MockClock) -> None:
    """The node comes back with another boot: it refuses, and says that a reconfiguration is needed."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        cluster.crash(1)
        await cluster.start(1)

        with pytest.raises(ReconfigurationNeededError):
            await one.append(b"b")
        assert await one.loglet.check_tail() == Open(1)


async def test_item_35_another_node_than_the_one_in_the_config_refuses(autojump_clock: trio.testing.MockClock) -> None:
    """A client with a forged or mixed-up config cannot make a second sequencer."""
    async with running_cluster() as cluster:
        config = cluster.create()
        services = cluster.client()._environment.services
        batch = writer(cluster.client()).batch(b"a")
        assert config.sequencer == 1

        with pytest.raises(ReconfigurationNeededError):
            await services.call(NodeId(2), NativeAppend(segment=SEGMENT, batch=batch.blob, opens=True), 1.0)
        with pytest.raises(SealedError):
            await services.call(NodeId(1), NativeAppend(segment=SegmentId(9, 9), batch=batch.blob, opens=True), 1.0)


async def test_item_36_a_sequencer_dies_with_entries_in_flight(autojump_clock: trio.testing.MockClock) -> None:
    """Any suffix may survive, and what survives is a prefix: no holes, acknowledged entries included."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create(sequencer=4)
        acknowledged: list[int] = []

        async def append(name: bytes) -> None:
            one = writer(cluster.client(), name)
            with contextlib.suppress(UnavailableError):
                while True:
                    acknowledged.extend(await one.append(name))

        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(append, b"%d" % n)
            await cluster.clock.sleep(0.02)
            cluster.crash(4)
        loglet = cluster.client()
        await loglet.seal()
        tail = await loglet.check_tail()

        assert acknowledged
        assert max(acknowledged) < tail.tail
        assert len(await read_all(loglet, 0, tail.tail)) == tail.tail


async def test_item_39_a_dead_sequencer_and_tails_that_differ(autojump_clock: trio.testing.MockClock) -> None:
    """A tail check says that a seal is needed; after the seal it ends."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create(sequencer=4)
        cluster.crash(3)
        cluster.gate = lambda node, request: not (node == 2 and isinstance(request, NativeStore))
        with cluster.clock.timeout(0.5):
            await writer(cluster.client()).append(b"a")
        cluster.crash(4)
        loglet = cluster.client()

        with pytest.raises(ReconfigurationNeededError):
            await loglet.check_tail()
        await loglet.seal()
        assert await loglet.check_tail() == Sealed(1)
        assert await read_all(loglet, 0, 1) == [b"a"]


async def test_item_42_the_sequencer_stops_soon_after_a_seal_that_went_past_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The next append learns it within a few round trips, not after a timeout."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        await cluster.client().seal()
        began = cluster.clock.monotonic()

        with pytest.raises(SealedError):
            await one.append(b"b")
        assert cluster.clock.monotonic() - began < 0.1


async def test_item_43_a_caller_that_is_cancelled_leaves_no_hole(autojump_clock: trio.testing.MockClock) -> None:
    """Its batch has a place; replication belongs to the node, and those behind it are acknowledged."""
    async with running_cluster() as cluster:
        cluster.create()
        cluster.gate = lambda _node, request: not isinstance(request, NativeStore)
        with cluster.clock.timeout(0.01) as scope:
            await writer(cluster.client(), b"gone").append(b"a")
        assert scope.cancelled_caught
        cluster.release()

        assert await writer(cluster.client()).append(b"b") == range(1, 2)
        assert await read_all(cluster.client(), 0, 2) == [b"a", b"b"]


async def test_item_33_an_append_whose_answer_was_lost_is_in_the_log_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Offered again, it gets the place it has."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        batch = writer(loglet).batch(b"a", b"b")
        with cluster.clock.timeout(0.001):
            await loglet.append(batch, opens=True)
        await cluster.clock.sleep(1)

        assert await loglet.append(batch, opens=True) == range(2)
        assert await loglet.append(batch, opens=True) == range(2)
        assert await loglet.check_tail() == Open(2)


async def test_item_31_a_slow_server_catches_up_by_omission(autojump_clock: trio.testing.MockClock) -> None:
    """It has a gap, which others fill for readers; its own tail is as good as any."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"0")
        cluster.isolate(3)
        for n in range(1, 5):
            await one.append(b"%d" % n)
        cluster.isolate(3, blocked=False)
        await cluster.clock.sleep(10 * RESUME_SECONDS + 5)
        await one.append(b"5")
        await cluster.clock.sleep(1)

        provider = cluster.nodes[NodeId(3)].provider
        assert provider is not None
        server = provider.log_server
        assert server is not None
        assert server.core.state(SEGMENT).local_tail == 6
        assert server.core.find(NativeReadWaves(segment=SEGMENT, start=2, stop=3, max_bytes=9)) == []
        reader = NativeLoglet(SEGMENT, cluster.chain[SEGMENT], attrs.evolve(cluster.environment(), near=NodeId(3)))
        assert await read_all(reader, 0, 6) == [b"%d" % n for n in range(6)]
        cluster.crash(1)
        assert await reader.check_tail() == Open(6)


def _rot(cluster: Cluster, node: int) -> None:
    """Flip a bit in the middle of the last wave of this server."""
    disk = cluster.nodes[NodeId(node)].disk
    name = next(name for name in sorted(disk.files) if disk.peek(name).find(b"a" * 1000) > 0)
    disk.rot(name, disk.peek(name).find(b"a" * 1000))


async def test_a_server_whose_log_is_damaged_refuses_to_serve(autojump_clock: trio.testing.MockClock) -> None:
    """A server must not answer from a damaged log; the node reports it and the other servers go on."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for _ in range(3):
            await one.append(b"a" * 2000)
        await cluster.clock.sleep(1)
        cluster.crash(3)
        _rot(cluster, 3)

        with pytest.raises(BaseExceptionGroup) as raised:
            await _start_alone(cluster, 3)
        assert raised.group_contains(CorruptionError)
        assert await one.loglet.check_tail() == Open(3)


async def _start_alone(cluster: Cluster, node: int) -> None:
    """In a nursery of its own, so that its failure is not the cluster's."""
    async with trio.open_nursery() as nursery:
        await attrs.evolve(cluster, nursery=nursery).start(node)


async def test_a_disk_that_fails_takes_its_server_down_and_nobody_else(autojump_clock: trio.testing.MockClock) -> None:
    """The role reports the failure; two of three go on."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        cluster.nodes[NodeId(2)].disk.faults = type(cluster.nodes[NodeId(2)].disk.faults)(sync_error=1.0)

        await one.append(b"b")
        await cluster.clock.sleep(1)
        assert cluster.nodes[NodeId(2)].failures
        await one.append(b"c")
        assert await one.loglet.check_tail() == Open(3)


async def test_a_seal_survives_duplicates_and_may_be_repeated_by_anybody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Idempotent, by many at once, with every message doubled."""
    async with running_cluster(quality=LinkQuality(duplicate=1.0)) as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(cluster.client().seal)

        assert await cluster.client().check_tail() == Sealed(1)
        assert await read_all(cluster.client(), 0, 1) == [b"a"]


async def test_a_seal_that_reached_one_server_only_is_completed_by_the_next_tail_check(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Some sealed: the next client to see it seals the rest (P1, figure 6)."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        await writer(loglet).append(b"a")
        await loglet._environment.services.call(NodeId(1), NativeSeal(segment=SEGMENT), 1.0)
        cluster.crash(3)

        assert await cluster.client().check_tail() == Sealed(1)
