"""Positions by time of day: exact where times never go back, and one of the right answers where they do."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import cast

import pytest
from trio.testing import MockClock

from tests.virtuallog.client.world import world
from virtuallog.client.time_search import find_time
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import Gap, LogPosition, PlacedBatch
from virtuallog.testing.sim.clock import SimulatedClock


async def test_the_first_entry_at_or_after_a_time_is_found(autojump_clock: MockClock) -> None:
    """Over segments, gaps and trims; entries that share a time are found from the first of them on."""
    async with world() as w:
        log, clock = w.client(), w.client().view.environment.clock
        stops: list[int] = []
        for number in range(12):
            await log.append_many([b"a", b"b", b"c"])
            stops.append((await log.check_tail()).tail)
            await clock.sleep(10)
            if number % 4 == 3:
                await log.reconfig_extend("sparse" if number == 3 else "memory")
        await log.prefix_trim(LogPosition(stops[1]))
        found = [item async for item in log.reader(LogPosition(stops[1]), LogPosition(stops[-1])).batches()]
        batches = [item for item in found if isinstance(item, PlacedBatch)]
        assert len(batches) == 10

        for batch in batches:
            for time in (batch.time_ms, batch.time_ms - 1):
                position = await find_time(log, time)
                between = [item for item in found if position <= item.start < batch.start]
                assert position <= batch.start
                assert all(isinstance(item, Gap) for item in between)
        assert await find_time(log, 0) == stops[1]
        assert await find_time(log, batches[-1].time_ms + 1) == (await log.check_tail()).tail


async def test_an_empty_log_has_one_position(autojump_clock: MockClock) -> None:
    """In an empty log it is the position of the first entry."""
    async with world() as w:
        assert await find_time(w.client(), 12345) == 0


async def test_who_cannot_be_asked_is_waited_for_only_so_long(autojump_clock: MockClock) -> None:
    """The search gives up after its patience, like a scan."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")

        async def read(*_: object) -> list[object]:
            raise UnavailableError("no node answers")

        log.read = read  # type: ignore[assignment, method-assign]
        with pytest.raises(UnavailableError):
            await find_time(log, 12345, patience=5)


@pytest.mark.parametrize("seed", range(20))
async def test_where_times_go_back_a_crossing_is_found(seed: int, autojump_clock: MockClock) -> None:
    """Each segment has its own clock. The entry at the position is late enough, the one right before it is not."""
    source = random.Random(seed)
    async with world() as w:
        log = w.client()
        clock = cast(SimulatedClock, log.view.environment.clock)
        clock.wall_offset_seconds = 1000
        for number in range(30):
            await log.append_many([b"a"] * source.randint(1, 5))
            clock.wall_offset_seconds += source.choice([0, 1, 1, 5])
            if number == 15 or source.random() < 0.2:
                clock.wall_offset_seconds -= source.randint(8, 20)
                await log.reconfig_extend(source.choice(["sparse", "memory"]))
        tail = LogPosition((await log.check_tail()).tail)
        found = [item async for item in log.reader(LogPosition(0), tail).batches()]
        batches = [item for item in found if isinstance(item, PlacedBatch)]
        assert any(one.time_ms > following.time_ms for one, following in pairwise(batches))

        for time in {item.time_ms + more for item in batches for more in (0, 1)}:
            position = await find_time(log, time)
            before = [item.time_ms for item in batches if item.start < position]
            after = [item.time_ms for item in batches if item.start >= position]
            assert before[-1:] == [] or before[-1] < time
            assert after[:1] == [] or after[0] >= time
