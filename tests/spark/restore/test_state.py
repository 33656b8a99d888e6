"""The state of a database at a position equals its replicas' state there, from any source, and a
new cluster continues from it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from pyspark_virtuallog.restore.planner import RestoreRequest
from pyspark_virtuallog.restore.range_reader import LiveReader
from pyspark_virtuallog.restore.restoration import Restored, restore
from pyspark_virtuallog.restore.stores import MARK
from tests.database.engines.world import Replicas, Running
from tests.database.replica.test_database import databases, of
from tests.spark.synthetic_log import MadeUp, archived
from virtuallog.contract import chain
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.metrics import Counter
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.engines.core.inherited_state import inherited
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.rocks.directory import open_store_directory
from virtuallog_database.rocks.tables import pairs_of, split_pairs
from virtuallog_database.snapshots.compaction_source import CompactionSource
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.played_store import install, play_up_to
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs
from virtuallog_database.tree.commands import Create, CreateSession, Mode, Operation, Origin, SetData
from virtuallog_loglets.archive.creation.copied_history import copy_history
from virtuallog_loglets.archive.creation.executor import SerialExecutor

NEW = ClusterId(b"n" * 16)


async def write_something(
    one: Running, two: Running, chance: random.Random
) -> Mapping[LogPosition, dict[bytes, bytes]]:
    """Sessions, znodes, versions, sequential names, through two replicas; what the first one had at each cursor on the way."""
    known = {}
    await of(one).proposals.execute(CreateSession(1, b"p" * 16, 4000))
    for number in range(60):
        operations: list[Operation] = [
            Create(f"/n{number}", b"%d" % number),
            SetData(f"/n{chance.randrange(number + 1)}", b"again"),
            Create("/s", b"", mode=Mode.EPHEMERAL_SEQUENTIAL),
        ]
        await of((one, two)[number % 2]).proposals.execute(chance.choice(operations), Origin(1, 1))
        await one.replica.sync()
        known[one.replica.cursor] = dict(one.disk.content.pairs)
    return known


async def play(running: Running, position: LogPosition) -> MemoryDisk:
    """A private store, played up to a position."""
    disk = MemoryDisk()
    await play_up_to(disk.open(), LiveReader(running.log), position)
    return disk


@attrs.frozen
class Story:
    """A written log, and the states of its replicas on the way."""

    log: Kept
    known: Mapping[LogPosition, dict[bytes, bytes]]


@attrs.frozen
class Kept:
    """A log as it was read once."""

    items: Sequence[Placed]

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        return [part for item in self.items if (part := item.clip(start, stop)) is not None]


def told() -> Story:
    """In simulated time."""

    async def tell() -> Story:
        async with databases() as world:
            one, two = await world.start(1), await world.start(2)
            known = await write_something(one, two, random.Random(7))
            items: list[Placed] = []
            while (start := items[-1].stop if items else 0) < max(known):
                items += await LiveReader(one.log).read(start, max(known))
            return Story(Kept(items), known)

    return trio.run(tell, clock=MockClock(autojump_threshold=0))


def of_clients(pairs: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """A state without what engines remember."""
    return {key: value for key, value in pairs.items() if key == CURSOR or key[:1] != b"\0"}


def test_the_state_at_three_positions_is_what_replicas_had_there(tmp_path: Path) -> None:
    """Drawn at random, out of archives alone: the whole store with all its engines, and what is published for a new cluster, without them.
    A server that fetches that has it, to the byte."""
    story, place = told(), tmp_path / "place"

    async def restore_and_compare(position: LogPosition) -> None:
        into, store = tmp_path / str(position), tmp_path / f"store-{position}"
        wanted = RestoreRequest(places=[f"file://{place}"], into=f"file://{into}", position=position, state=True, history=False,
                        store=store)  # fmt: skip
        made = await restore(wanted, random.Random(position))
        assert made.state is not None and made.origin.position == position
        assert made.state.digests == state_digest_of(SortedPairs(of_clients(story.known[position]))).finish()
        assert stored(store) == story.known[position]
        assert await fetched(into, made.origin.cluster) == of_clients(story.known[position])

    async def restore_all() -> None:
        await archived(story.log, place, 0, max(story.known))
        for position in random.Random(8).sample(sorted(story.known), 3):
            await restore_and_compare(position)

    trio.run(restore_all)


def test_a_state_is_restored_from_a_compaction_alone(tmp_path: Path) -> None:
    """The log is gone, one compaction is left: it is restored to where that stands, and to nowhere else."""
    story, first, second = told(), tmp_path / "first", tmp_path / "second"
    position = max(story.known)

    async def restore_twice() -> None:
        await archived(story.log, tmp_path / "place", 0, position)
        wanted = RestoreRequest(
            places=[f"file://{tmp_path / 'place'}"], into=f"file://{first}", state=True, history=False
        )
        former = await restore(wanted, random.Random(1))
        made = await restore(RestoreRequest(places=[f"file://{first}"], into=f"file://{second}"), random.Random(2))
        assert made.former == former.origin.cluster != made.origin.cluster
        assert made.state is not None and former.state is not None
        assert (made.state.digests, made.state.position) == (former.state.digests, position)
        lower = attrs.evolve(wanted, places=[f"file://{first}"], into=f"file://{tmp_path / 'third'}",
                             position=LogPosition(position - 1))  # fmt: skip
        with pytest.raises(InvalidSettingError, match=f"nothing that was named has positions 0 to {position - 2}"):
            await restore(lower, random.Random(3))

    trio.run(restore_twice)


def test_with_its_history_a_state_has_all_that_the_log_says(tmp_path: Path) -> None:
    """Servers of the new cluster may begin with the state, or play the history from its beginning: they must come to the same, engines
    included. Found in a review: the state came without what engines remember, so a server that was wiped later would have differed."""
    story, place, into = told(), tmp_path / "place", tmp_path / "into"
    position = sorted(story.known)[-10]

    async def restore_both() -> None:
        await archived(story.log, place, 0, max(story.known))
        wanted = RestoreRequest(
            places=[f"file://{place}"], into=f"file://{into}", position=position, state=True, history=True
        )
        made = await restore(wanted, random.Random(1))
        assert made.history is not None and made.history.config.stop == position
        assert await fetched(into, made.origin.cluster) == story.known[position]

    trio.run(restore_both)


def test_two_at_a_time_make_one_state(tmp_path: Path) -> None:
    """The same command was given twice: each plays in a directory of its own, and one of them publishes what both end with."""
    story, place, into = told(), tmp_path / "place", tmp_path / "into"
    wanted = RestoreRequest(places=[f"file://{place}"], into=f"file://{into}", state=True, history=False)
    made = list[Restored]()

    async def attempt(seed: int) -> None:
        made.append(await restore(wanted, random.Random(seed)))

    async def restore_twice() -> None:
        await archived(story.log, place, 0, max(story.known))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, 1)
            nursery.start_soon(attempt, 2)
        assert made[0] == made[1]
        assert await fetched(into, made[0].origin.cluster) == of_clients(story.known[max(story.known)])

    trio.run(restore_twice)


def test_a_damaged_compaction_is_passed_over(tmp_path: Path) -> None:
    """The log from its beginning says as much. Alone, it is refused, and nothing is left that a cluster would take."""
    story, place, damaged = told(), tmp_path / "place", tmp_path / "damaged"
    position = max(story.known)

    async def restore_beside_it() -> None:
        await archived(story.log, place, 0, position)
        wanted = RestoreRequest(places=[f"file://{place}"], into=f"file://{damaged}", position=sorted(story.known)[9], state=True,
                        history=False)  # fmt: skip
        former = await restore(wanted, random.Random(1))
        (table, *_) = sorted((damaged / "compacted").glob("*/*.sst"))
        content = bytearray(table.read_bytes())
        content[20] ^= 1
        table.write_bytes(content)
        log = [f"file://{await renamed(story.log, tmp_path / 'renamed', former.origin.cluster, position)}"]
        into = f"file://{tmp_path / 'into'}"
        both = RestoreRequest(places=[f"file://{damaged}", *log], into=into, position=position)
        made = await restore(both, random.Random(2))
        assert made.state is not None and made.state.position == position
        with pytest.raises(UnavailableError, match="is not what its checksum says"):
            await restore(
                attrs.evolve(both, places=[f"file://{damaged}"], into=f"{into}-2", position=None), random.Random(3)
            )

    trio.run(restore_beside_it)
    assert not list(tmp_path.glob("into-2/origin.json"))


def test_a_store_of_something_else_is_not_played_into(tmp_path: Path) -> None:
    """A directory of RocksDB does not say whose state it has; one that a restore has made says so beside it."""
    store = tmp_path / "store"

    async def restore_into_it() -> None:
        await archived(MadeUp(), tmp_path / "place", 0, 100)
        wanted = RestoreRequest(places=[f"file://{tmp_path / 'place'}"], into=f"file://{tmp_path / 'into'}", state=True,
                        history=False, store=store)  # fmt: skip
        await (await open_store_directory(store)).close()
        with pytest.raises(InvalidSettingError, match="has something else"):
            await restore(wanted, random.Random(1))
        (store / MARK).write_text("ab" * 16)
        with pytest.raises(InvalidSettingError, match="has something else"):
            await restore(wanted, random.Random(1))

    trio.run(restore_into_it)


async def test_a_new_cluster_goes_on_from_it(autojump_clock: MockClock) -> None:
    """Its log begins where the state ends. Servers find what was written before, refuse what contradicts it, and agree."""
    async with databases() as world:
        one, two = await world.start(1), await world.start(2)
        await write_something(one, two, random.Random(8))
        await of(one).proposals.execute(Create("/last", b"before"))
        disk = await play(one, one.replica.cursor)
        begun, count = disk.content.pairs, read_cursor(disk.content)
    async with databases() as world:
        begin_at(world, count)
        three, four = await world.start(3, restored(begun)), await world.start(4, restored(begun))
        assert of(three).tree.get_data("/last", ())[0] == b"before"
        result = await of(three).proposals.execute(SetData("/last", b"after", version=0))
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
        await play_up_to(disk.open(), LiveReader(one.log), last)
        assert disk.content.pairs == known[last]


def test_tables_are_cut_by_size() -> None:
    """In order, none empty, nothing lost: as many as it takes, and one for what is small."""
    pairs = [(b"%04d" % number, b"v" * 96) for number in range(100)]
    cut = list(split_pairs(pairs, 1000))
    assert [len(table) for table in cut] == [10] * 10
    assert [pair for table in cut for pair in table] == pairs
    assert list(split_pairs([], 1000)) == []


def begin_at(world: Replicas, position: LogPosition) -> None:
    metastore, register = world.world.metastore, world.world.register
    first = chain.genesis("memory", b"", attempt=1, start=position)
    metastore.values[-1] = attrs.evolve(register, cluster=NEW, chain=first).encode()


def restored(pairs: Mapping[bytes, bytes]) -> MemoryDisk:
    return MemoryDisk(content=SortedPairs(dict(inherited(SortedPairs(dict(pairs))))))


async def renamed(log: Kept, place: Path, cluster: ClusterId, stop: int) -> Path:
    """The log as an archive of the cluster with this id."""
    await copy_history(
        lambda _, files: SerialExecutor(log, files), f"file://{place}", cluster, 0, stop, lambda what, position: None
    )
    return place


async def fetched(into: Path, cluster: ClusterId) -> dict[bytes, bytes]:
    """State of a server that begins with it."""
    place = CompactionStore(f"file://{into}")
    manifest = await place.newest(cluster)
    assert manifest is not None
    source = CompactionSource(
        place=place, manifest=manifest, clock=SystemClock(), fetched=Counter("fetched", "Bytes.")
    )  # fmt: skip
    directory = await open_store_directory(into / "server")
    try:
        await install(directory, source)
    finally:
        await directory.close()
    return stored(into / "server")


def stored(path: Path) -> dict[bytes, bytes]:
    """Pairs in a directory of RocksDB."""
    (store,) = path.glob("generation-*/store")
    return dict(pairs_of(store))
