"""A replay without servers: the same store as that of a replica, and what each entry has done to it."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
import trio
from crc32c import crc32c
from hypothesis import Phase, given, settings
from trio.testing import MockClock

from tests.database.engines.test_all_engines import found
from tests.database.engines.world import Running
from tests.database.replica.test_database import databases, of
from tests.database.tree.test_tree_model import OPERATIONS
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog_database.engines.brain_doctor import BrainDoctorEngine
from virtuallog_database.engines.checksums import ChecksumEngine
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.stack import StackSettings, database_recipe
from virtuallog_database.engines.time_engine import TimeEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.errors import BinaryTooOldError, SnapshotNeededError
from virtuallog_database.replica.replay import AppliedEffects, Replay
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs
from virtuallog_database.tree.commands import Create, CreateSession, Mode, Operation, Origin, SetData

STEPS = st.lists(st.tuples(OPERATIONS, st.integers(0, 3), st.integers(0, 2)), min_size=5, max_size=25)


async def whole_log(running: Running, start: int = 0) -> list[Placed]:
    """Content of the log now, from `start` on."""
    tail = (await running.log.check_tail()).tail
    pieces: list[Placed] = []
    while start < tail:
        pieces += await running.log.read(LogPosition(start), LogPosition(tail), 1 << 20)
        start = pieces[-1].stop
    return pieces


async def at_rest(running: Running) -> Running:
    """Once it has applied all there is."""
    await running.replica.sync()
    return running


def copy_of(running: Running) -> MemoryDisk:
    return MemoryDisk(content=SortedPairs(dict(running.disk.content.pairs)))


def folded(base: MemoryDisk, effects: Sequence[AppliedEffects], cursor: int) -> dict[bytes, bytes]:
    """The result of Spark: the last value of each key, without deleted ones."""
    pairs: dict[bytes, bytes | None] = dict(base.content.pairs)
    for each in effects:
        pairs.update(each.changes)
    kept = {key: value for key, value in pairs.items() if value is not None}
    return {**kept, CURSOR: cursor.to_bytes(8, "big")}


async def engines_work(one: Running, two: Running) -> None:
    """All that is in the log besides commands of the tree."""
    await found(one, ViewTrackingEngine).hold("reader", LogPosition(0))
    await found(one, RolloutEngine).enable(TimeEngine.name)
    await found(two, TimeEngine).set("note/1", 0.2)
    await found(two, ChecksumEngine).compare()
    done = trio.Event()
    found(one, BrainDoctorEngine).operate({b"x brain": b"1"}, lambda _: done.set())
    await done.wait()
    await trio.sleep(2.0)  # until the timer has fired, and both have reported their digests
    await found(one, ViewTrackingEngine).release("reader")


async def play_a_story(steps: Sequence[tuple[Operation, int, int]]) -> None:
    async with databases() as world:
        one, two = await world.start(1), await world.start(2)
        await trio.sleep(6.0)  # until both are in the view
        for session in (1, 2):
            await of(one).proposals.execute(CreateSession(session, b"p" * 16, 4000))
        await of(one).proposals.execute(Create("/e", b"", mode=Mode.EPHEMERAL_SEQUENTIAL), Origin(1, 1))
        await engines_work(one, two)
        known = {}
        for number, (operation, session, pause) in enumerate(steps):
            await of((one, two)[number % 2]).proposals.execute(operation, Origin(session, 1 if session else 0))
            await trio.sleep(pause)
            known[one.replica.cursor] = copy_of(one)
        await at_rest(one)
        known[one.replica.cursor] = copy_of(one)
        middle = sorted(known)[len(known) // 2]
        for base in (MemoryDisk(), known[middle]):
            await compare(base, known, one)


async def compare(base: MemoryDisk, known: dict[LogPosition, MemoryDisk], running: Running) -> None:
    """Replay from `base` on: at each known cursor the store is the replica's, and so are the effects, folded."""
    start, disk = read_cursor(base.content), MemoryDisk(content=SortedPairs(dict(base.content.pairs)))
    replay = Replay(disk.open())
    for cursor in sorted(known):
        if cursor < start:
            continue
        effects = replay.apply(part for piece in await whole_log(running, start) if (part := piece.clip(0, cursor)))
        assert replay.cursor == cursor
        assert disk.content.pairs == known[cursor].content.pairs
        assert state_digest_of(disk.content).finish() == state_digest_of(known[cursor].content).finish()
        assert folded(base, effects, cursor) == disk.content.pairs
        base, start = known[cursor], cursor


@given(STEPS)
@settings(max_examples=5, phases=(Phase.explicit, Phase.generate), deadline=None)
def test_a_replay_is_as_the_replicas_at_every_cursor(steps: list[tuple[Operation, int, int]]) -> None:
    """From an empty store and from one in the middle; commands, sessions, holds, timers, comparisons, raw writes."""
    trio.run(play_a_story, steps, clock=MockClock(autojump_threshold=0))


async def test_effects_of_one_entry_are_what_it_did(autojump_clock: MockClock) -> None:
    """At its position, with the time of its batch; a replay says nothing of entries that did nothing."""
    async with databases() as world:
        one = await world.start(1)
        await of(one).proposals.execute(Create("/a", b"1"))
        before = one.replica.cursor
        for value in (b"2", b"3"):
            one.application.proposals.submit(SetData("/a", value), Origin(), lambda _: None)
        await at_rest(one)
        replay = Replay(MemoryDisk().open())
        log = await whole_log(one)
        told = replay.apply(log)
        *_, wrote = [each for each in told if each.position >= before and b"n/a" in each.changes]
        assert b"3" in (wrote.changes[b"n/a"] or b""), "of what one entry has put under a key the last counts"
        assert all(CURSOR not in each.changes for each in told)
        assert wrote.time_ms == next(
            each.time_ms for each in log if isinstance(each, PlacedBatch) and wrote.position in each.places
        )


async def test_the_store_stands_right_behind_the_entry_whose_effects_are_handed_out() -> None:
    """Digests of replicas can be compared at the position that they belong to."""
    replay = Replay(MemoryDisk().open())
    entry = Entry(b"no command", {PROPOSER: bytes(TOKEN_BYTES)}).encode()
    log = [batch(0, entry, entry)]
    assert [(each.position, replay.cursor) for each in replay.play(log)] == [(0, 1), (1, 2)]


def batch(start: int, *payloads: bytes) -> PlacedBatch:
    made = Batch.build(SessionId(b"s" * 16), 0, list(payloads))
    return PlacedBatch(range(start, start + len(payloads)), made, time_ms=5)


async def test_entries_of_others_and_fillers_move_the_cursor() -> None:
    """They do nothing to the database, and are behind it all the same."""
    store = MemoryDisk().open()
    replay = Replay(store)
    assert replay.apply([batch(0, b"a stray", b"another"), Gap(2, 7, GapKind.FILLER)]) == []
    assert (replay.cursor, read_cursor(store), replay.strays.value) == (7, 7, 2)


@pytest.mark.parametrize(
    ("placed", "error"),
    [
        (batch(1, b"x"), CorruptionError),
        (Gap(0, 3, GapKind.TRIMMED), SnapshotNeededError),
        (Gap(0, 3, GapKind.LOST), CorruptionError),
        (batch(0, b"VE\x02\x00" + crc32c(b"VE\x02\x00").to_bytes(4, "little")), BinaryTooOldError),
    ],
)
async def test_what_cannot_be_played_ends_the_replay(placed: Placed, error: type[Exception]) -> None:
    """A hole, what is gone, and what a later program has written: nothing of it is in the store."""
    store = MemoryDisk().open()
    with pytest.raises(error):
        Replay(store).apply([placed])
    assert read_cursor(store) == 0


def without_time(context: LayerContext, settings: StackSettings) -> Sequence[Layer]:
    """The engines of a program that is older."""
    layers = [layer for layer in database_recipe(context, settings) if not isinstance(layer, TimeEngine)]
    for layer in layers:
        if isinstance(layer, RolloutEngine):
            layer.known = tuple(each.name for each in layers)
    return layers


async def test_a_log_that_uses_an_unknown_engine_is_not_played(autojump_clock: MockClock) -> None:
    """The writes of the unknown engine would be missing; a store that has one enabled is not opened, either."""
    async with databases() as world:
        one = await world.start(1)
        await trio.sleep(6.0)
        await found(one, RolloutEngine).enable(TimeEngine.name)
        log = await whole_log(one)

        with pytest.raises(BinaryTooOldError, match="time"):
            Replay(MemoryDisk().open(), without_time).apply(log)
        with pytest.raises(BinaryTooOldError, match="time"):
            Replay(copy_of(one).open(), without_time)
