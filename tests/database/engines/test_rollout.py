"""An engine that is added while entries flow: two phases, and what happens to who leaves one out (case 58 of the specification)."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Running, caught_up, replicas
from virtuallog.contract.errors import CorruptionError, UnsupportedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.checksums import ChecksumEngine, ChecksumSettings
from virtuallog_database.engines.core.enabled_engines import is_enabled
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.rollout import RolloutEngine, RolloutSettings
from virtuallog_database.engines.stack import StackSettings, database_recipe
from virtuallog_database.engines.view_tracking import ViewSettings, ViewTrackingEngine
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.transaction import StoreTransaction

FAST: StackSettings = attrs.evolve(
    SETTINGS,
    view=ViewSettings(announce_seconds=1.0, eject_seconds=8.0),
    checksums=ChecksumSettings(first_seconds=1000.0),
    rollout=RolloutSettings(retry_seconds=1.0),
)
COUNT = section("counting") + b"count"


@attrs.define(eq=False)
class Counting(Layer):
    """The new engine: counts entries in the store, from the entry on at which it is enabled."""

    name: ClassVar[str] = "counting"

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        if self.may_write(transaction):
            transaction.put(COUNT, b"%d" % (int(transaction.get(COUNT) or b"0") + 1))
        return self.apply_above(transaction, entry, position)

    def may_write(self, transaction: StoreTransaction) -> bool:
        return is_enabled(transaction, self.name)


@attrs.define(eq=False)
class Hasty(Counting):
    """Leaves phase 1 out: writes as soon as it is installed."""

    def may_write(self, transaction: StoreTransaction) -> bool:
        return True


def with_engine(kind: type[Layer]) -> Any:
    """The stack of a newer program."""

    def recipe(context: LayerContext, settings: StackSettings) -> list[Layer]:
        layers = [kind(context), *database_recipe(context, settings)]
        for layer in layers:
            if isinstance(layer, ViewTrackingEngine | RolloutEngine):
                layer.known = tuple(each.name for each in layers)
        return layers

    return recipe


def count(running: Running) -> bytes | None:
    found: bytes | None = running.application.store.get(COUNT)
    return found


def rollout(running: Running) -> RolloutEngine:
    found = running.replica.stack.find(RolloutEngine)
    assert found is not None
    return found


async def test_an_engine_is_added_in_two_phases_while_entries_flow(autojump_clock: MockClock) -> None:
    """Servers get the new program one by one; before the last one has it, the engine cannot be
    enabled."""
    async with replicas() as world, trio.open_nursery() as nursery:
        running = [await world.start(node, settings=FAST) for node in (1, 2, 3)]

        async def load() -> None:
            while True:
                for each in running:
                    if not each.ended.is_set():
                        each.application.engine.propose(Entry(b"x"), lambda _: None)
                await trio.sleep(0.2)

        nursery.start_soon(load)
        await trio.sleep(1.5)
        for index in range(3):
            with pytest.raises(UnsupportedError):
                await rollout(running[index]).enable("counting")
            await running[index].crash()
            disk = running[index].disk
            running[index] = await world.start(index + 1, disk, recipe=with_engine(Counting), settings=FAST)
            await trio.sleep(1.5)
        assert [count(each) for each in running] == [None] * 3
        await rollout(running[0]).enable("counting")
        await trio.sleep(1.0)
        nursery.cancel_scope.cancel()
        await caught_up(*running)
        assert len({count(each) for each in running}) == 1 and int(count(running[0]) or b"0") >= 10
        assert len({tuple(each.application.items) for each in running}) == 1


async def test_enabled_it_counts_from_the_same_entry_on_everywhere(autojump_clock: MockClock) -> None:
    """Phase two is an entry: were it a moment, replicas would count different entries and their states would part."""
    async with replicas() as world:
        running = [await world.start(node, recipe=with_engine(Counting), settings=FAST) for node in (1, 2, 3)]
        for each in running:
            await each.propose(b"before")
        await rollout(running[1]).enable("counting")
        for each in running:
            await each.propose(b"after")
        await caught_up(*running)
        assert [count(each) for each in running] == [b"3"] * 3
        await rollout(running[2]).disable("counting")
        await running[0].propose(b"no longer counted")
        await caught_up(*running)
        assert [count(each) for each in running] == [b"3"] * 3


async def test_settings_enable_once_all_know_it(autojump_clock: MockClock) -> None:
    """A rolling upgrade needs no command: the last one that is upgraded sets it off. A command is not undone."""
    settings = attrs.evolve(FAST, rollout=RolloutSettings(enable=("counting",), retry_seconds=1.0))
    async with replicas() as world:
        newer = await world.start(1, recipe=with_engine(Counting), settings=settings)
        older = await world.start(2, settings=FAST)
        await older.propose(b"a")
        await trio.sleep(5.0)
        assert not rollout(newer).switches()
        await older.crash()
        upgraded = await world.start(2, older.disk, recipe=with_engine(Counting), settings=settings)
        await trio.sleep(5.0)
        assert rollout(upgraded).switches() == {"counting": True}

        await rollout(newer).disable("counting")
        await trio.sleep(5.0)
        assert rollout(upgraded).switches() == {"counting": False}, "a command outranks settings"


async def test_an_engine_that_nobody_knows_is_not_switched(autojump_clock: MockClock) -> None:
    """Neither on nor off: switches stay in the state for ever, and there are places for 64. A used
    one may still be switched off when no replica knows it any more."""
    async with replicas() as world:
        newer = await world.start(1, recipe=with_engine(Counting), settings=FAST)
        await newer.propose(b"a")
        await rollout(newer).enable("counting")
        for name in ("cuonting", "cuonting2"):
            with pytest.raises(UnsupportedError):
                await rollout(newer).disable(name)
            with pytest.raises(UnsupportedError):
                await rollout(newer).enable(name)
        assert rollout(newer).switches() == {"counting": True}
        await newer.crash()
        older = await world.start(1, newer.disk, recipe=with_engine(Counting), settings=FAST)
        older.replica.stack.find(ViewTrackingEngine).known = ("base",)  # type: ignore[union-attr]
        await trio.sleep(5.0)
        await rollout(older).disable("counting")
        assert rollout(older).switches() == {"counting": False}


async def test_an_old_program_stops_where_an_engine_is_enabled_that_it_does_not_know(autojump_clock: MockClock) -> None:
    """It was away for so long that it is not in the view, so its engines were not considered."""
    async with replicas() as world:
        newer = await world.start(1, recipe=with_engine(Counting), settings=FAST)
        older = await world.start(2, settings=FAST)
        await older.propose(b"a")
        await older.crash()
        await trio.sleep(3 * FAST.view.eject_seconds)
        await rollout(newer).enable("counting")

        back = await world.start(2, older.disk, settings=FAST)
        await back.ended.wait()
        assert isinstance(back.failure, BinaryTooOldError)
        rollout(newer).known = rollout(older).known  # as if an old program were started on a snapshot of the other one
        with pytest.raises(BinaryTooOldError):
            rollout(newer).load()


async def test_who_leaves_phase_1_out_is_found_by_checksums(autojump_clock: MockClock) -> None:
    """One server writes before it is enabled: its state is another one, and it stops."""
    async with replicas() as world:
        running = [await world.start(node, recipe=with_engine(Counting), settings=FAST) for node in (1, 2)]
        hasty = await world.start(3, recipe=with_engine(Hasty), settings=FAST)
        for each in (*running, hasty):
            await each.propose(b"a")
        checksums = running[0].replica.stack.find(ChecksumEngine)
        assert checksums is not None
        await checksums.compare()
        await trio.sleep(5.0)
        assert isinstance(hasty.failure, CorruptionError)
        assert "engine counting" in str(hasty.failure)
        assert not any(each.ended.is_set() for each in running)
