"""A closed loglet is moved to other servers: what a newcomer has afterwards, and what may go wrong on the way."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.loglets.native.cluster import SEGMENT, Cluster, read_all, running_cluster
from tests.loglets.rereplication import ENTRIES, Spaced, copy
from tests.loglets.rereplication import closed as close
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, UnavailableError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig, TransferLimits, decode_untrusted
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.messages import NativeRepair

PIECES = TransferLimits(repair_bytes=300)
"""Some waves of one entry each."""


async def closed(cluster: Cluster) -> NativeLoglet:
    """A sealed loglet on nodes 1 to 3, with some waves."""
    return await close(cluster.client(), len(ENTRIES))


async def move(
    cluster: Cluster, *servers: int, pace: Spaced | None = None, lost: tuple[NodeId, ...] = ()
) -> NativeLoglet:
    """Copy what the servers lack, and open the loglet on them."""
    moved = await copy(NativeProvider(pieces=PIECES), cluster, SEGMENT, servers, len(ENTRIES), pace, lost)
    assert isinstance(moved, NativeLoglet)
    return moved


async def test_a_newcomer_has_everything(autojump_clock: MockClock) -> None:
    """Node 3 is dead, node 4 takes its place; then it alone is left, and has every entry."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        cluster.crash(3)

        moved = await move(cluster, 1, 2, 4)

        assert moved.config == NativeConfig(
            servers=(NodeId(1), NodeId(2), NodeId(4)), sequencer=NodeId(1), boot=1, loglet=SEGMENT
        )
        cluster.crash(1)
        cluster.crash(2)
        assert await read_all(moved, 0, len(ENTRIES)) == ENTRIES


async def test_a_server_that_lost_its_disk_gets_its_copy_back(autojump_clock: MockClock) -> None:
    """The set stays; node 3 is no source of what it has lost, and has all of it in the end."""
    async with running_cluster(nodes=3) as cluster:
        cluster.create()
        await closed(cluster)
        cluster.crash(3)
        cluster.nodes[NodeId(3)].disk.wipe()
        await cluster.start(3)

        moved = await move(cluster, 1, 2, 3, lost=(NodeId(3),))

        cluster.crash(1)
        cluster.crash(2)
        assert await read_all(moved, 0, len(ENTRIES)) == ENTRIES


async def test_a_part_that_ends_in_the_middle_of_a_wave_is_copied(autojump_clock: MockClock) -> None:
    """A stripe ends where the striped loglet does, and others decide where that is. No server would ever have such a wave that ends
    at or below the stop: the stripe would have stayed where it was, with one copy less."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        stripe = cluster.client()
        await stripe.append(Batch.build(SessionId(b"s" * 16), 0, [b"a", b"b", b"c"]), opens=True)
        await stripe.seal()
        await stripe.check_tail()

        moved = await copy(NativeProvider(pieces=PIECES), cluster, SEGMENT, (1, 2, 4), 2, None, ())

        cluster.crash(1)
        cluster.crash(2)
        assert isinstance(moved, NativeLoglet)
        assert await read_all(moved, 0, 2) == [b"a", b"b"]


async def test_a_copy_travels_in_pieces_and_is_read_back(autojump_clock: MockClock) -> None:
    """The bytes in flight are bounded, and the pace hears of each piece, there and back."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        pace = Spaced()

        await move(cluster, 1, 2, 4, pace=pace)

        assert len(pace.moved) > 8
        assert max(pace.moved) <= PIECES.repair_bytes
        assert sum(pace.moved[: len(pace.moved) // 2]) == sum(pace.moved[len(pace.moved) // 2 :])


async def test_a_copy_that_was_given_up_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    """The newcomer loses its power in the middle. What it has is not copied again."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        repairs: list[NativeRepair] = []

        def third_is_lost(node: NodeId, request: Request[Any]) -> bool:
            if isinstance(request, NativeRepair):
                repairs.append(request)
            return not isinstance(request, NativeRepair) or len(repairs) != 3

        cluster.gate = third_is_lost
        with pytest.raises(UnavailableError):
            await move(cluster, 1, 2, 4)
        cluster.crash(4)
        await cluster.start(4)
        before = len(repairs)
        moved = await move(cluster, 1, 2, 4)

        assert before == 3
        assert repairs[before].waves == repairs[2].waves
        assert await read_all(moved, 0, len(ENTRIES)) == ENTRIES


async def test_what_is_trimmed_is_not_copied(autojump_clock: MockClock) -> None:
    """Trimmed waves are not copied, and a reader gets the trim from the newcomer, too."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        loglet = await closed(cluster)
        await loglet.prefix_trim(LogletOffset(15))

        moved = await move(cluster, 1, 2, 4)

        server = cluster.nodes[NodeId(4)].provider
        assert server is not None and server.log_server is not None
        assert server.log_server.core.state(SEGMENT).trim == 15
        assert await moved.prefix_trim(LogletOffset(0)) == 15
        cluster.crash(1)
        cluster.crash(2)
        assert await read_all(moved, 15, len(ENTRIES)) == ENTRIES[15:]


async def test_a_server_with_a_hole_is_no_copy(autojump_clock: MockClock) -> None:
    """Node 4 was told to take a wave behind a hole, as a server may that lags. It does not count as a newcomer."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        kept = cluster.nodes[NodeId(1)].provider
        assert kept is not None and kept.log_server is not None
        durable = kept.log_server.core.durable.loglets[SEGMENT]
        environment = cluster.environment()
        address = durable.waves.find(10, 11, 1)[0]
        blob = (await kept.log_server._wal.read(address)).payload
        await environment.services.call(NodeId(4), NativeRepair(segment=SEGMENT, waves=(blob,), known_tail=20), 1)

        with pytest.raises(CorruptionError, match="on node 4 lacks offset 0"):
            await move(cluster, 1, 2, 4)


async def test_half_a_copy_is_no_server_for_others(autojump_clock: MockClock) -> None:
    """Node 3 has lost its disk and is still named. While its copy is made and node 2 is down, a client trims: that waits
    for node 2, rather than count on node 3 and leave a hole in it, and then the copy is completed."""
    async with running_cluster(nodes=3) as cluster:
        cluster.create()
        await closed(cluster)
        cluster.crash(3)
        cluster.nodes[NodeId(3)].disk.wipe()
        await cluster.start(3)
        server = cluster.nodes[NodeId(3)].provider
        assert server is not None and server.log_server is not None
        server.log_server.core.joined = SEGMENT.version
        pieces = 0

        def third_is_lost(_: NodeId, request: Request[Any]) -> bool:
            nonlocal pieces
            pieces += isinstance(request, NativeRepair)
            return not isinstance(request, NativeRepair) or pieces != 3

        cluster.gate = third_is_lost
        with pytest.raises(UnavailableError):
            await move(cluster, 1, 2, 3, lost=(NodeId(3),))
        cluster.crash(2)
        with pytest.raises(UnavailableError):
            await cluster.client().prefix_trim(LogletOffset(1))
        await cluster.start(2)
        moved = await move(cluster, 1, 2, 3, lost=(NodeId(3),))

        cluster.crash(1)
        cluster.crash(2)
        assert await read_all(moved, 0, len(ENTRIES)) == ENTRIES


async def test_the_former_sequencer_is_refused_by_the_new_servers(autojump_clock: MockClock) -> None:
    """Its server set has changed without it: a majority of the new one is sealed when the copy is done."""
    async with running_cluster(nodes=5) as cluster:
        cluster.create()
        await closed(cluster)

        moved = await move(cluster, 3, 4, 5)

        states = [
            node.provider.log_server.core.state(SEGMENT)
            for node in cluster.nodes.values()
            if node.id in moved.config.servers and node.provider is not None and node.provider.log_server is not None
        ]
        assert sum(state.sealed for state in states) >= 2


async def test_nobody_to_copy_from_is_told(autojump_clock: MockClock) -> None:
    """All former servers are dead: that may change."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        for node in (1, 2, 3):
            cluster.crash(node)

        with pytest.raises(UnavailableError):
            await move(cluster, 1, 2, 4)


@pytest.mark.parametrize("servers", [(1,), (1, 2), (1, 2, 3, 4), (1, 1, 2)])
def test_a_loglet_is_not_moved_to_fewer_servers(servers: tuple[int, ...]) -> None:
    """A loglet does not move to fewer servers, to an even number of them, or to one twice."""
    config = NativeConfig(servers=(NodeId(1), NodeId(2), NodeId(3)), sequencer=NodeId(1), boot=1)

    with pytest.raises(InvalidSettingError):
        NativeProvider().move(SEGMENT, config.encode(), tuple(NodeId(server) for server in servers))


def test_a_loglet_that_moves_again_keeps_its_first_id() -> None:
    """The waves name it. A new loglet planned like it has its own."""
    provider = NativeProvider()
    first = NativeConfig(servers=(NodeId(1), NodeId(2), NodeId(3)), sequencer=NodeId(1), boot=1).encode()

    once = provider.move(SEGMENT, first, (NodeId(1), NodeId(2), NodeId(4)))
    twice = provider.move(attrs.evolve(SEGMENT, version=9), once, (NodeId(1), NodeId(4), NodeId(5)))

    assert provider.loglets(attrs.evolve(SEGMENT, version=12), twice) == {SEGMENT: ("native", twice)}
    assert provider.describe(twice) == {"servers": [1, 4, 5], "sequencer": 1, "boot": 1, "loglet": str(SEGMENT)}


@pytest.mark.parametrize("loglet", ["7", 7, "x.y", None])
def test_a_config_that_names_no_loglet_is_refused(loglet: object) -> None:
    """The config comes from the register, which any client may have written."""
    encoded = NativeConfig(servers=(NodeId(1),), sequencer=NodeId(1), boot=1, others={"loglet": loglet}).encode()

    with pytest.raises(MalformedError):
        decode_untrusted(encoded)
