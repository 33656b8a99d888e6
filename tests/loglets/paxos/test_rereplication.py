"""A closed log is moved to other nodes: what a newcomer has afterwards, and what may go wrong on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.loglets.paxos.cluster import SEGMENT, Cluster, payloads_of, read_all, running_cluster, writer
from tests.loglets.rereplication import ENTRIES, Spaced, copy
from tests.loglets.rereplication import closed as close
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError, SealedError, UnavailableError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import Gap, GapKind, LogletOffset, NodeId, Sealed
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.loglet import PaxosLoglet
from virtuallog_loglets.paxos.messages import NOWHERE, Learn, PaxosWrite
from virtuallog_loglets.paxos.provider import PaxosProvider

STOP = LogletOffset(len(ENTRIES) * SLOT)


async def closed(cluster: Cluster) -> PaxosLoglet:
    """A sealed log on nodes 1 to 3."""
    return await close(cluster.client(), STOP)


async def move(
    cluster: Cluster,
    *servers: int,
    pace: Spaced | None = None,
    lost: tuple[NodeId, ...] = (),
    segment: SegmentId = SEGMENT,
) -> PaxosLoglet:
    """Copy what the nodes lack, and open the log on them."""
    moved = await copy(PaxosProvider(piece_bytes=300), cluster, segment, servers, STOP, pace, lost)
    assert isinstance(moved, PaxosLoglet)
    return moved


async def test_a_newcomer_has_everything(autojump_clock: MockClock) -> None:
    """Node 3 is dead, node 4 takes its place; then it alone is left, and speaks for the log."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        cluster.crash(3)

        pace = Spaced()
        moved = await move(cluster, 1, 2, 4, pace=pace)

        ids = (NodeId(1), NodeId(2), NodeId(4))
        assert moved.config == PaxosConfig(replicas=ids, coordinator=NodeId(1), loglet=SEGMENT)
        assert len(pace.moved) > 4, "in pieces: what is fetched, and what is read back"
        cluster.crash(1)
        cluster.crash(2)
        assert await moved.check_tail() == Sealed(STOP)
        assert await payloads_of(moved) == ENTRIES


async def test_the_chain_forgets_the_former_id_and_the_copy_stays(autojump_clock: MockClock) -> None:
    """No segment has the id that the log has on its nodes. These are started again, and know it all the same."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        moved = await move(cluster, 2, 3, 4)
        cluster.chain = {SegmentId(9, 9): moved.config}
        for node in (2, 3, 4):
            cluster.crash(node)
            await cluster.start(node)

        assert await moved.check_tail() == Sealed(STOP)
        assert await payloads_of(moved) == ENTRIES
        assert await moved.prefix_trim(LogletOffset(3 * SLOT + 1)) == 3 * SLOT + 1
        assert not any(node.failures for node in cluster.nodes.values())


async def test_a_log_may_move_again(autojump_clock: MockClock) -> None:
    """By then no segment of the chain has the id that the log has on its nodes. The first newcomer
    is a source of the second move."""
    async with running_cluster(nodes=5) as cluster:
        cluster.create()
        await closed(cluster)
        moved = await move(cluster, 1, 2, 4)
        cluster.crash(1)
        cluster.crash(2)
        cluster.chain = {SegmentId(9, 9): moved.config}

        again = await move(cluster, 3, 4, 5, segment=SegmentId(9, 9), lost=(NodeId(1), NodeId(2)))

        cluster.crash(3)
        cluster.crash(4)
        assert again.segment == SEGMENT
        assert await payloads_of(again) == ENTRIES


async def test_what_is_truncated_is_not_copied(autojump_clock: MockClock) -> None:
    """Truncated entries are neither copied nor shown: the newcomer's readers begin where all others do."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        loglet = await closed(cluster)
        await loglet.prefix_trim(LogletOffset(12 * SLOT))

        moved = await move(cluster, 1, 2, 4)

        cluster.crash(1)
        cluster.crash(2)
        assert (await moved.read(LogletOffset(0), STOP, 1))[0] == Gap(0, 12 * SLOT, GapKind.TRIMMED)
        assert await read_all(moved, STOP, start=12 * SLOT) == ENTRIES[12:]


async def test_two_copiers_and_one_that_dies_do_no_harm(autojump_clock: MockClock) -> None:
    """The second one goes on where the first one was."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        taken: list[Request[Any]] = []

        def only_some(node: NodeId, request: Request[Any]) -> bool:
            if isinstance(request, Learn) and request.rebuilds and node == 4:
                taken.append(request)
                return len(taken) <= 3
            return True

        cluster.gate = only_some
        with pytest.raises(UnavailableError):
            await move(cluster, 1, 2, 4)
        cluster.release()
        moved = await move(cluster, 1, 2, 4)

        cluster.crash(1)
        cluster.crash(2)
        assert await payloads_of(moved) == ENTRIES


async def test_a_copy_that_is_not_whole_says_nothing_about_the_tail(autojump_clock: MockClock) -> None:
    """The copy has begun, and the others are gone: it must report neither an end of the log nor an empty log."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        cluster.gate = lambda node, request: not (isinstance(request, Learn) and node == 4 and len(request.records) > 2)
        with pytest.raises(UnavailableError):
            await move(cluster, 1, 2, 4)
        half = cluster.client()
        half.config = attrs.evolve(half.config, replicas=(NodeId(4), NodeId(5), NodeId(6)), loglet=SEGMENT)

        with pytest.raises(UnavailableError):
            await half.check_tail()


async def test_a_damaged_source_is_passed_over(autojump_clock: MockClock) -> None:
    """Another one has a whole copy; with none left, nothing is made up."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        for node in (1, 2, 3):
            cluster.crash(node)
        with pytest.raises(UnavailableError):
            await move(cluster, 1, 2, 4)
        await cluster.start(2)

        await move(cluster, 1, 2, 4)


async def test_a_log_that_was_dropped_is_not_moved(autojump_clock: MockClock) -> None:
    """The chain has gone on without us."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        for node in cluster.nodes.values():
            assert node.provider is not None
            await node.provider.forget(SEGMENT.version + 1)

        with pytest.raises(SealedError):
            await move(cluster, 1, 2, 4)


async def test_a_directory_that_took_the_place_of_a_former_one_gets_its_copy(autojump_clock: MockClock) -> None:
    """The chain names it all the time; `lost` says that it has nothing."""
    async with running_cluster(nodes=3) as cluster:
        cluster.create()
        await closed(cluster)
        cluster.crash(3)
        cluster.nodes[NodeId(3)].disk.wipe()
        cluster.nodes[NodeId(3)].joined = 5
        await cluster.start(3)

        moved = await move(cluster, 1, 2, 3, lost=(NodeId(3),))

        cluster.crash(1)
        cluster.crash(2)
        assert await payloads_of(moved) == ENTRIES


# -- servers that stay ------------------------------------------------------------------------------------------------


def learned_through(cluster: Cluster, node: int) -> tuple[int, int]:
    """First unlearned position of this node's replica, and its known SEAL."""
    provider = cluster.nodes[NodeId(node)].provider
    assert provider is not None and provider.replicas is not None
    (replica,) = provider.replicas.replicas
    return replica.core.learned, replica.core.seal


async def closed_without(cluster: Cluster, node: int, hears_of: Callable[[int], bool]) -> PaxosLoglet:
    """A sealed log on nodes 1 to 3; this one was away when it was written, but for the positions that it has heard of."""
    loglet = cluster.client()
    session = writer(loglet)
    await session.append(ENTRIES[0])
    cluster.gate = lambda at, request: (
        at != node
        or not isinstance(request, PaxosWrite | Learn)
        or (isinstance(request, PaxosWrite) and hears_of(request.first))
    )
    for entry in ENTRIES[1:]:
        await session.append(entry)
    await loglet.seal()
    assert await loglet.check_tail() == Sealed(STOP)
    cluster.crash(node)
    cluster.release()
    return loglet


async def test_a_server_that_stays_is_made_whole_as_well(autojump_clock: MockClock) -> None:
    """The chain counts it among the copies. It was away when the log was closed, and those that could tell it more may be
    shut down as soon as the log has moved."""
    async with running_cluster(nodes=5) as cluster:
        cluster.create(coordinator=2)
        await closed_without(cluster, 1, lambda position: False)
        await cluster.start(1)

        pace = Spaced()
        moved = await move(cluster, 1, 4, 5, pace=pace)

        for node in (2, 3, 4, 5):
            cluster.crash(node)
        assert await moved.check_tail() == Sealed(STOP)
        assert await payloads_of(moved) == ENTRIES


async def test_a_server_that_stays_and_has_everything_costs_nothing(autojump_clock: MockClock) -> None:
    """It is asked for its standing, and nothing is copied to it or read back."""
    async with running_cluster(nodes=4) as cluster:
        cluster.create()
        await closed(cluster)
        await cluster.clock.sleep(10)
        before, after = Spaced(), Spaced()
        await move(cluster, 1, 2, 3, pace=before)
        await move(cluster, 1, 2, 4, pace=after)

        assert before.moved == []
        assert len(after.moved) > 0


@pytest.mark.parametrize("hears_of", [lambda position: False, lambda position: position > 12])
async def test_a_server_that_stays_and_comes_back_late_asks_those_of_now(
    autojump_clock: MockClock, hears_of: Callable[[int], bool]
) -> None:
    """It was down while the log moved, and knows it on servers that are gone for good. The chain
    names the current ones. It may see a gap, which it would fill with a quorum that does not
    exist any more, or none."""
    async with running_cluster(nodes=5) as cluster:
        cluster.create(coordinator=2)
        await closed_without(cluster, 1, hears_of)
        moved = await move(cluster, 1, 4, 5)
        cluster.chain = {SegmentId(9, 9): moved.config}
        for node in (2, 3):
            cluster.crash(node)

        await cluster.start(1)
        await cluster.clock.sleep(30)
        assert learned_through(cluster, 1)[1] == NOWHERE
        provider = cluster.nodes[NodeId(1)].provider
        assert provider is not None
        await provider.sweep_loglets(9, [SEGMENT])  # as a node does when it starts, and for each new register
        await cluster.clock.sleep(60)

        assert learned_through(cluster, 1) == (len(ENTRIES) + 2, len(ENTRIES) + 1)
        for node in (4, 5):
            cluster.crash(node)
        assert await payloads_of(moved) == ENTRIES


def test_where_a_log_is() -> None:
    """Healing asks: any of the replicas may order, and the entries go by the id that the log began with."""
    provider = PaxosProvider()
    config = PaxosConfig(replicas=(NodeId(1), NodeId(2), NodeId(3)), coordinator=NodeId(2)).encode()
    moved = provider.move(SEGMENT, config, (NodeId(1), NodeId(2), NodeId(4)))

    placement = provider.placement(config)
    assert (placement.groups, placement.role, placement.sequencers) == (((1, 2, 3),), "replica", ())
    assert provider.loglets(SEGMENT, config) == {SEGMENT: ("paxos", config)}
    assert provider.loglets(attrs.evolve(SEGMENT, version=9), moved) == {SEGMENT: ("paxos", moved)}
    assert provider.describe(moved) == {"replicas": [1, 2, 4], "coordinator": 2, "loglet": str(SEGMENT)}
    with pytest.raises(InvalidSettingError):
        provider.move(SEGMENT, config, (NodeId(1),))
    with pytest.raises(MalformedError):
        provider.placement(b"{}")
