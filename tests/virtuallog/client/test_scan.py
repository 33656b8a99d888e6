"""A scan covers its range exactly, over segments of all kinds, is one piece ahead, and waits for servers only so long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.client.world import World, world
from virtuallog.client.scan import Scan, scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import BeyondTailError, CorruptionError, InvalidSettingError, UnavailableError
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.types import Gap, GapKind, LogletOffset, LogPosition, PlacedBatch

PIECE_BYTES = 200
"""Some entries of these tests."""


@attrs.define(eq=False)
class Watched:
    """A loglet with reads that can be counted, delayed and failed."""

    inner: Loglet
    reads: list[int] = attrs.field(factory=list)
    """Start of each read."""
    error: Exception | None = None
    may_answer: trio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        self.reads.append(start)
        if self.may_answer is not None:
            await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return await self.inner.read(start, stop, max_bytes)


def watched(log: VirtualLog, w: World) -> Watched:
    """Watch the reads of this client from the last loglet."""
    segment = w.register.chain.last
    found = log.view._loglets[segment.id] = Watched(log.view.loglet(segment))
    assert isinstance(found, Watched)
    return found


async def fill(log: VirtualLog, count: int, first: int = 0) -> list[bytes]:
    payloads = [b"entry %d" % number for number in range(first, first + count)]
    for payload in payloads:
        await log.append(payload)
    return payloads


@asynccontextmanager
async def one_segment() -> AsyncIterator[tuple[VirtualLog, Watched, LogPosition]]:
    """A log of 40 entries, its loglet, its tail."""
    async with world() as w:
        await fill(w.client(), 40)
        log = w.client()
        tail = LogPosition((await log.check_tail()).tail)
        yield log, watched(log, w), tail


async def everything(found: Scan) -> list[Placed]:
    return [placed async for piece in found for placed in piece]


def check_cover(items: Sequence[Placed], start: int, stop: int) -> None:
    assert items[0].start == start
    assert items[-1].stop == stop
    assert all(one.stop == following.start for one, following in pairwise(items))


def payloads(items: Sequence[Placed]) -> list[bytes]:
    return [record.payload for item in items if isinstance(item, PlacedBatch) for record in item.records()]


@pytest.mark.parametrize("piece_bytes", [1, PIECE_BYTES, 1 << 20])
async def test_a_scan_covers_its_range_over_segments_of_all_kinds(autojump_clock: MockClock, piece_bytes: int) -> None:
    """For all sizes of pieces: adjacent items from start to stop, fillers and trims as gaps, each entry once."""
    async with world() as w:
        log = w.client()
        first = await fill(log, 10)
        await log.reconfig_extend("sparse")
        second = await fill(log, 10, 10)
        await log.reconfig_extend("memory")
        third = await fill(log, 10, 20)
        tail = LogPosition((await log.check_tail()).tail)
        await log.prefix_trim(LogPosition(4))

        items = await everything(scan(w.client(), LogPosition(0), tail, piece_bytes=piece_bytes))
        check_cover(items, 0, tail)
        assert payloads(items) == first[4:] + second + third
        assert items[0] == Gap(0, 4, GapKind.TRIMMED)
        assert GapKind.FILLER in {item.kind for item in items if isinstance(item, Gap)}

        part = await everything(scan(w.client(), LogPosition(7), LogPosition(tail - 3), piece_bytes=piece_bytes))
        check_cover(part, 7, tail - 3)
        assert payloads(part) == first[7:] + second + third[:-3]


async def test_an_empty_range_asks_nobody(autojump_clock: MockClock) -> None:
    """An empty range, or one that begins past its end, makes no call."""
    async with one_segment() as (log, loglet, _):
        assert await everything(scan(log, LogPosition(5), LogPosition(5))) == []
        assert await everything(scan(log, LogPosition(9), LogPosition(5))) == []
        assert loglet.reads == []


async def test_one_piece_is_on_its_way_while_another_is_worked_on_and_no_more(autojump_clock: MockClock) -> None:
    """A slow consumer holds two pieces; a fast one finds the next piece there."""
    async with one_segment() as (log, loglet, tail):
        found = scan(log, LogPosition(0), tail, piece_bytes=PIECE_BYTES)
        await wait_all_tasks_blocked()
        assert loglet.reads == []
        first = await anext(found)
        await trio.sleep(3)
        assert loglet.reads == [0, first[-1].stop]
        assert found.position == first[-1].stop


async def test_a_scan_that_is_left_needs_no_closing(autojump_clock: MockClock) -> None:
    """It reads the piece that it had begun, and no further."""
    async with one_segment() as (log, loglet, tail):
        async for _ in scan(log, LogPosition(0), tail, piece_bytes=PIECE_BYTES):
            break
        await trio.sleep(100)
        assert len(loglet.reads) == 2


async def test_a_cancelled_wait_loses_no_piece(autojump_clock: MockClock) -> None:
    """After a cancelled wait the next call gets the piece that is still on its way."""
    async with one_segment() as (log, loglet, tail):
        found = scan(log, LogPosition(0), tail, piece_bytes=PIECE_BYTES)
        loglet.may_answer = trio.Event()
        with trio.move_on_after(1):
            await anext(found)
        loglet.may_answer.set()
        check_cover(await everything(found), 0, tail)
        assert loglet.reads == sorted(set(loglet.reads))


async def test_servers_that_come_back_in_time_are_waited_for(autojump_clock: MockClock) -> None:
    """Each piece has the whole patience: only time without progress counts."""
    async with one_segment() as (log, loglet, tail):
        found = scan(log, LogPosition(0), tail, patience=10, piece_bytes=PIECE_BYTES)
        items: list[Placed] = []

        async def fail_now_and_then(nursery: trio.Nursery) -> None:
            while True:
                loglet.error = UnavailableError("no node answers")
                await trio.sleep(8)
                loglet.error = None
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_now_and_then, nursery)
            async for piece in found:
                items += piece
                await trio.sleep(3)
            nursery.cancel_scope.cancel()
        check_cover(items, 0, tail)


async def test_servers_that_stay_away_fail_the_scan_and_it_may_go_on_later(autojump_clock: MockClock) -> None:
    """After the patience the last error is raised; the position has not moved, and the next call tries again."""
    async with one_segment() as (log, loglet, tail):
        found = scan(log, LogPosition(0), tail, patience=10, piece_bytes=PIECE_BYTES)
        first = await anext(found)
        loglet.error = UnavailableError("no node answers")
        began = trio.current_time()
        with pytest.raises(UnavailableError, match="no node answers"):
            await anext(found)
        assert trio.current_time() - began == pytest.approx(10, abs=0.1)
        assert found.position == first[-1].stop
        loglet.error = None
        check_cover([*first, *await everything(found)], 0, tail)


async def test_without_patience_there_is_one_attempt(autojump_clock: MockClock) -> None:
    """An error that a retry cannot cure is raised at once."""
    async with one_segment() as (log, loglet, tail):
        loglet.error = UnavailableError("no node answers")
        with pytest.raises(UnavailableError):
            await anext(scan(log, LogPosition(0), tail, patience=0))
        assert len(loglet.reads) == 1
        loglet.error = CorruptionError("every copy is damaged")
        with pytest.raises(CorruptionError):
            await anext(scan(log, LogPosition(0), tail))
        assert len(loglet.reads) == 2


async def test_what_is_not_there_yet_is_no_part_of_a_scan(autojump_clock: MockClock) -> None:
    """A scan does not wait at the tail, unlike a reader."""
    async with one_segment() as (log, _, tail):
        with pytest.raises(BeyondTailError):
            await everything(scan(log, LogPosition(0), LogPosition(tail + 1)))


@pytest.mark.parametrize("wrong", [{"patience": -1}, {"piece_bytes": 0}])
async def test_settings_of_a_scan_are_checked(wrong: dict[str, int]) -> None:
    """Settings are checked by the call of `scan`, not by the first piece."""
    async with one_segment() as (log, _, tail):
        with pytest.raises(InvalidSettingError):
            scan(log, LogPosition(0), tail, **wrong)
