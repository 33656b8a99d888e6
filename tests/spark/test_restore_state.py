"""The state of a database at a position: what its replicas had there, whatever it is made from, and a new cluster goes on from it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import attrs
from trio.testing import MockClock

from database.engines.cursor import read_cursor
from database.engines.digests import fold_of
from database.engines.keys import CURSOR
from database.kv.commands import Create, CreateSession, Mode, Operation, Origin, SetData
from database.rocks.directory import open_store_directory
from database.rocks.tables import pairs_of
from database.snapshots.place import Place
from database.snapshots.placed import PlacedSource
from database.testing.memory_store import MemoryDisk, SortedPairs
from pyspark_virtuallog.restore.reading import LiveReading
from pyspark_virtuallog.restore.state import Publishing, install, pairs_to_restore, play_up_to, tables
from tests.database.engines.worlds import Replicas, Running
from tests.database.kv.test_database import databases, of
from virtuallog import chain
from virtuallog.clock import SystemClock
from virtuallog.instruments import Counter
from virtuallog.register import ClusterId
from virtuallog.types import LogPosition

NEW = ClusterId(b"n" * 16)


async def write_something(
    one: Running, two: Running, chance: random.Random
) -> Mapping[LogPosition, dict[bytes, bytes]]:
    """Sessions, znodes, versions, sequential names, through two replicas; what the first one had at each cursor on the way."""
    known = {}
    await of(one).execute(CreateSession(1, b"p" * 16, 4000))
    for number in range(60):
        operations: list[Operation] = [
            Create(f"/n{number}", b"%d" % number),
            SetData(f"/n{chance.randrange(number + 1)}", b"again"),
            Create("/s", b"", mode=Mode.EPHEMERAL_SEQUENTIAL),
        ]
        await of((one, two)[number % 2]).execute(chance.choice(operations), Origin(1, 1))
        await one.replica.sync()
        known[one.replica.cursor] = dict(one.disk.content.pairs)
    return known


async def play(running: Running, position: LogPosition) -> MemoryDisk:
    """The store of nobody's, up to a position."""
    disk = MemoryDisk()
    await play_up_to(disk.open(), LiveReading(running.log), position)
    return disk


async def test_the_state_at_three_positions_is_what_replicas_had_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Drawn at random: the whole store with all its engines, and what is published for a new cluster, without them. A server
    that fetches that has it, to the byte."""
    chance = random.Random(7)
    async with databases() as world:
        one, two = await world.start(1), await world.start(2)
        known = await write_something(one, two, chance)
        for position in chance.sample(sorted(known), 3):
            disk = await play(one, position)
            assert disk.content.pairs == known[position]
            manifest = await publish(disk, tmp_path / str(position))
            wanted = {key: value for key, value in known[position].items() if key == CURSOR or key[:1] != b"\0"}
            assert manifest.manifest.digests == fold_of(SortedPairs(wanted)).finish()
            assert await fetched(manifest, tmp_path / str(position)) == wanted


async def test_a_new_cluster_goes_on_from_it(autojump_clock: MockClock) -> None:
    """Its log begins where the state ends. Servers find what was written before, refuse what contradicts it, and agree."""
    async with databases() as world:
        one, two = await world.start(1), await world.start(2)
        await write_something(one, two, random.Random(8))
        await of(one).execute(Create("/last", b"before"))
        disk = await play(one, one.replica.cursor)
        begun, count = disk.content.pairs, read_cursor(disk.content)
    async with databases() as world:
        begin_at(world, count)
        three, four = await world.start(3, restored(begun)), await world.start(4, restored(begun))
        assert of(three).tree.get_data("/last", ())[0] == b"before"
        result = await of(three).execute(SetData("/last", b"after", version=0))
        assert not result.error and three.replica.cursor > count
        await four.replica.sync()
        assert of(four).tree.get_data("/last", ())[0] == b"after"
        assert three.disk.content.pairs == four.disk.content.pairs


async def test_a_store_goes_on_where_it_was_left(autojump_clock: MockClock) -> None:
    """Played in two parts, with a new object in between, as after a kill."""
    async with databases() as world:
        one, two = await world.start(1), await world.start(2)
        known = await write_something(one, two, random.Random(9))
        first, last = sorted(known)[10], max(known)
        disk = await play(one, first)
        await play_up_to(disk.open(), LiveReading(one.log), last)
        assert disk.content.pairs == known[last]


def test_tables_are_cut_by_size() -> None:
    """In order, none empty, nothing lost: as many as it takes, and one for what is small."""
    pairs = [(b"%04d" % number, b"v" * 96) for number in range(100)]
    cut = list(tables(pairs, table_bytes=1000))
    assert [len(table) for table in cut] == [10] * 10
    assert [pair for table in cut for pair in table] == pairs
    assert list(tables([], table_bytes=1000)) == []


def begin_at(world: Replicas, position: LogPosition) -> None:
    metastore, register = world.world.metastore, world.world.register
    first = chain.genesis("memory", b"", attempt=1, start=position)
    metastore.values[-1] = attrs.evolve(register, cluster=NEW, chain=first).encode()


def restored(pairs: Mapping[bytes, bytes]) -> MemoryDisk:
    return MemoryDisk(content=SortedPairs(dict(pairs_to_restore(SortedPairs(dict(pairs))))))


async def publish(disk: MemoryDisk, path: Path) -> PlacedSource:
    (path / "work").mkdir(parents=True)
    place = Place(f"file://{path}")
    manifest = await Publishing(place=place, cluster=NEW, work=path / "work").run(disk.content, time_ms=1)
    assert await place.newest(NEW) == manifest
    return PlacedSource(
        place=place, manifest=manifest, clock=SystemClock(), fetched=Counter("fetched", "Bytes.")
    )  # fmt: skip


async def fetched(source: PlacedSource, path: Path) -> dict[bytes, bytes]:
    """What a server has that begins with it."""
    directory = await open_store_directory(path / "store")
    try:
        await install(directory, source)
    finally:
        await directory.close()
    (store,) = (path / "store").glob("generation-*/store")
    return dict(pairs_of(store))
