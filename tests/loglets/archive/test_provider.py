"""Archives as a kind: what nodes keep for them and for how long, what puts the hot copy back, what explains them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.loglets.archive.archive_bench import SMALL, ArchivePlace, FixedProvider, Made, batches, make
from tests.loglets.zookeeper.world import running_bench
from tests.virtuallog.client.world import World, contents, world
from tests.virtuallog.reconfiguration.test_retention import at_level
from virtuallog.contract import chain
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    MalformedError,
    UnavailableError,
    UnknownKindError,
    UnsupportedError,
)
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import SupportsDiagnosis, SupportsRetention, SupportsTimedRelease, compose
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import Data, LogletOffset, LogPosition, NodeId
from virtuallog.contract.versions import COMPOSED
from virtuallog.reconfiguration.retention import released_loglets, retained_loglets
from virtuallog_loglets.archive import ArchiveProvider
from virtuallog_loglets.archive.config import HotCopy, decode_untrusted
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.creation.archiver import Archiver, config_to_put_back
from virtuallog_loglets.archive.drivers.trim_markers import marker
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig

HOT = HotCopy(id=SegmentId(3, 5), kind="native", config=b"", base=LogletOffset(0), release_at_ms=5_000)
NATIVE = NativeConfig(servers=(NodeId(1), NodeId(2), NodeId(3)), sequencer=NodeId(1), boot=4)


async def made(nursery: trio.Nursery) -> Made:
    return await make(nursery, batches(6), 100)


async def test_nodes_keep_the_hot_copy_until_its_time_is_over(nursery: trio.Nursery) -> None:
    """Under its own id and with its own config, as if nothing had taken its place; afterwards nothing."""
    found = await made(nursery)
    provider, config = found.provider, found.archived.config
    assert isinstance(provider, SupportsRetention)
    assert isinstance(provider, SupportsTimedRelease)
    assert config.hot is not None
    blob, due = config.encode(), config.hot.release_at_ms

    assert provider.loglets(SegmentId(9, 9), blob) == {found.segment.id: ("fixed", b"hot")}
    assert provider.released(blob, due - 1) is None
    released = provider.released(blob, due)
    assert released is not None
    assert decode_untrusted(released) == attrs.evolve(config, hot=None)
    assert provider.loglets(SegmentId(9, 9), released) == {}
    assert provider.released(released, due + 1) is None
    assert provider.since == COMPOSED


async def test_a_hot_copy_that_was_moved_is_kept_under_the_id_that_it_has_on_its_servers(nursery: trio.Nursery) -> None:
    """The loglets that nodes keep for the kind below count."""
    config = (await made(nursery)).archived.config
    moved = attrs.evolve(NATIVE, loglet=SegmentId(1, 1)).encode()
    provider = ArchiveProvider()
    provider.over({"native": NativeProvider(), "archive": provider})
    blob = attrs.evolve(config, hot=attrs.evolve(HOT, config=moved)).encode()

    assert list(provider.loglets(SegmentId(9, 9), blob)) == [SegmentId(1, 1)]
    for hot in (attrs.evolve(HOT, kind="archive"), attrs.evolve(HOT, kind="banana"), HOT):
        with pytest.raises(MalformedError):
            provider.loglets(SegmentId(9, 9), attrs.evolve(config, hot=hot).encode())


async def test_no_log_goes_on_in_an_archive(nursery: trio.Nursery) -> None:
    """Nothing can be planned: it takes no appends."""
    found = await made(nursery)
    with pytest.raises(InvalidSettingError, match="virtuallog archive"):
        found.provider.plan(Cluster(members=(), planner=NodeId(1)), {}, None)
    assert set(found.provider.describe(found.archived.config.encode())) == {"url", "directory", "hot", "release_at_ms"}
    with pytest.raises(UnknownKindError):
        found.provider.open_hot(attrs.evolve(HOT, kind="banana"), found.environment)


def register(joined: int) -> Register:
    entry = NodeEntry(store_id=b"s" * 16, addresses=(), roles=frozenset(), joined=joined)
    nodes = {NodeId(node): entry for node in (1, 2, 3)}
    return Register(cluster=ClusterId(b"c" * 16), chain=chain.genesis("x", b"", 1), members=(NodeId(1),), nodes=nodes)


def test_the_hot_copy_is_put_back_as_the_loglet_that_it_is() -> None:
    """For a segment with another id; not if a server has a new disk: under a new id the lost copy
    would go unnoticed."""
    hot = attrs.evolve(HOT, config=NATIVE.encode())
    back = NativeProvider().describe(config_to_put_back(NativeProvider(), hot, register(joined=0)))

    assert back["loglet"] == str(hot.id)
    assert back["servers"] == [1, 2, 3]
    with pytest.raises(InvalidSettingError, match="new disks"):
        config_to_put_back(NativeProvider(), hot, register(joined=3))
    other: Any = FixedProvider(None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="cannot be put back"):
        config_to_put_back(other, hot, register(joined=0))


async def test_an_archive_says_what_it_rests_on(nursery: trio.Nursery) -> None:
    """Manifest, files, trims, hot copy; and what is wrong, if something is."""
    found = await made(nursery)
    provider, files, blob = found.provider, found.shelf.only, found.archived.config.encode()
    assert isinstance(provider, SupportsDiagnosis)
    await found.open().prefix_trim(LogletOffset(105))

    evidence = {one.source: one for one in await provider.explain(found.segment.id, blob, found.environment)}
    assert list(evidence) == ["manifest", "data files", "trims", "hot copy", COMBINED]
    assert evidence[COMBINED].facts == {
        "tail": 118, "undecided": 0, "by": ["manifest"], "sealed": True, "trim": 105, "orders": [],
    }  # fmt: skip
    assert evidence["manifest"].facts["entries"] == 18
    assert not any(one.problem for one in evidence.values())

    last = found.archived.manifest.files[-1].name
    for damage, words in ((last, "missing, or of another length"), (manifests.NAME, "there is none")):
        del files.content[damage]
        *_, together = await provider.explain(found.segment.id, blob, found.environment)
        assert words in together.problem
    files.broken = True
    *_, together = await provider.explain(found.segment.id, blob, found.environment)
    assert "does not answer" in together.problem


# -- in a log -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def archiving_world() -> AsyncIterator[tuple[World, ArchivePlace]]:
    """A log of two closed segments with ten entries each and an open one, and a place for archives."""
    async with world() as w:
        shelf, log = ArchivePlace(), w.client()
        w.providers = {**w.providers, "archive": ArchiveProvider(shelf)}
        compose(w.providers)
        await at_level(w, COMPOSED)
        for kind in ("sparse", "memory"):
            for number in range(10):
                await log.append(b"%d" % number)
            await log.reconfig_extend(kind)
        await log.append(b"last")
        yield w, shelf


async def archive(w: World, index: int) -> None:
    """Archive a segment as the command does."""
    log = w.client()
    register, provider = await log.view.refresh(), w.providers["archive"]
    assert isinstance(provider, ArchiveProvider)
    segment, found = register.chain.segments[index], log.view.environment
    work = Archiver(provider=provider, cluster=register.cluster.hex(), url="memory://x", environment=found, sizes=SMALL)
    archived = await work.run(segment, log.view.loglet(segment))
    await log.reconfig_modify(segment.id, "archive", archived.config.encode(), LogletOffset(segment.start))


async def test_readers_go_on_while_segments_are_replaced(autojump_clock: MockClock) -> None:
    """One that is in the middle of a segment, and one that comes later, see the same entries at the same positions."""
    async with archiving_world() as (w, _):
        before = await contents(w.client())
        seen = list[tuple[int, bytes]]()
        reader = w.client().reader(LogPosition(0), LogPosition(before[-1][0] + 1))
        async for record in reader:
            if isinstance(record, Data):
                seen.append((record.position, record.payload))
            if len(seen) in {3, 14} and w.register.chain.segments[len(seen) // 10].kind != "archive":
                await archive(w, len(seen) // 10)

        assert seen == before == await contents(w.client())
        assert [segment.kind for segment in w.register.chain.segments] == ["archive", "archive", "memory"]


async def test_what_is_trimmed_while_it_is_archived_stays_trimmed(autojump_clock: MockClock) -> None:
    """Before the archive was written, and after it was; it is trimmed on like any other segment, and leaves the chain."""
    async with archiving_world() as (w, shelf):
        log = w.client()
        await log.prefix_trim(LogPosition(3))
        register = await log.view.refresh()
        await archive(w, 0)
        assert register.chain.segments[0].kind == "memory"

        assert await w.client().find_trim_point() == 3
        assert await log.prefix_trim(LogPosition(7)) == 7
        assert marker(7) in shelf.only.content
        tail = (await log.check_tail()).tail
        assert await log.prefix_trim(LogPosition(12)) == 12
        assert [segment.kind for segment in w.register.chain.segments] == ["sparse", "memory"]
        assert [name for name in shelf.only.content if name.endswith(".parquet")] == []
        assert (await w.client().check_tail()).tail == tail


async def test_an_archive_that_is_damaged_before_the_put_does_not_get_into_the_chain(autojump_clock: MockClock) -> None:
    """Every change of the chain looks at it first."""
    async with archiving_world() as (w, shelf):
        log = w.client()
        register, provider = await log.view.refresh(), w.providers["archive"]
        assert isinstance(provider, ArchiveProvider)
        segment = register.chain.segments[0]
        work = Archiver(
            provider=provider, cluster=register.cluster.hex(), url="memory://x", environment=log.view.environment
        )
        archived = await work.run(segment, log.view.loglet(segment))
        (name,) = [file.name for file in archived.manifest.files]
        kept = shelf.only.content.pop(name)

        config = archived.config.encode()
        with pytest.raises(CorruptionError):
            await log.reconfig_modify(segment.id, "archive", config)
        shelf.only.broken = True
        with pytest.raises(UnavailableError):
            await log.reconfig_modify(segment.id, "archive", config)
        assert w.register == register
        shelf.only.broken, shelf.only.content[name] = False, kept
        assert (await log.reconfig_modify(segment.id, "archive", config)).chain.segments[0].kind == "archive"


async def test_a_damaged_archive_can_be_undone(autojump_clock: MockClock) -> None:
    """Reads come from the hot copy meanwhile, and trims work; afterwards the files are no longer asked."""
    async with archiving_world() as (w, shelf):
        before = await contents(w.client())
        closed = w.register.chain.segments[1]
        await archive(w, 1)
        shelf.only.content.clear()
        assert await contents(w.client()) == before
        assert await w.client().find_trim_point() == 0

        archived = w.register.chain.segments[1]
        assert archived.kind == "archive"
        w.providers = {**w.providers, "sparse": Named(w.providers["sparse"], closed.id)}
        compose(w.providers)
        await w.client().reconfig_modify(archived.id, "sparse", b"named", closed.base)
        assert await contents(w.client()) == before


async def test_a_closed_log_that_ends_with_an_archive_goes_on_with_another_kind(autojump_clock: MockClock) -> None:
    """A log that was closed on purpose goes on only by an explicit kind, and an archive cannot be it."""
    async with archiving_world() as (w, _):
        log = w.client()
        await log.seal()
        await archive(w, 2)
        with pytest.raises(InvalidSettingError, match="takes no appends"):
            await log.reconfig_extend("archive")
        w.nursery.start_soon(w.client().watchdog.run)
        await trio.sleep(600)  # noqa: TID251 -- on a mock clock
        assert w.register.chain.active is None
        await log.reconfig_extend("memory")
        await log.append(b"goes on")
        assert (await contents(w.client()))[-1][1] == b"goes on"


async def test_a_segment_in_a_zookeeper_is_archived_and_put_back(autojump_clock: MockClock) -> None:
    """With the places that its slots leave empty. Put back it is the same loglet under another id: it is not freed when the archive
    leaves the chain, archived once more, and freed when nothing names it any more."""
    async with running_bench() as bench, archiving_world() as (w, _):
        provider = bench.provider
        w.providers = {**w.providers, "zookeeper": provider}
        compose(w.providers)
        log = w.client()
        await log.reconfig_extend("zookeeper", {"hosts": "zookeeper:2181"})
        for number in range(5):
            await log.append(b"in ZooKeeper, %d" % number)
        await log.reconfig_extend("memory")
        before, closed = await contents(log), w.register.chain.segments[3]
        for _ in range(2):
            await archive(w, 3)
            assert await contents(w.client()) == before
            hot = decode_untrusted(w.register.chain.segments[3].config).hot
            assert hot is not None
            archived = w.register
            blob = config_to_put_back(provider, hot, archived)
            await w.client().reconfig_modify(archived.chain.segments[3].id, "zookeeper", blob, hot.base)
            assert await contents(w.client()) == before
            assert released_loglets(archived.chain, w.register.chain, w.providers) == {}
        last = w.register.chain.segments[3]
        assert last.id != closed.id
        assert provider.describe(last.config)["loglet"] == str(closed.id)
        assert list(retained_loglets(last, w.providers) or {}) == [closed.id]


@attrs.define
class Named:
    """A kind whose config names its loglet."""

    _provider: Any
    _loglet: SegmentId

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        found: Loglet = self._provider.open(self._loglet if config == b"named" else segment, b"", environment)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)
