"""Tailing readers: ordered, unique, gap-honest, resumable; they follow every reconfiguration."""

from __future__ import annotations

from contextlib import aclosing

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.client.world import active_loglet, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import Data, Gap, GapKind, LogletOffset, LogPosition, Record, Tail


async def collect(log: VirtualLog, into: list[Record], start: int = 0) -> None:
    async for record in log.reader(LogPosition(start)):
        into.append(record)  # noqa: PERF401 -- it never ends


def payloads(records: list[Record]) -> list[bytes]:
    return [record.payload for record in records if isinstance(record, Data)]


async def test_a_parked_reader_follows_every_swap(autojump_clock: MockClock) -> None:
    """Item 13: it learns the stop of a segment from the chain alone, and is never frozen on a stale one."""
    async with world() as w:
        log, reader = w.client(), w.client()
        seen: list[Record] = []
        w.nursery.start_soon(collect, reader, seen)
        for number in range(6):
            await log.append(b"%d" % number)
            await trio.sleep(1)
            assert payloads(seen)[-1] == b"%d" % number
            await log.reconfig_extend("sparse" if number % 2 else "memory")
        assert payloads(seen) == [b"%d" % number for number in range(6)]


async def test_positions_seen_by_a_reader_are_adjacent(autojump_clock: MockClock) -> None:
    """Each position is data or lies in exactly one gap."""
    async with world() as w:
        log = w.client()
        for _ in range(3):
            await log.append_many([b"a", b"b", b"c"])
            await log.reconfig_extend("sparse")
        await log.append(b"d")
        tail = (await log.check_tail()).tail
        at = 0
        async for record in log.reader(LogPosition(0), LogPosition(tail)):
            start, stop = (record.start, record.stop) if isinstance(record, Gap) else (record.position, at + 1)
            assert start == at
            at = stop
        assert at == tail


async def test_a_reader_behind_the_trim_point_gets_a_gap_and_goes_on(autojump_clock: MockClock) -> None:
    """A parked reader observes chain-level trims; the gap says why."""
    async with world() as w:
        log = w.client()
        for _ in range(2):
            await log.append_many([b"a", b"b"])
            await log.reconfig_extend("memory")
        await log.append(b"c")
        await log.prefix_trim(LogPosition(3))
        seen: list[Record] = []
        w.nursery.start_soon(collect, w.client(), seen)
        await trio.sleep(1)

        gaps = [record for record in seen if isinstance(record, Gap)]
        assert {gap.kind for gap in gaps} == {GapKind.TRIMMED}
        assert (gaps[0].start, gaps[-1].stop) == (0, 3)
        assert payloads(seen) == [b"b", b"c"]


async def test_a_reader_ends_with_a_log_closed_on_purpose_and_waits_at_an_open_tail(autojump_clock: MockClock) -> None:
    """An open tail is where a reader waits; a log that is closed on purpose is where it ends."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        seen: list[Record] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, w.client(), seen)
            await trio.sleep(1)
            await log.seal()
        assert payloads(seen) == [b"a"]


async def test_a_reader_resumes_where_another_stopped(autojump_clock: MockClock) -> None:
    """`position` is the whole state of a reader: another one goes on from it without a gap or a repetition."""
    async with world() as w:
        log = w.client()
        await log.append_many([b"%d" % number for number in range(10)])
        first = log.reader(LogPosition(0), LogPosition(4))
        head = [record async for record in first]
        tail = [record async for record in log.reader(first.position, LogPosition(10))]
        assert payloads(head + tail) == [b"%d" % number for number in range(10)]


async def test_a_reader_left_in_the_middle_of_a_batch_resumes_there(autojump_clock: MockClock) -> None:
    """`position` counts records handed out, not records fetched."""
    async with world() as w:
        log = w.client()
        await log.append_many([b"%d" % number for number in range(6)])
        first = log.reader(LogPosition(0), LogPosition(6))
        head: list[Record] = []
        async with aclosing(aiter(first)) as records:
            async for record in records:
                head.append(record)
                assert first.position == len(head)
                if len(head) == 2:
                    break

        again = [record async for record in first]
        assert payloads(head + again) == [b"%d" % number for number in range(6)]


async def test_closed_segments_are_read_without_the_active_one(autojump_clock: MockClock) -> None:
    """The chain has the end of a closed segment: a read of it needs no other servers than its own."""
    async with world() as w:
        await w.client().append_many([b"a", b"b"])
        await w.client().reconfig_extend("sparse")
        reader = w.client()
        await reader.view.refresh()
        reader.view._loglets[w.register.chain.last.id] = Unreachable()  # type: ignore[assignment]

        seen: list[Record] = []
        with trio.move_on_after(5):
            await collect(reader, seen)
        assert payloads(seen) == [b"a", b"b"]


class Unreachable:
    """A loglet without a majority that answers."""

    async def check_tail(self) -> Tail:
        raise UnavailableError("no node answers")

    async def wait_tail(self, past: LogletOffset) -> Tail:
        raise UnavailableError("no node answers")


async def test_a_reader_parked_on_a_sealed_segment_without_successor_finishes_the_change(
    autojump_clock: MockClock,
) -> None:
    """The reconfigurer died: after the grace period the reader itself makes the log go on."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        seen: list[Record] = []
        w.nursery.start_soon(collect, w.client(), seen)
        await wait_all_tasks_blocked()
        await active_loglet(log, w).seal()
        await trio.sleep(5)
        await log.append(b"b")
        await trio.sleep(1)
        assert payloads(seen) == [b"a", b"b"]
