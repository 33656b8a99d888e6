"""The log for asyncio, on a log in memory."""

from __future__ import annotations

import asyncio

import pytest

from tests.virtuallog.aio.asyncio_world import asyncio_world, in_asyncio
from virtuallog.aio import AsyncioLog, CompletedError, find_time, scan
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import SealedError, TailMismatchError, TooLargeError, UnavailableError, UnknownKindError
from virtuallog.contract.types import Data, LogPosition, PlacedBatch

START = LogPosition(0)


async def contents(log: AsyncioLog) -> list[bytes]:
    """All payloads from the start to the tail."""
    tail = LogPosition((await log.check_tail()).tail)
    return [record.payload async for record in log.reader(START, tail) if isinstance(record, Data)]


@in_asyncio
async def test_entries_are_appended_and_read() -> None:
    """Each method returns and raises what the trio one does."""
    async with asyncio_world() as w:
        log = w.log
        assert await log.append(b"a") == 0
        assert [*await log.append_many([b"b", b"c"])] == [1, 2]
        assert await log.append_if_tail(b"d", LogPosition(3)) == 3
        with pytest.raises(TailMismatchError):
            await log.append_if_tail(b"e", LogPosition(3))
        assert await contents(log) == [b"a", b"b", b"c", b"d"]
        batches = [placed async for placed in log.reader(START, LogPosition(4)).batches()]
        assert (
            b"".join(data.payload for each in batches if isinstance(each, PlacedBatch) for data in each.records())
            == b"abcd"
        )
        placed = await log.read(START, LogPosition(2))
        assert placed[-1].stop == 2
        assert await log.prefix_trim(LogPosition(1)) == await log.find_trim_point() == 1
        assert (await log.reconfig_extend("sparse")).chain.last.kind == "sparse"
        with pytest.raises(UnknownKindError):
            await log.reconfig_extend("banana")
        assert (await log.statistics()).appends.entries == 4
        assert [family.name for family in await log.metrics()]
        assert await find_time(log, 0) == 1
        assert await log.seal() == await log.register()
        with pytest.raises(SealedError):
            await log.append(b"f")


@in_asyncio
async def test_concurrent_appends_share_batches_and_wake_ups() -> None:
    """Each is in the log once; sixty-four of one turn need far fewer wake-ups than calls."""
    async with asyncio_world() as w:
        before = w.bridge.trio_wake_ups, w.bridge.asyncio_wake_ups
        payloads = [b"%d" % number for number in range(64)]
        places = await asyncio.gather(*map(w.log.append, payloads))
        assert (w.bridge.trio_wake_ups - before[0], w.bridge.asyncio_wake_ups - before[1]) == (1, 1)
        found = await contents(w.log)
        assert [found[place] for place in places] == payloads


@in_asyncio
async def test_entries_are_in_the_order_of_the_calls() -> None:
    """Also those of several tasks of one turn, of one entry or of many."""
    async with asyncio_world() as w:
        for start in range(0, 40, 4):
            calls = [w.log.append(b"%d" % start), w.log.append_many([b"%d" % (start + 1), b"%d" % (start + 2)])]
            await asyncio.gather(*calls, w.log.append(b"%d" % (start + 3)))
        assert await contents(w.log) == [b"%d" % number for number in range(40)]
        assert await w.log.append_many([]) == range(0)


@in_asyncio
async def test_appends_beyond_the_room_of_the_queue_wait() -> None:
    """An append is posted while there is room, and takes a task behind that; an entry that is too large is refused."""
    async with asyncio_world() as w:
        settings = AppenderSettings(queue_bytes_max=1)
        async with w.log.appender(settings) as session:
            places = await asyncio.gather(*(session.append([b"%d" % number]) for number in range(10)))
        assert sorted(place for each in places for place in each) == [*range(10)]
        with pytest.raises(TooLargeError):
            await w.log.append(bytes(settings.entry_bytes_max + 1))


@in_asyncio
async def test_a_session_keeps_the_order_of_its_calls() -> None:
    """It begins and ends with its block."""
    async with asyncio_world() as w:
        session = w.log.appender()
        with pytest.raises(RuntimeError, match="within its block"):
            await session.append([b"early"])
        async with session:
            for number in range(3):
                assert [*await session.append([b"%d" % number])] == [number]
            assert session.session
            assert (session.queued_bytes, session.batches_in_flight) == (0, 0)
            session.close()
            with pytest.raises(UnavailableError, match="ended"):
                await session.append([b"late"])
        assert await contents(w.log) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("is_behind", [False, True], ids=["before the log", "behind the log"])
def test_a_cancelled_append_is_in_the_log_once_or_not_at_all(is_behind: bool) -> None:
    """The caller gets CancelledError without an outcome; the entry gets there later, once, and others with it."""

    @in_asyncio
    async def story() -> None:
        async with asyncio_world() as w:
            gate, arrived = await w.gate(is_behind=is_behind)
            task = asyncio.create_task(w.log.append(b"a"))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert caught.value.__cause__ is None
            w.bridge.post(gate.opened.set)
            assert await w.log.append(b"b") == 1
            assert await contents(w.log) == [b"a", b"b"]
            assert gate.appends == 2

    story()


@in_asyncio
async def test_an_append_that_is_done_when_it_is_cancelled_tells_its_position() -> None:
    """In `__cause__` of the CancelledError, which a TimeoutError has as its own."""
    async with asyncio_world() as w:
        loop, tasks = asyncio.get_running_loop(), list[asyncio.Task[LogPosition]]()

        async def append() -> LogPosition:
            async def and_cancel() -> LogPosition:
                position = await w.log._log.append(b"a")
                loop.call_soon_threadsafe(tasks[0].cancel)
                return position

            return await w.bridge.call(and_cancel)

        tasks.append(asyncio.create_task(append()))
        with pytest.raises(asyncio.CancelledError) as caught:
            await tasks[0]
        cause = caught.value.__cause__
        assert isinstance(cause, CompletedError)
        assert cause.result == 0


@in_asyncio
async def test_a_client_is_closed_while_an_append_is_under_way() -> None:
    """Unknown outcome, as an UnavailableError."""
    async with asyncio_world() as w:
        _, arrived = await w.gate()
        task = asyncio.create_task(w.log.append(b"a"))
        await arrived.wait()
    with pytest.raises(UnavailableError, match="unknown outcome"):
        await task
    assert not w.log.is_open


@in_asyncio
async def test_a_reader_waits_at_the_tail_and_goes_on_where_it_was() -> None:
    """A cancelled step loses no record, and a reader that is left leaves nothing behind."""
    async with asyncio_world() as w:
        reader = w.log.reader()
        records = aiter(reader)
        first = asyncio.ensure_future(anext(records))
        await asyncio.sleep(0)
        await w.log.append_many([b"a", b"b"])
        record = await first
        assert isinstance(record, Data)
        assert (record.payload, reader.position) == (b"a", 1)
        await records.aclose()
        assert [
            each.payload async for each in w.log.reader(reader.position, LogPosition(2)) if isinstance(each, Data)
        ] == [b"b"]
        waiting = asyncio.create_task(w.log.reader(LogPosition(2)).wait_readable())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        late = asyncio.create_task(w.log.reader(LogPosition(2)).wait_readable())
        await w.log.append(b"c")
        assert await late == 3


@in_asyncio
async def test_a_reader_fetches_a_piece_on_each_crossing() -> None:
    """A thousand entries of many batches come with one way to the other thread and back."""
    async with asyncio_world() as w:
        for start in range(0, 1000, 100):
            await w.log.append_many([b"%d" % number for number in range(start, start + 100)])
        before = w.bridge.trio_wake_ups
        found = [record async for record in w.log.reader(START, LogPosition(1000))]
        assert len(found) == 1000
        assert w.bridge.trio_wake_ups - before == 1


@in_asyncio
async def test_a_scan_gives_pieces_and_loses_none() -> None:
    """Adjacent pieces up to the stop; `position` is behind the last one that was handed out."""
    async with asyncio_world() as w:
        for number in range(6):
            await w.log.append(b"%d" % number)
        pieces = scan(w.log, START, LogPosition(6), piece_bytes=1)
        first = await anext(pieces)
        assert (first[0].start, first[-1].stop) == (0, pieces.position)
        cancelled = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        rest = [placed async for piece in pieces for placed in piece]
        assert rest[0].start == first[-1].stop
        assert rest[-1].stop == pieces.position == 6
        assert await asyncio.wait_for(anext(pieces, None), None) is None


@in_asyncio
async def test_a_function_runs_on_the_other_loop() -> None:
    """`run` does more of the log's work with one way there and back."""
    async with asyncio_world() as w:

        async def twice(log: object, payload: bytes, *, suffix: bytes) -> tuple[int, int]:
            trio_log = w.log._log
            assert log is trio_log
            return await trio_log.append(payload), await trio_log.append(payload + suffix)

        assert await w.log.run(twice, b"a", suffix=b"b") == (0, 1)
        assert await contents(w.log) == [b"a", b"ab"]
