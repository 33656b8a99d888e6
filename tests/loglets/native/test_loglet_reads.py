"""Reads of a native loglet."""

from __future__ import annotations

import contextlib
from typing import Any

import attrs
import pytest
import trio

from tests.loglets.native.cluster import SEGMENT, Cluster, read_all, running_cluster, writer
from tests.loglets.native.test_loglet import ZERO, _rot
from virtuallog.client.replica_order import NEAR_AGAIN_SECONDS
from virtuallog.contract.errors import CorruptionError, ReconfigurationNeededError, SealedError, UnavailableError
from virtuallog.contract.types import LogletOffset, NodeId, Open
from virtuallog.testing.sim.links import LinkQuality
from virtuallog_loglets.native.core import log_server
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.messages import NativeReadWaves, NativeRepair, NativeStore, NativeTrim, NativeWaitTail


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
    """Entries on two unsealed servers of three are committed. A following client would ask three
    servers again each time."""
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
    """The others do not get its wave. The reader may learn that a reconfiguration is needed, or get
    the old tail after a while; never a tail beyond what a majority holds."""
    async with running_cluster() as cluster:
        cluster.create()
        await writer(cluster.client()).append(b"a")
        await cluster.clock.sleep(1)

        def only_one(node: NodeId, request: Any) -> bool:
            return not isinstance(request, NativeStore) or node == 1

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
            if isinstance(request, NativeReadWaves):
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
            if isinstance(request, NativeWaitTail):
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
            if isinstance(request, NativeStore | NativeRepair | NativeWaitTail | NativeTrim):
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
