"""Nodes release hot copies after their time, and loglets that are kept elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import World, world
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import Segment, SegmentId, extend, genesis, modify
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, RetainedLoglets, compose
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog.reconfiguration.retention import released_loglets
from virtuallog_loglets.archive.config import ArchiveConfig, HotCopy
from virtuallog_loglets.archive.provider import ArchiveProvider
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider
from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider
from virtuallog_server.node import garbage_collection
from virtuallog_server.node.garbage_collection import FREE_SECONDS, LOOK_SECONDS, TURN_SECONDS, GarbageCollector

HOT = SegmentId(1, 77)


@attrs.define
class ColdProvider(MemoryProvider):
    """Keeps a hot copy until the time in its config; an empty config keeps none."""

    kind: str = "cold"

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        return {HOT: ("far", b"hot")} if config else {}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        """There is one archive, for any segment."""
        return super().open(SegmentId(1, 1), b"", environment)

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        return b"" if config and now_ms >= int(config) else None


@attrs.define
class FarProvider(MemoryProvider):
    """Is kept somewhere else; the place may be gone, or stand still."""

    kind: str = "far"
    freed: list[tuple[SegmentId, bytes]] = attrs.field(factory=list)
    gone: bool = False
    stands_still: bool = False

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        self.freed.append((segment, config))
        if self.stands_still:
            await trio.sleep_forever()
        if self.gone:
            raise UnavailableError("it is gone")


async def passes(seconds: float) -> None:
    await trio.sleep(seconds)  # noqa: TID251 -- on the clock of the test, which jumps


async def with_kinds(w: World) -> FarProvider:
    far = FarProvider()
    w.providers = {**w.providers, "cold": ColdProvider(), "far": far}
    return far


def release_on(w: World, *nodes: int) -> None:
    """Each with its own client, as on a node that follows the register."""
    for node in nodes:
        log = w.client()
        w.nursery.start_soon(log.watchdog.run)
        w.nursery.start_soon(GarbageCollector(NodeId(node), log).run)


async def cold_for(w: World, seconds: float) -> Segment:
    """A closed segment with a hot copy that lives this long."""
    log = w.client()
    await log.append(b"a")
    await log.reconfig_extend("memory")
    closed = w.register.chain.segments[0]
    copy = w.providers["cold"].open(closed.id, b"", log.view.environment)
    await copy.append(Batch.build(SessionId(b"c" * 16), 0, [b"a"]), opens=True)
    await copy.seal()
    release_at = int((log.view.environment.clock.wall() + seconds) * 1000)
    await log.reconfig_modify(closed.id, "cold", str(release_at).encode())
    return w.register.chain.segments[0]


async def test_a_hot_copy_goes_when_its_time_is_over(autojump_clock: MockClock) -> None:
    """Not before; by one change, though every node looks. The copy, which no node kept, is freed where it was."""
    async with world() as w:
        far = await with_kinds(w)
        cold = await cold_for(w, seconds=60)
        release_on(w, 1, 2, 3)

        await passes(60 - LOOK_SECONDS)
        assert w.register.chain.segments[0] == cold
        await passes(3 * LOOK_SECONDS)
        released = w.register
        assert [segment.config for segment in released.chain.segments] == [b"", b""]
        await passes(10 * TURN_SECONDS)
        assert w.register == released
        assert set(far.freed) == {(HOT, b"hot")}


def test_a_loglet_in_zookeeper_is_freed_when_nothing_rests_on_it() -> None:
    """Not while an archive has it as its hot copy, and may give its place back."""
    open_ = extend(genesis("zookeeper", b'{"hosts": "h:1", "root": "/r"}', 7), 10, "native", b"", 8)
    providers: Mapping[str, LogletProvider] = {
        "zookeeper": ZooKeeperProvider(),
        "archive": ArchiveProvider(),
        "native": MemoryProvider(kind="native"),
    }
    compose(providers)
    closed = open_.segments[0]
    archived = ArchiveConfig(
        url="file:///a",
        directory="d",
        start=0,
        stop=10,
        manifest="m",
        cluster="c",
        hot=HotCopy.of(closed, release_at_ms=5),
    )
    kept = modify(open_, closed.id, "archive", archived.encode(), attempt=9)
    cold = providers["archive"]
    assert isinstance(cold, ArchiveProvider)
    config = cold.released(archived.encode(), 5)
    assert config is not None
    released = modify(kept, kept.segments[0].id, "archive", config, attempt=10)

    assert released_loglets(open_, kept, providers) == {}
    assert released_loglets(kept, released, providers) == {closed.id: ("zookeeper", closed.config)}
    assert released_loglets(open_, released, providers) == {closed.id: ("zookeeper", closed.config)}


async def test_the_next_node_does_it_when_the_first_one_is_down(autojump_clock: MockClock) -> None:
    """It waits for its turn, which comes soon."""
    async with world() as w:
        await with_kinds(w)
        await cold_for(w, seconds=0)
        release_on(w, 3)

        await passes(2 * TURN_SECONDS)
        assert w.register.chain.segments[0].config != b""
        await passes(2 * LOOK_SECONDS)
        assert w.register.chain.segments[0].config == b""


async def test_what_leaves_the_chain_is_freed_elsewhere(autojump_clock: MockClock) -> None:
    """Trimmed as a whole, or empty when it was closed; what the chain still has is left alone."""
    async with world() as w:
        far = await with_kinds(w)
        log = w.client()
        await log.reconfig_extend("far")
        release_on(w, 1)
        await log.append(b"a")
        trimmed = w.register.chain.last.id
        await log.reconfig_extend("far")
        empty = w.register.chain.last.id
        await passes(2 * LOOK_SECONDS)
        await log.reconfig_extend("far")
        await log.append(b"b")
        await passes(2 * LOOK_SECONDS)
        assert far.freed == [(empty, b"")]

        await log.prefix_trim(LogPosition(1))
        await passes(2 * LOOK_SECONDS)
        assert far.freed == [(empty, b""), (trimmed, b"")]


async def test_a_place_that_is_gone_keeps_nobody_waiting(autojump_clock: MockClock) -> None:
    """One try, with any outcome: the node continues, and so do the changes behind it."""
    async with world() as w:
        far = await with_kinds(w)
        log = w.client()
        await log.reconfig_extend("far")
        release_on(w, 1)
        await passes(2 * LOOK_SECONDS)
        far.gone = True
        await log.reconfig_extend("far")
        await passes(2 * LOOK_SECONDS)
        far.gone, far.stands_still = False, True
        await log.reconfig_extend("memory")
        await cold_for(w, seconds=0)
        await passes(FREE_SECONDS + 3 * LOOK_SECONDS)

        assert len(far.freed) >= 2
        assert w.register.chain.segments[0].config == b""


async def test_a_place_that_stands_still_keeps_no_hot_copy(autojump_clock: MockClock) -> None:
    """Many loglets of one silent place leave at once: what is due elsewhere waits for one of them, not for all."""
    async with world() as w:
        far = await with_kinds(w)
        far.stands_still = True
        await cold_for(w, seconds=60)
        release_on(w, 1)
        log = w.client()
        for _ in range(5):
            await log.reconfig_extend("far")
            await log.append(b"b")
        await log.reconfig_extend("memory")
        await passes(2 * LOOK_SECONDS)
        for segment in w.register.chain.segments[1:-1]:
            await log.reconfig_modify(segment.id, "cold", b"", LogletOffset(0))
        await passes(60 + FREE_SECONDS + 2 * LOOK_SECONDS)
        assert w.register.chain.segments[0].config == b""

        await passes(5 * (FREE_SECONDS + LOOK_SECONDS))
        assert len(far.freed) == 5 + 1


async def test_no_more_than_some_wait_to_be_freed(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with a late turn remembers the last ones. The others are garbage, unless an earlier node has freed them."""
    monkeypatch.setattr(garbage_collection, "WAITING_MAX", 2)
    async with world() as w:
        far = await with_kinds(w)
        log, left = w.client(), list[SegmentId]()
        await log.reconfig_extend("far")
        release_on(w, 2)
        await passes(2 * LOOK_SECONDS)
        for _ in range(3):
            left.append(w.register.chain.last.id)
            await log.reconfig_extend("far")
            await passes(LOOK_SECONDS)
        await passes(2 * TURN_SECONDS)

        assert [segment for segment, _ in far.freed] == left[1:]
