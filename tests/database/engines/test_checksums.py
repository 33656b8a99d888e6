"""Replicas whose states differ find out, and the one that is wrong stops."""

from __future__ import annotations

import gc
import weakref

import attrs
import trio
from trio.testing import MockClock

from tests.database.engines.world import ITEMS, SETTINGS, Running, caught_up, replicas
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.testing.sim.process import Process
from virtuallog_database.engines.checksums import ROUNDS_MAX, ChecksumEngine, ChecksumSettings, Report, begin, report
from virtuallog_database.engines.core.keys import section_span
from virtuallog_database.engines.core.state_digests import StateDigest, differences, majority
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.ports import StoreReader
from virtuallog_database.testing.memory_store import MemoryDisk, MemoryStore
from virtuallog_database.transaction import StoreTransaction

QUIET = ChecksumSettings(first_seconds=1000.0)
FAST: StackSettings = attrs.evolve(SETTINGS, view=ViewSettings(announce_seconds=1.0), checksums=QUIET)
SOON = 3.0


def checksums(running: Running) -> ChecksumEngine:
    found = running.replica.stack.find(ChecksumEngine)
    assert found is not None
    return found


@attrs.define(eq=False)
class RememberingDisk(MemoryDisk):
    """A disk whose store knows which of its snapshots are still there."""

    snapshots: list[weakref.ref[StoreReader]] = attrs.field(factory=list)

    def open(self, process: Process | None = None, clock: Clock | None = None) -> MemoryStore:
        return RememberingStore(self, process, clock, made=self.snapshots)


@attrs.define(eq=False)
class RememberingStore(MemoryStore):
    """A store that remembers the snapshots that were made."""

    made: list[weakref.ref[StoreReader]] = attrs.field(kw_only=True)

    def snapshot(self) -> StoreReader:
        snapshot = MemoryStore.snapshot(self)
        self.made.append(weakref.ref(snapshot))
        return snapshot


def agreed(running: Running) -> int:
    """Position of the last comparison in which it agreed with the majority."""
    return {family.name: family.samples[0].value for family in checksums(running).metrics()}[
        "virtuallog_database_checksum_agreed_position"
    ]  # type: ignore[return-value]


async def test_replicas_with_the_same_state_agree(autojump_clock: MockClock) -> None:
    """Equal replicas agree also while others write: the states at one position are compared."""
    async with replicas() as world, trio.open_nursery() as nursery:
        running = [await world.start(node, settings=FAST) for node in (1, 2, 3)]

        async def load(each: Running) -> None:
            while True:
                await each.propose(b"x")
                await trio.sleep(0.1)

        for each in running:
            nursery.start_soon(load, each)
        await trio.sleep(SOON)
        for _ in range(ROUNDS_MAX + 2):
            position = await checksums(running[0]).compare()
            await trio.sleep(0.5)
            assert [agreed(each) for each in running] == [position] * 3
        nursery.cancel_scope.cancel()
        assert len(running[0].application.store.scan(section_span("checksums"), 100)) <= ROUNDS_MAX * 4


async def test_the_one_that_differs_stops_and_says_where(autojump_clock: MockClock) -> None:
    """Against a majority it is wrong: it stops before clients read more of it, and names the keys to look at."""
    async with replicas() as world:
        running = [await world.start(node, settings=FAST) for node in (1, 2, 3)]
        for each in running:
            await each.propose(b"item")
        await caught_up(*running)
        running[1].application.store.write({ITEMS[0] + bytes(8): b"a bit has flipped"})
        await checksums(running[0]).compare()
        await trio.sleep(SOON)
        failure = running[1].failure
        assert isinstance(failure, CorruptionError)
        assert "keys 69" in str(failure) and "engine" not in str(failure)
        assert not running[0].ended.is_set() and not running[2].ended.is_set()


async def test_a_replica_that_is_restarted_with_a_wrong_state_is_found_soon(autojump_clock: MockClock) -> None:
    """The first comparison is due soon after a start, when a disk has had its chance, and not after a whole period."""
    settings = attrs.evolve(FAST, checksums=ChecksumSettings(first_seconds=2.0, period_seconds=100.0))
    async with replicas() as world:
        running = [await world.start(node, settings=settings) for node in (1, 2, 3)]
        for each in running:
            await each.propose(b"item")
        await trio.sleep(10.0)
        assert all(agreed(each) for each in running), "they compare by themselves"
        await running[1].crash()
        running[1].disk.content.change(ITEMS[0] + bytes(8), b"a bit has flipped")
        back = await world.start(2, running[1].disk, settings=settings)
        await trio.sleep(20.0)
        assert isinstance(back.failure, CorruptionError)


async def test_two_replicas_that_differ_go_on_because_nobody_knows_who_is_right(autojump_clock: MockClock) -> None:
    """Stopping both would end the service, stopping one might keep the wrong one: people have to look."""
    async with replicas() as world:
        running = [await world.start(node, settings=FAST) for node in (1, 2)]
        for each in running:
            await each.propose(b"item")
        await caught_up(*running)
        running[1].application.store.write({ITEMS[0] + bytes(8): b"a bit has flipped"})
        await checksums(running[0]).compare()
        await trio.sleep(SOON)
        assert [agreed(each) for each in running] == [0, 0]
        assert not any(each.ended.is_set() for each in running)


async def test_one_that_comes_late_is_judged_by_those_who_were_there(autojump_clock: MockClock) -> None:
    """It was down during the comparison. It plays it later, on the same position, with what the others have said."""
    async with replicas() as world:
        running = [await world.start(node, settings=FAST) for node in (1, 2, 3)]
        for each in running:
            await each.propose(b"item")
        await caught_up(*running)
        await running[2].crash()
        running[2].disk.content.change(ITEMS[0] + bytes(8), b"a bit has flipped")
        await checksums(running[0]).compare()
        await trio.sleep(SOON)
        assert agreed(running[0])
        back = await world.start(3, running[2].disk, settings=FAST)
        await trio.sleep(SOON)
        assert isinstance(back.failure, CorruptionError)


async def test_what_was_folded_is_let_go_of(autojump_clock: MockClock) -> None:
    """A snapshot keeps overwritten values on the disk, and the next comparison may be far away."""
    async with replicas() as world:
        disk = RememberingDisk()
        one, two = await world.start(1, disk, settings=FAST), await world.start(2, settings=FAST)
        for each in (one, two):
            await each.propose(b"item")
        await checksums(one).compare()
        await trio.sleep(SOON)
        gc.collect()
        assert agreed(one), "it was folded"
        assert [made() for made in disk.snapshots] == [None]


def test_reports_on_the_newest_few_comparisons_count() -> None:
    """A replica with slow disks folds for longer than some others wait until they compare again; if it is wrong, it is to be found."""
    state = StoreTransaction(MemoryDisk().open())
    for position in range(ROUNDS_MAX + 2):
        begin(state, LogPosition(position))

    def is_judged(position: int) -> bool:
        return any(report(state, Report(LogPosition(position), name, {"keys 69": "1"})) for name in ("a", "b"))

    assert [position for position in range(ROUNDS_MAX + 2) if is_judged(position)] == [2, 3, 4, 5]


def test_a_majority_is_of_all_who_vote() -> None:
    """Missing reports count against both sides: otherwise the first two reports could stop the
    replica that is right."""
    one, other = {"keys 69": "1"}, {"keys 69": "2"}
    assert majority({"a": one}, 1) is None, "one alone proves nothing"
    assert majority({"a": one, "b": one}, 3) == one
    assert majority({"a": one, "b": one}, 4) is None
    assert majority({"a": one, "b": other}, 2) is None
    assert majority({"a": one, "b": other, "c": other}, 1) == other, "more have reported than were there to vote"
    assert majority({"a": one, "b": other, "c": one, "d": other}, 4) is None


def test_digests_tell_lists_of_pairs_apart() -> None:
    """However keys and values are cut into one another."""

    def fold(*pairs: tuple[bytes, bytes]) -> dict[str, str]:
        made = StateDigest()
        made.add(pairs)
        return dict(made.finish())

    assert fold((b"ab", b"c")) != fold((b"a", b"bc"))
    assert fold((b"a", b"1"), (b"b", b"2")) != fold((b"a", b"1"))
    assert differences(fold((b"a", b"1"), (b"b", b"2")), fold((b"a", b"1"))) == ["keys 62"]
    assert fold((b"\0view\0x", b"1")).keys() == {"engine view"}
