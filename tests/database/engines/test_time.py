"""Timers fire at one position of the log, even if single clocks are wrong."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Replicas, Running, caught_up, replicas
from virtuallog.contract.errors import OverloadedError, UnsupportedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines import time_engine
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.time_engine import Elapsed, TimeEngine, TimeSettings
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.transaction import StoreTransaction

FAST: StackSettings = attrs.evolve(
    SETTINGS, view=ViewSettings(announce_seconds=1.0), time=TimeSettings(tick_seconds=0.2)
)
RATES = (1.0, 1.0, 1.0)


def time(running: Running) -> TimeEngine:
    found = running.replica.stack.find(TimeEngine)
    assert found is not None
    return found


async def enabled(world: Replicas, rates: tuple[float, ...] = RATES) -> list[Running]:
    running = [await world.start(node, settings=FAST, rate=rate) for node, rate in enumerate(rates, 1)]
    for each in running:
        time(each).on_fired["note"] = note
        await each.propose(b"hello")
    rollout = running[0].replica.stack.find(RolloutEngine)
    assert rollout is not None
    await rollout.enable("time")
    return running


def note(transaction: StoreTransaction, timer: str, position: LogPosition) -> None:
    """Deterministic, like any apply."""
    transaction.put(b"fired/" + timer.encode(), b"%d" % position)


def fired(running: Running, timer: str) -> int | None:
    value = running.application.store.get(b"fired/" + timer.encode())
    return None if value is None else int(value)


async def test_a_timer_fires_at_one_position_everywhere(autojump_clock: MockClock) -> None:
    """Clocks differ and states must not: all hear of it at one entry, not before its time, and forget it."""
    async with replicas() as world:
        running = await enabled(world)
        await time(running[0]).set("note/a", 5.0)
        await trio.sleep(4.5)
        assert [fired(each, "note/a") for each in running] == [None] * 3
        await trio.sleep(1.5)
        await caught_up(*running)
        (position,) = {fired(each, "note/a") for each in running}
        assert position is not None
        assert not time(running[0]).timers()


@pytest.mark.parametrize(
    ("rates", "true_seconds"), [((3.0, 1.0, 1.0), 5.0), ((0.3, 1.0, 1.0), 5.0), ((3.0, 3.0, 1.0), 5.0 / 3)]
)
async def test_a_minority_of_wrong_clocks_decides_nothing(
    rates: tuple[float, ...], true_seconds: float, autojump_clock: MockClock
) -> None:
    """The last case has a majority of clocks that are three times too fast: then nothing helps."""
    async with replicas() as world:
        running = await enabled(world, rates)
        await time(running[0]).set("note/a", 5.0)
        began = trio.current_time()
        while fired(running[2], "note/a") is None:
            assert trio.current_time() - began < 20.0
            await trio.sleep(0.05)
        assert true_seconds <= trio.current_time() - began < true_seconds + 1.5


async def test_a_timer_that_is_set_again_starts_anew_and_a_cancelled_one_never_fires(autojump_clock: MockClock) -> None:
    """Sessions live on this: a report of the timer as it was must not end one that has been heard of since."""
    async with replicas() as world:
        running = await enabled(world)
        await time(running[0]).set("note/a", 4.0)
        await time(running[0]).set("note/b", 4.0)
        await trio.sleep(3.0)
        await time(running[1]).set("note/a", 4.0)
        assert await time(running[2]).cancel("note/b") is True
        assert await time(running[2]).cancel("note/b") is False
        await trio.sleep(3.0)
        assert fired(running[0], "note/a") is None
        await trio.sleep(2.5)
        assert fired(running[0], "note/a") is not None and fired(running[0], "note/b") is None


async def test_each_replica_counts_once_and_for_the_timer_that_is_set(autojump_clock: MockClock) -> None:
    """Reports may come twice, and late."""
    async with replicas() as world:
        running = await enabled(world)
        engine = time(running[0])
        former = await engine.set("note/a", 100.0)
        newer = await engine.set("note/a", 100.0)
        assert await engine.command(Elapsed("note/a", newer, "one")) is False
        assert await engine.command(Elapsed("note/a", newer, "one")) is False
        assert await engine.command(Elapsed("note/a", former, "two")) is False
        assert await engine.command(Elapsed("note/a", newer, "two")) is True
        assert fired(running[0], "note/a") is not None
        assert await engine.command(Elapsed("note/a", newer, "three")) is False


async def test_timers_survive_restarts(autojump_clock: MockClock) -> None:
    """They are in the log, clocks are not: after a restart of all a timer is late, and never early or lost."""
    async with replicas() as world:
        running = await enabled(world)
        await time(running[0]).set("note/a", 4.0)
        await trio.sleep(3.0)
        for index, each in enumerate(running):
            await each.crash()
            running[index] = await world.start(index + 1, each.disk, settings=FAST)
            time(running[index]).on_fired["note"] = note
        await trio.sleep(2.0)
        assert fired(running[0], "note/a") is None, "all of them count anew"
        await trio.sleep(4.0)
        assert fired(running[0], "note/a") is not None


async def test_their_number_is_bounded_and_they_have_to_be_enabled(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers cost every replica memory, and one that is older does not know them; setting one again is no new one."""
    monkeypatch.setattr(time_engine, "TIMERS_MAX", 2)
    async with replicas() as world:
        lonely = await world.start(1, settings=FAST)
        with pytest.raises(UnsupportedError):
            await time(lonely).set("note/a", 1.0)
        rollout = lonely.replica.stack.find(RolloutEngine)
        assert rollout is not None
        await lonely.propose(b"hello")
        await rollout.enable("time")
        await time(lonely).set("note/a", 10.0)
        await time(lonely).set("note/b", 10.0)
        with pytest.raises(OverloadedError):
            await time(lonely).set("note/c", 10.0)
        await time(lonely).set("note/b", 20.0)  # which is there already
