"""The whole PaxosLoglet over a simulated network and simulated disks: what its clients, coordinators and replicas do together."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest
import trio

from tests.loglets.outage import seal_after_an_outage
from tests.loglets.paxos.cluster import SEGMENT, payloads_of, read_all, running_cluster, writer
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OutOfOrderError, SealedError, UnavailableError
from virtuallog.contract.types import Gap, GapKind, LogletOffset, NodeId, Open, Sealed
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.testing.sim.links import LinkQuality
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import Learn, PaxosAppend, PaxosSeal, PaxosWrite, Promise, Status

ZERO = LogletOffset(0)
MockClock = trio.testing.MockClock


async def test_what_is_appended_is_read_back_and_survives_a_seal(autojump_clock: MockClock) -> None:
    """The plain life of a loglet: append, tail, read, seal, tail, read."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)

        assert await loglet.check_tail() == Open(0)
        assert await one.append(b"a", b"b") == range(2)
        assert await one.append(b"c") == range(SLOT, SLOT + 1)
        assert await loglet.check_tail() == Open(2 * SLOT)
        assert await read_all(loglet, 2 * SLOT) == [b"a", b"b", b"c"]
        await loglet.seal()
        assert await loglet.check_tail() == Sealed(2 * SLOT)
        assert await read_all(cluster.client(), 2 * SLOT, start=1) == [b"b", b"c"]
        assert await loglet.wait_tail(LogletOffset(2 * SLOT)) == Sealed(2 * SLOT)
        with pytest.raises(SealedError):
            await one.append(b"d")


@pytest.mark.parametrize("nodes", [1, 3, 5])
async def test_any_minority_may_fail_with_the_coordinator_in_it(nodes: int, autojump_clock: MockClock) -> None:
    """Appends, tails, reads, trims and seals go on. No reconfiguration is needed."""
    async with running_cluster(nodes) as cluster:
        cluster.create(nodes)
        loglet = cluster.client()
        one = writer(loglet)
        await one.append(b"a")
        for node in range(1, nodes // 2 + 1):
            cluster.crash(node)

        started = cluster.clock.monotonic()
        await one.append(b"b")
        assert cluster.clock.monotonic() - started < 2.0
        tail = await loglet.check_tail()
        assert await read_all(loglet, tail.tail) == [b"a", b"b"]
        assert await loglet.prefix_trim(LogletOffset(1)) == 1
        await loglet.seal()
        sealed = await loglet.check_tail()
        assert isinstance(sealed, Sealed)
        assert await read_all(cluster.client(), sealed.tail, start=SLOT) == [b"b"]


async def test_without_a_majority_nothing_is_answered_and_later_all_is(autojump_clock: MockClock) -> None:
    """Unavailable, which is neither failed nor done; the replicas come back and know everything."""
    async with running_cluster() as cluster:
        cluster.create(coordinator=3)
        loglet = cluster.client()
        await writer(loglet).append(b"a")
        await seal_after_an_outage(cluster, loglet)

        tail = await loglet.check_tail()
        assert isinstance(tail, Sealed)
        assert (await read_all(loglet, tail.tail))[0] == b"a"


async def test_replicas_that_lose_power_keep_what_they_said(autojump_clock: MockClock) -> None:
    """Entries, seal, trim: all of them, after every replica has been restarted. No leader is left, and none is needed."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for n in range(5):
            await one.append(b"%d" % n)
        await one.loglet.prefix_trim(LogletOffset(2 * SLOT))
        await one.loglet.seal()
        tail = await one.loglet.check_tail()
        await cluster.restart(1, 2, 3)

        loglet = cluster.client()
        assert await loglet.check_tail() == tail
        assert await loglet.read(ZERO, LogletOffset(SLOT), 99) == [Gap(0, SLOT, GapKind.TRIMMED)]
        assert await read_all(loglet, tail.tail, start=2 * SLOT) == [b"2", b"3", b"4"]


async def test_an_answer_that_is_lost_puts_nothing_in_twice(autojump_clock: MockClock) -> None:
    """The coordinator dies right after its write was decided: the client finds the next one, which stands, learns the batch,
    and gives it the place that it has."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)
        await one.append(b"a")
        second = one.batch(b"b")
        with trio.move_on_after(0.5):  # noqa: TID251 -- a client that is cut off while it waits
            cluster.network.link(NodeId(1), NodeId(100 + cluster.clients)).blocked = True
            await loglet.append(second, opens=False)
        cluster.crash(1)

        assert await cluster.client().append(second, opens=False) == range(SLOT, SLOT + 1)
        tail = await loglet.check_tail()
        assert await read_all(loglet, tail.tail) == [b"a", b"b"]


async def test_coordinators_that_take_over_from_each_other_lose_nothing(autojump_clock: MockClock) -> None:
    """Two clients, each of which can reach one node only as a coordinator: their appends turn the other one's leader out, again
    and again. Everything acknowledged is in the log, once, in the order of its session."""
    async with running_cluster(seed=3) as cluster:
        cluster.create()
        acknowledged: list[bytes] = []
        clients = {NodeId(1): cluster.client(), NodeId(2): cluster.client()}

        async def append_all(node: NodeId) -> None:
            loglet = clients[node]
            loglet._leader.leadership.replicas = (node,)
            loglet._leader.leadership.leader = node
            one = writer(loglet, b"%d" % node)
            for n in range(20):
                batch = one.batch(b"%d/%d" % (node, n))
                while True:
                    try:
                        await loglet.append(batch, opens=n == 0)
                    except (UnavailableError, OutOfOrderError):
                        await cluster.clock.sleep(0.1)
                    else:
                        break
                acknowledged.append(batch.payloads[0])

        async with trio.open_nursery() as nursery:
            for node in clients:
                nursery.start_soon(append_all, node)
        reader = cluster.client()
        await reader.seal()
        found = await payloads_of(reader)
        assert sorted(found) == sorted(acknowledged)
        for node in clients:
            mine = [payload for payload in found if payload.startswith(b"%d/" % node)]
            assert mine == [b"%d/%d" % (node, n) for n in range(20)]


@pytest.mark.parametrize("seed", range(6))
async def test_seals_that_race_appends(seed: int, autojump_clock: MockClock) -> None:
    """All acknowledged entries lie below the sealed tail, by the answer of any node, and nothing
    ever lies behind it."""
    async with running_cluster(seed=seed, quality=LinkQuality(loss=0.01, reorder=0.1)) as cluster:
        cluster.create()
        for node in cluster.nodes.values():
            node.disk.write_seconds = 0.002
        acknowledged: list[int] = []

        async def append_until_sealed(name: bytes) -> None:
            one = writer(cluster.client(), name)
            batch = one.batch(name)
            while True:
                try:
                    acknowledged.extend(await one.loglet.append(batch, opens=batch.first_sequence == 0))
                    batch = one.batch(name)
                except UnavailableError:
                    continue
                except SealedError:
                    return

        async with trio.open_nursery() as nursery:
            for n in range(6):
                nursery.start_soon(append_until_sealed, b"%d" % n)
            await cluster.clock.sleep(0.05 + 0.007 * seed)
            for _ in range(2):
                nursery.start_soon(cluster.client().seal)
        tail = await cluster.client().check_tail()
        assert isinstance(tail, Sealed)
        assert acknowledged
        assert max(acknowledged) < tail.tail
        for _ in range(3):
            assert await cluster.client().check_tail() == tail


async def test_zombies_behind_the_seal_are_never_part_of_the_log(autojump_clock: MockClock) -> None:
    """A replica that has not heard of the SEAL accepts a write behind it, from a coordinator that
    has not either. The write is never acknowledged, moves no tail and is shown to no reader."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        await writer(loglet).append(b"a")
        await loglet.seal()
        tail = await loglet.check_tail()
        zombie = Batch.build(SessionId(b"z" * 16), 0, [b"zombie"])
        write = PaxosWrite(segment=SEGMENT, proposal=10_000, coordinator=NodeId(2), first=4,
                      values=(values.append(zombie.blob, 0),))  # fmt: skip
        services = loglet._environment.services
        for node in (2, 3):
            await services.call(NodeId(node), write, 1.0)

        for client in (loglet, cluster.client()):
            assert await client.check_tail() == tail
            assert await payloads_of(client) == [b"a"]
            with pytest.raises(UnavailableError):
                await client.read(LogletOffset(3 * SLOT), LogletOffset(4 * SLOT), 999)
        cluster.crash(1)
        assert await cluster.client().check_tail() == tail


async def test_a_store_that_is_lost_recovers_by_itself(autojump_clock: MockClock) -> None:
    """The replica's directory is deleted; the node is the same. It votes again once it knows all it
    may have promised."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for n in range(10):
            await one.append(b"%d" % n)
        cluster.crash(2)
        cluster.nodes[NodeId(2)].disk.wipe()
        cluster.nodes[NodeId(2)].joined = SEGMENT.version  # as if it had been replaced: older logs are unknown to it
        await cluster.start(2)
        for n in range(10, 20):
            await one.append(b"%d" % n)

        provider = cluster.nodes[NodeId(2)].provider
        assert provider is not None
        assert provider.replicas is not None
        replica = await provider.replicas.replica(SEGMENT)
        while replica.core.status is not Status.VOTING:
            await cluster.clock.sleep(0.1)
        cluster.crash(1)
        await one.append(b"20")
        assert await payloads_of(cluster.client()) == [b"%d" % n for n in range(21)]


async def test_who_was_away_when_a_log_was_closed_hears_of_it(autojump_clock: MockClock) -> None:
    """It has no gap, and the log is not written any more. It asks by itself: then a second disk may be lost."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        await cluster.clock.sleep(1.0)
        cluster.isolate(3)
        await one.append(b"b")
        await one.loglet.seal()
        tail = await one.loglet.check_tail()
        cluster.crash(1)
        cluster.isolate(3, blocked=False)
        await cluster.clock.sleep(20.0)
        cluster.crash(2)

        assert await cluster.client().check_tail() == tail
        assert await payloads_of(cluster.client()) == [b"a", b"b"]


async def test_a_trim_that_drops_nothing_new_writes_nothing(autojump_clock: MockClock) -> None:
    """Repeated trims to the same place must not make the log longer."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for n in range(3):
            await one.append(b"%d" % n)
        assert await one.loglet.prefix_trim(ZERO) == 0
        assert await one.loglet.check_tail() == Open(3 * SLOT)
        assert await one.loglet.prefix_trim(LogletOffset(SLOT)) == SLOT
        tail = await one.loglet.check_tail()

        for offset in (SLOT, 0, 1):
            assert await cluster.client().prefix_trim(LogletOffset(offset)) == SLOT
        assert await one.loglet.check_tail() == tail


async def test_a_log_that_was_dropped_stays_dropped(autojump_clock: MockClock) -> None:
    """No late request makes it again, not even after a restart."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)
        await one.append(b"a")
        for node in cluster.nodes.values():
            assert node.provider is not None
            await node.provider.forget(SEGMENT.version + 1)
        cluster.crash(1)
        await cluster.start(1)

        for operation in (partial(one.append, b"b"), loglet.check_tail, loglet.seal):
            with pytest.raises(SealedError):
                await operation()
        assert not any(node.failures for node in cluster.nodes.values())


async def test_what_the_chain_does_not_name_is_dropped(autojump_clock: MockClock) -> None:
    """A log in the middle goes, older and newer ones stay."""
    old, gone, new = (SegmentId(version, 1) for version in (2, 3, 4))
    async with running_cluster() as cluster:
        for segment in (old, gone, new):
            cluster.create(segment=segment)
            await writer(cluster.client(segment)).append(b"a")
        late = cluster.client(gone)
        del cluster.chain[gone]
        for node in cluster.nodes.values():
            assert node.provider is not None
            await node.provider.sweep_loglets(3, [old])

        assert await cluster.client(old).check_tail() == Open(SLOT)
        assert await cluster.client(new).check_tail() == Open(SLOT)
        with pytest.raises(SealedError):
            await late.check_tail()


async def test_requests_that_arrive_late_or_twice_do_nothing(autojump_clock: MockClock) -> None:
    """Everything that was ever sent to a replica is sent again when the log is sealed, in reverse order."""
    sent: list[tuple[NodeId, Any]] = []

    def note(node: NodeId, request: Any) -> bool:
        if isinstance(request, PaxosAppend | PaxosSeal | PaxosWrite | Promise | Learn):
            sent.append((node, request))
        return True

    async with running_cluster() as cluster:
        cluster.create()
        cluster.gate = note
        loglet = cluster.client()
        one = writer(loglet)
        for n in range(5):
            await one.append(b"%d" % n)
        await loglet.seal()
        tail = await loglet.check_tail()
        cluster.gate = lambda node, request: True
        for node, request in reversed(list(sent)):
            with contextlib.suppress(SealedError, UnavailableError):
                await loglet._environment.services.call(node, request, 1.0)
        assert await loglet.check_tail() == tail
        assert await payloads_of(cluster.client()) == [b"%d" % n for n in range(5)]
        assert not any(node.failures for node in cluster.nodes.values())
