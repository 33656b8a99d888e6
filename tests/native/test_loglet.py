"""The whole NativeLoglet, over a simulated network and simulated disks. Items are those of specs/delos.md, section 11."""

from __future__ import annotations

import contextlib
from typing import Any

import attrs
import pytest
import trio

from tests.loglet_outage import seal_after_an_outage
from tests.native.cluster import SEGMENT, Cluster, read_all, running_cluster, writer
from virtuallog.chain import SegmentId
from virtuallog.errors import CorruptionError, ReconfigurationNeededError, SealedError, UnavailableError
from virtuallog.nearest import NEAR_AGAIN_SECONDS
from virtuallog.testing.links import LinkQuality
from virtuallog.types import Gap, GapKind, LogletOffset, NodeId, Open, PlacedBatch, Sealed
from virtuallog_loglets.native import log_server
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.messages import Append, ReadWaves, Repair, Seal, Store, Trim, WaitTail
from virtuallog_loglets.native.sequencer_service import RESUME_SECONDS

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
    """Appends whose syncs take long while a seal arrives: whatever is acknowledged lies below the sealed tail."""
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
    """The node comes back with another boot: it refuses, and says that somebody has to reconfigure."""
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
            await services.call(NodeId(2), Append(segment=SEGMENT, batch=batch.blob, opens=True), 1.0)
        with pytest.raises(SealedError):
            await services.call(NodeId(1), Append(segment=SegmentId(9, 9), batch=batch.blob, opens=True), 1.0)


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
    """A tail check says that somebody has to seal; after that it ends."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create(sequencer=4)
        cluster.crash(3)
        cluster.gate = lambda node, request: not (node == 2 and isinstance(request, Store))
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
        cluster.gate = lambda _node, request: not isinstance(request, Store)
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
        assert server.core.find(ReadWaves(segment=SEGMENT, start=2, stop=3, max_bytes=9)) == []
        reader = NativeLoglet(SEGMENT, cluster.chain[SEGMENT], attrs.evolve(cluster.environment(), near=NodeId(3)))
        assert await read_all(reader, 0, 6) == [b"%d" % n for n in range(6)]
        cluster.crash(1)
        assert await reader.check_tail() == Open(6)


async def test_item_41_the_last_copy_is_found(autojump_clock: trio.testing.MockClock) -> None:
    """Two of three copies are gone, one by a crash, one by bit rot: the third one is read."""
    async with running_cluster() as cluster:
        cluster.create()
        await writer(cluster.client()).append(b"a" * 2000)
        await cluster.clock.sleep(1)
        cluster.crash(1)
        _rot(cluster, 2)

        reader = cluster.client()
        assert await read_all(reader, 0, 1) == [b"a" * 2000]
        assert await read_all(reader, 0, 1) == [b"a" * 2000]
        _rot(cluster, 3)
        with pytest.raises(UnavailableError):
            await reader.read(ZERO, LogletOffset(1), 1 << 20)


async def test_every_copy_damaged_is_said_so(autojump_clock: trio.testing.MockClock) -> None:
    """All servers answer, and none has whole bytes."""
    async with running_cluster() as cluster:
        cluster.create()
        await writer(cluster.client()).append(b"a" * 2000)
        await cluster.clock.sleep(1)
        for node in (1, 2, 3):
            _rot(cluster, node)

        with pytest.raises(CorruptionError):
            await cluster.client().read(ZERO, LogletOffset(1), 1 << 20)


def _rot(cluster: Cluster, node: int) -> None:
    """Flip a bit in the middle of the last wave of this server."""
    disk = cluster.nodes[NodeId(node)].disk
    name = next(name for name in sorted(disk.files) if disk.peek(name).find(b"a" * 1000) > 0)
    disk.rot(name, disk.peek(name).find(b"a" * 1000))


async def test_a_server_whose_log_is_damaged_refuses_to_serve(autojump_clock: trio.testing.MockClock) -> None:
    """What it cannot trust it must not answer from; the node reports it and the other servers go on."""
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
    """Somebody's trim reached one server of three. Whoever hears of it there brings it to a majority before telling."""
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


async def test_a_reader_that_waits_hears_of_an_append(autojump_clock: trio.testing.MockClock) -> None:
    """Within a round trip or two, not after a poll interval; also of the last one before a pause."""
    async with running_cluster() as cluster:
        cluster.create()
        heard: list[Any] = []

        async def wait() -> None:
            heard.append((await cluster.client().wait_tail(ZERO), cluster.clock.monotonic()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await cluster.clock.sleep(0.5)
            appended = await writer(cluster.client()).append(b"a")
            done = cluster.clock.monotonic()
        ((tail, when),) = heard
        assert appended == range(1)
        assert tail == Open(1)
        assert when - done < 0.05


async def test_a_tail_that_a_majority_tells_a_waiting_reader_needs_no_check(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two of three have, none of them sealed, is committed. A client that follows would ask three servers again each time."""
    async with running_cluster() as cluster:
        cluster.create()
        one, reader = writer(cluster.client()), cluster.client()
        checks: list[int] = []
        monkeypatch.setattr(NativeLoglet, "check_tail", lambda _: checks.append(1))

        for count in range(1, 4):
            await one.append(b"a")
            assert await reader.wait_tail(LogletOffset(count - 1)) == Open(count)
        assert checks == []


async def test_what_one_server_alone_has_is_not_taken_for_the_tail(autojump_clock: trio.testing.MockClock) -> None:
    """The others do not get its wave. The reader may be told that somebody has to act, or the old tail after a while; never that
    the tail is beyond what a majority holds."""
    async with running_cluster() as cluster:
        cluster.create()
        await writer(cluster.client()).append(b"a")
        await cluster.clock.sleep(1)

        def only_one(node: NodeId, request: Any) -> bool:
            return not isinstance(request, Store) or node == 1

        cluster.gate = only_one
        async with trio.open_nursery() as nursery:
            appending = cluster.client()
            nursery.start_soon(_append_in_vain, appending)
            with contextlib.suppress(ReconfigurationNeededError):
                assert await cluster.client().wait_tail(LogletOffset(1)) == Open(1)
            nursery.cancel_scope.cancel()


async def _append_in_vain(loglet: NativeLoglet) -> None:
    await writer(loglet).append(b"b")


async def test_a_client_beside_a_server_reads_from_that_one_first(autojump_clock: trio.testing.MockClock) -> None:
    """It costs no message. If it has failed, others are asked first, for some seconds."""
    async with running_cluster() as cluster:
        cluster.create()
        await writer(cluster.client()).append(b"a")
        await cluster.clock.sleep(1)
        asked: list[NodeId] = []

        def note(node: NodeId, request: Any) -> bool:
            if isinstance(request, ReadWaves):
                asked.append(node)
            return True

        cluster.gate = note
        reader = NativeLoglet(SEGMENT, cluster.chain[SEGMENT], attrs.evolve(cluster.environment(), near=NodeId(3)))
        await read_all(reader, 0, 1)
        assert asked == [3]

        cluster.crash(3)
        await read_all(reader, 0, 1)
        await cluster.start(3)
        asked.clear()
        await read_all(reader, 0, 1)
        assert asked == [1]
        await cluster.clock.sleep(NEAR_AGAIN_SECONDS)
        await read_all(reader, 0, 1)
        assert asked == [1, 3]


async def test_a_reader_for_whom_there_is_no_room_to_wait_asks_now_and_then(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may use up the places there are for waiting; the news come a little later then, and all the same."""
    monkeypatch.setattr(log_server, "WAITERS_MAX", 0)
    async with running_cluster() as cluster:
        cluster.create()
        asked: list[float] = []

        def count(_node: NodeId, request: Any) -> bool:
            if isinstance(request, WaitTail):
                asked.append(cluster.clock.monotonic())
            return True

        cluster.gate = count
        heard: list[float] = []

        async def wait() -> None:
            assert await cluster.client().wait_tail(ZERO) == Open(1)
            heard.append(cluster.clock.monotonic())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await cluster.clock.sleep(0.5)
            await writer(cluster.client()).append(b"a")
            done = cluster.clock.monotonic()
        assert heard[0] - done < 0.2
        assert 10 < len(asked) < 50


async def test_a_reader_that_waits_in_vain_gets_the_tail_as_it_is(autojump_clock: trio.testing.MockClock) -> None:
    """After a while, in any case."""
    async with running_cluster() as cluster:
        cluster.create()
        with cluster.clock.timeout(5) as scope:
            assert await cluster.client().wait_tail(ZERO) == Open(0)
        assert not scope.cancelled_caught


async def test_item_44_a_known_tail_never_exceeds_what_a_majority_holds(autojump_clock: trio.testing.MockClock) -> None:
    """On a bad network with crashes: every message that carries one is checked against the disks."""
    bad = LinkQuality(loss=0.02, duplicate=0.05, reorder=0.1, tail_probability=0.05, tail_seconds=0.05)
    async with running_cluster(quality=bad, seed=3) as cluster:
        cluster.create()
        seen: list[int] = []

        def check(_node: NodeId, request: Any) -> bool:
            if isinstance(request, Store | Repair | WaitTail | Trim):
                assert request.known_tail <= _held_by_majority(cluster)
                seen.append(request.known_tail)
            return True

        cluster.gate = check
        acknowledged: list[int] = []
        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(_append_until_sealed_bad, cluster, b"%d" % n, acknowledged)
            await cluster.clock.sleep(1)
            cluster.crash(2)
            await cluster.start(2)
            await cluster.clock.sleep(1)
            loglet = cluster.client()
            await _retry(cluster, loglet.seal)
            tail = await _retry(cluster, loglet.check_tail)
        assert max(seen) > 20
        assert max(acknowledged) < tail.tail


def _held_by_majority(cluster: Cluster) -> int:
    tails = []
    for node in cluster.nodes.values():
        server = node.provider._log_server if node.provider is not None else None
        if server is not None and SEGMENT in server.core.durable.loglets:
            tails.append(server.core.durable.loglets[SEGMENT].tail)
    return sorted(tails, reverse=True)[1] if len(tails) >= 2 else 0


async def _append_until_sealed_bad(cluster: Cluster, name: bytes, acknowledged: list[int]) -> None:
    one = writer(cluster.client(), name)
    while True:
        batch = one.batch(name)
        while True:
            try:
                acknowledged += await one.loglet.append(batch, opens=batch.first_sequence == 0)
                break
            except SealedError:
                return
            except UnavailableError:
                continue


async def _retry(cluster: Cluster, operation: Any) -> Any:
    while True:
        try:
            return await operation()
        except UnavailableError:
            await cluster.clock.sleep(0.1)


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
    """Some sealed: whoever sees it seals the rest (P1, figure 6)."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        await writer(loglet).append(b"a")
        await loglet._environment.services.call(NodeId(1), Seal(segment=SEGMENT), 1.0)
        cluster.crash(3)

        assert await cluster.client().check_tail() == Sealed(1)
