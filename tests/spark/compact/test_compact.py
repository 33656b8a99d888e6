"""Compaction: what is folded by Spark is the state that a full replay has, and what is half made is never taken."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
import trio
from pyspark.sql import SparkSession
from trio.testing import MockClock

from pyspark_virtuallog.compact.chunks import SCHEMA, Chunk, chain, chunks, encode, from_parquet, last_time_ms, name_of
from pyspark_virtuallog.compact.cleanup import remove_chunks
from pyspark_virtuallog.compact.merge import Source, WrittenTable, fold, read_sources, write_ranges
from pyspark_virtuallog.compact.publication import ReplayedState, publish
from pyspark_virtuallog.compact.replay import ChunkReplay
from pyspark_virtuallog.compact.start_state import is_continued
from pyspark_virtuallog.spark_errors import explained
from tests.database.engines.test_all_engines import found
from tests.database.engines.world import Running
from tests.database.replica.test_database import databases, of
from tests.loglets.archive.archive_bench import DictFiles
from virtuallog.contract.errors import CorruptionError, UnavailableError, VirtualLogError
from virtuallog.contract.metrics import Counter
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.time_engine import TimeEngine
from virtuallog_database.replica.replay import AppliedEffects
from virtuallog_database.rocks import open_store_directory
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_source import CompactionSource
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.transfer import fetch
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.tree.commands import (  # fmt: skip
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Mode,
    Multi,
    Operation,
    Origin,
    SetData,
)
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles

CLUSTER = b"c" * 16
COMMANDS = 1500
SMALL = 20 << 10
"""Size with which there are several chunks, and several tables."""


def test_chunks_that_are_there_as_a_whole_lead_from_the_base_to_the_store() -> None:
    """Parts without the file that is written last do not count; a hole, or a chunk that goes too far, is not in the chain."""
    names = [name_of(0, 5, 0), name_of(0, 5), name_of(5, 9), name_of(9, 20, 0), name_of(9, 12), "manifest.json"]
    found = chunks(names)
    assert [(chunk.start, chunk.stop, len(chunk.files)) for chunk in found] == [(0, 5, 2), (5, 9, 1), (9, 12, 1)]
    assert [chunk.stop for chunk in chain(found, 0, 12) or ()] == [5, 9, 12]
    assert chain(found, 0, 9) == found[:2] and chain(found, 5, 5) == []
    assert chain(found, 0, 10) is None and chain(found, 1, 9) is None


def test_a_store_goes_on_only_where_nothing_of_its_effects_is_lost() -> None:
    """And only if the log still has what follows."""
    found = chunks([name_of(0, 5), name_of(5, 9)])
    assert is_continued(found, None, 9, 9) and is_continued([], None, 0, 0)
    assert not is_continued(found, None, 9, 10), "the log begins behind it"
    assert not is_continued(found, None, 8, 0), "it stands where no chunk ends"
    assert not is_continued(found[1:], None, 9, 0), "the first chunk is gone"


def test_effects_come_back_from_a_file_as_they_were() -> None:
    """A row for each key; none at all are a file, too."""
    told = [
        AppliedEffects(LogPosition(3), 17, {b"a": b"1", b"b": None}),
        AppliedEffects(LogPosition(5), 18, {b"a": b"2"}),
    ]
    table = from_parquet(encode(told))
    assert table.schema == SCHEMA
    assert list(zip(*(table.column(name).to_pylist() for name in ("position", "key", "value")), strict=True)) == [
        (3, b"a", b"1"), (3, b"b", None), (5, b"a", b"2")
    ]  # fmt: skip
    assert last_time_ms(encode(told)) == 18 and last_time_ms(encode([])) == 0


@attrs.define(eq=False)
class Story:
    """A log with some thousand commands, what was played of it, and what a replica had on the way."""

    folder: Path
    files: DictFiles = attrs.field(factory=DictFiles)
    known: dict[int, dict[bytes, bytes]] = attrs.field(factory=dict)
    """The whole store, at each position up to which was played."""
    played: list[ReplayedState] = attrs.field(factory=list)

    @property
    def chunks_url(self) -> str:
        return f"file://{self.folder}/chunks"

    @property
    def place(self) -> CompactionStore:
        return CompactionStore(f"file://{self.folder}/place")

    async def tell(self) -> None:
        """Commands through two replicas; in the middle, at random positions, and in the end the log is played on."""
        chance = random.Random(8)
        async with databases() as world:
            one, two = await world.start(1), await world.start(2)
            await trio.sleep(6.0)
            await found(one, RolloutEngine).enable(TimeEngine.name)
            await of(one).proposals.execute(CreateSession(1, b"p" * 16, 4000))
            disk = MemoryDisk()
            for stop in (COMMANDS // 3, 2 * COMMANDS // 3, COMMANDS):
                await write_something((one, two), chance, stop)
                await self.play_up_to(one, disk, chance)

    async def play_up_to(self, running: Running, disk: MemoryDisk, chance: random.Random) -> None:
        await running.replica.sync()
        start, tail = read_cursor(disk.content), running.replica.cursor
        position = LogPosition(chance.randint(start + (tail - start) // 2, tail))
        playing = ChunkReplay(running.log, disk.open(), self.files, chunk_bytes=SMALL)
        await playing.run(position)
        folded = state_digest_of(disk.content)
        self.known[position] = dict(disk.content.pairs)
        self.played.append(
            ReplayedState(
                cluster=CLUSTER, position=position, time_ms=0, engines=(TimeEngine.name,),
                digests=folded.finish(), pairs=folded.pairs,
            )
        )  # fmt: skip

    def sources(self, played: ReplayedState, base: Manifest | None) -> list[Source]:
        names = trio.run(FsspecFiles(self.chunks_url).list)
        linked = chain(chunks(names), 0 if base is None else base.position, played.position)
        assert linked, "there is something to fold"
        found = [Source(self.chunks_url, name) for chunk in linked for name in chunk.files]
        if base is not None:
            at = self.place.location(CLUSTER, base.position)
            found += [Source(at, table.stored, table.checksum, is_base=True) for table in base.tables]
        return found

    def fold(self, spark: SparkSession, played: ReplayedState, base: Manifest | None) -> list[WrittenTable]:
        cursor = CURSOR, played.position.to_bytes(8, "big")
        url = self.place.location(CLUSTER, played.position)
        return fold(spark, self.sources(played, base), cursor, url, ranges=3, table_bytes=SMALL)

    def publish(self, played: ReplayedState, written: Sequence[WrittenTable]) -> Manifest:
        return trio.run(publish, self.place, played, written, self.folder / "work")


async def write_something(replicas: Sequence[Running], chance: random.Random, stop: int) -> None:
    """Everything whose effect depends on what was before."""
    done = trio.Event()
    for number in range(stop - COMMANDS // 3, stop):
        name = f"/n{chance.randrange(400)}"
        operations: list[Operation] = [
            Create(name, b"%d" % number), Create(name, b"%d" % number), SetData(name, b"x" * chance.randrange(200)),
            SetData(name, b"if it has changed", version=3), Delete(name),
            Create("/s", b"", mode=Mode.PERSISTENT_SEQUENTIAL), Create("/e", b"", mode=Mode.EPHEMERAL_SEQUENTIAL),
            Multi((Create(name, b""), SetData("/n1", b"both or none"))),
        ]  # fmt: skip
        of(replicas[number % 2]).proposals.submit(chance.choice(operations), Origin(1, 1), lambda _: None)
        if number % 64 == 0:
            await trio.sleep(0.05)
    of(replicas[1]).proposals.submit(ExpireSessions(((1, 0),)), Origin(), lambda _: done.set())
    await done.wait()
    await of(replicas[0]).proposals.execute(CreateSession(1, b"p" * 16, 4000))


@pytest.fixture(scope="module")
def told() -> Story:
    made = Story(Path())
    trio.run(made.tell, clock=MockClock(autojump_threshold=0))
    return made


@pytest.fixture
def story(told: Story, tmp_path: Path) -> Story:
    """With files of its own."""
    (tmp_path / "chunks").mkdir()
    for name, content in told.files.content.items():
        (tmp_path / "chunks" / name).write_bytes(content)
    return attrs.evolve(told, folder=tmp_path)


async def fetched(place: CompactionStore, manifest: Manifest, path: Path) -> dict[bytes, bytes]:
    """State of a server that begins with it."""
    directory = await open_store_directory(path)
    source = CompactionSource(place=place, manifest=manifest, clock=SystemClock(), fetched=Counter("x", "x"))
    await fetch(source, directory.staging)
    await directory.staging.install()
    store = await directory.open()
    pairs = dict(store.scan((b"", b"\xff" * 64), 1 << 20))
    await directory.close()
    return pairs


def fold_here(story: Story, played: ReplayedState, base: Manifest | None) -> list[WrittenTable]:
    """Spark's work, by a dictionary: the same functions read and write."""
    sources = story.sources(played, base)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(sources)))})
    newest: dict[bytes, tuple[int, bytes | None]] = {CURSOR: (-1, played.position.to_bytes(8, "big"))}
    for batch in read_sources(sources, iter([numbers])):
        for row in batch.to_pylist():
            newest[row["key"]] = max(
                newest.get(row["key"], (-2, b"")), (row["position"], row["value"]), key=position_in
            )
    pairs = [{"key": key, "value": value} for key, (_, value) in sorted(newest.items()) if value is not None]
    batches = pa.Table.from_pylist(pairs).to_batches(max_chunksize=50)
    url = story.place.location(CLUSTER, played.position)
    return [WrittenTable(**row) for batch in write_ranges(url, SMALL, iter(batches)) for row in batch.to_pylist()]


def position_in(row: tuple[int, bytes | None]) -> int:
    return row[0]


def test_effects_over_the_last_compaction_are_the_state_of_a_full_replay(story: Story, tmp_path: Path) -> None:
    """Without Spark: a store that was put together from tables has every pair, and is what a server begins with."""
    base: Manifest | None = None
    for number, played in enumerate(story.played):
        base = story.publish(played, fold_here(story, played, base))
        assert base.position == played.position and base.digests == played.digests
        assert trio.run(fetched, story.place, base, tmp_path / str(number)) == story.known[played.position]


@pytest.mark.long
def test_what_spark_folds_is_the_same(spark: SparkSession, story: Story) -> None:
    """From the beginning, and over the last compaction: table by table sorted, and published as any other."""
    base: Manifest | None = None
    for played in story.played[:2]:
        written = story.fold(spark, played, base)
        assert len(written) > 1, "several tables, which are in order"
        base = story.publish(played, written)
        assert trio.run(story.place.newest, CLUSTER) == base
        assert base.digests == played.digests and base.pairs == len(story.known[played.position])
        listed = trio.run(story.place.files(CLUSTER, base.position).list)
        assert set(listed) == {each.stored for each in base.store} | {each.stored for each in base.tables}
    assert base is not None and not (story.folder / "work").exists()
    damage(story.folder / "place" / "compacted" / f"{CLUSTER.hex()}-{base.position:020d}" / base.tables[0].stored)
    with pytest.raises(VirtualLogError, match="not what its checksum says"), explained():
        story.fold(spark, story.played[2], base)


def test_what_is_damaged_is_not_published(story: Story) -> None:
    """A chunk, or a file that a task has written: an error that says which; the place has nothing new."""
    first = story.played[0]
    written = fold_here(story, first, None)
    files = story.folder / "place" / "compacted" / f"{CLUSTER.hex()}-{first.position:020d}"
    damage(files / written[0].sst)
    with pytest.raises(CorruptionError, match="not what a task has written"):
        story.publish(first, written)
    damage(next((story.folder / "chunks").iterdir()))
    with pytest.raises(CorruptionError, match="cannot be read"):
        fold_here(story, story.played[2], None)
    assert trio.run(story.place.positions, CLUSTER) == []


def test_a_state_that_is_not_that_of_the_replay_is_not_published(story: Story) -> None:
    """As if a chunk were missing, or Spark had folded wrongly: the digests tell which part; tables that overlap are none."""
    first = story.played[0]
    written = fold_here(story, first, None)
    wrong = attrs.evolve(first, digests={**first.digests, "keys 6e": "00"})
    with pytest.raises(CorruptionError, match="keys 6e"):
        story.publish(wrong, written)
    with pytest.raises(CorruptionError, match="overlap"):
        story.publish(first, [*written, written[0]])
    assert trio.run(story.place.newest, CLUSTER) is None


class Killed(BaseException):
    """Kill of a process, at one of its changes."""


@attrs.define
class Fate:
    """Kills who makes a change for the n-th time, before it or behind it."""

    left: int
    behind: bool

    def meet(self, *, behind: bool) -> None:
        if behind == self.behind:
            self.left -= 1
            if self.left == 0:
                raise Killed


class MortalFiles(FsspecFiles):
    """Files where a fate waits at each change."""

    def __init__(self, fate: Fate, url: str) -> None:
        super().__init__(url)
        self.fate = fate

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        self.fate.meet(behind=False)
        written = await super().write(name, content, replace=replace)
        self.fate.meet(behind=True)
        return written

    async def delete(self, name: str) -> None:
        self.fate.meet(behind=False)
        await super().delete(name)
        self.fate.meet(behind=True)


@pytest.mark.parametrize("behind", [False, True])
def test_publishing_may_be_killed_at_every_change(story: Story, tmp_path: Path, behind: bool) -> None:
    """Before the manifest there is nothing, with it there is all; and the next attempt ends with what was meant, and nothing else."""
    first = story.played[0]
    for changes in range(1, 100):
        folder = tmp_path / str(changes)
        (folder / "chunks").parent.mkdir()
        (folder / "chunks").symlink_to(story.folder / "chunks")
        here = attrs.evolve(story, folder=folder)
        fate = Fate(changes, behind)
        mortal = CompactionStore(here.place.url, partial(MortalFiles, fate))
        written, was_killed = fold_here(here, first, None), False
        try:
            trio.run(publish, mortal, first, written, folder / "work")
        except Killed:
            was_killed = True
        found = trio.run(here.place.newest, CLUSTER)
        if found is not None:
            assert trio.run(fetched, here.place, found, folder / "at once") == story.known[first.position]
        manifest = here.publish(first, fold_here(here, first, None))
        assert trio.run(fetched, here.place, manifest, folder / "store") == story.known[first.position]
        named = {each.stored for each in manifest.store} | {each.stored for each in manifest.tables}
        assert set(trio.run(here.place.files(CLUSTER, first.position).list)) == named
        if not was_killed:
            assert changes > 3, "files of a store, and a manifest, were written"
            return
    raise AssertionError("there is no end of changes")


async def test_chunks_may_be_lost_or_written_twice(autojump_clock: MockClock) -> None:
    """The replay is killed before or behind the n-th file, and unflushed writes of the store are
    gone: the same effects come of it, and the same store, for any chunks that exist then."""
    async with databases() as world:
        one = await world.start(1)
        await trio.sleep(6.0)
        for number in range(60):
            of(one).proposals.submit(Create(f"/n{number}", b"x" * 100), Origin(1, 1), lambda _: None)
            await trio.sleep(0.01)
        await one.replica.sync()
        stop, chance = one.replica.cursor, random.Random(3)
        whole, disk = DictFiles(), MemoryDisk()
        await play(one, disk, whole, range(7, stop + 7, 7))
        expected = dict(disk.content.pairs)
        assert len(whole.content) > 5
        for kill in range(1, len(whole.content) + 1):
            files, disk = DictFiles(before_write=dying_at(kill)), MemoryDisk()
            with pytest.raises(UnavailableError):
                await play(one, disk, files, range(7, stop + 7, 7))
            disk.crash(chance)
            files.before_write = lambda name: None
            cursor = read_cursor(disk.content)
            assert is_continued(chunks(files.content), None, cursor, 0)
            await remove_chunks(files, partial(is_behind, cursor))
            await play(one, disk, files, range(5, stop + 5, 5))
            assert disk.content.pairs == expected
            assert effects_in(files, stop) == effects_in(whole, stop)


async def play(running: Running, disk: MemoryDisk, files: DictFiles, stops: Sequence[int]) -> None:
    """Up to the end of the log, a chunk up to each of these positions."""
    playing = ChunkReplay(running.log, disk.open(), files)
    for stop in stops:
        if stop > read_cursor(disk.content):
            await playing.run(min(LogPosition(stop), running.replica.cursor))


def is_behind(cursor: int, chunk: Chunk) -> bool:
    return chunk.stop > cursor


def dying_at(number: int) -> Callable[[str], None]:
    """A hook that kills at the n-th write."""
    left = iter(range(number - 1, -1, -1))

    def write(name: str) -> None:
        if next(left) == 0:
            raise UnavailableError("killed")

    return write


def effects_in(files: DictFiles, stop: int) -> list[dict[str, Any]]:
    """Row by row, however they are cut."""
    linked = chain(chunks(files.content), 0, stop)
    assert linked is not None
    rows = [row for chunk in linked for name in chunk.files for row in from_parquet(files.content[name]).to_pylist()]
    return sorted(rows, key=lambda row: (row["position"], row["key"]))


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
