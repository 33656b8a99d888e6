"""One attempt: its rows are in the log in their order, under one session, or it fails."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as some
from trio.testing import MockClock

from pyspark_virtuallog.markers.marker import MAGIC
from pyspark_virtuallog.write.attempt import SETTINGS, UNDER_WAY_BYTES, Attempt
from pyspark_virtuallog.write.payloads import CHUNK_BYTES, CHUNK_ENTRIES, check_payloads, chunks_of
from tests.virtuallog.client.world import World, active_loglet, contents, world
from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import MalformedError, SealedError, TooLargeError, UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition, PlacedBatch


async def test_rows_keep_their_order_under_one_session(autojump_clock: MockClock) -> None:
    """Many chunks are under way at a time, others write as well, and the chain changes in the middle."""
    async with world() as w:
        log, other = w.client(), w.client()
        rows = [b"%05d" % number for number in range(2000)]
        with log.appender(SETTINGS) as appender:
            made = Attempt(appender)
            for start in range(0, len(rows), 10):
                await made.write(rows[start : start + 10])
                if start % 500 == 0:
                    await other.append(b"of another writer")
                if start == 1000:
                    await other.reconfig_extend("sparse")
            winner = await made.finish()

        assert winner is not None
        found = [(position, row) for position, row in await contents(log) if row[:1].isdigit()]
        assert [row for _, row in found] == rows
        assert (winner.first, winner.last, winner.entries, winner.bytes) == (found[0][0], found[-1][0], 2000, 10_000)
        assert await _sessions(w) == {winner.session: 2000}


async def _sessions(w: World) -> dict[bytes, int]:
    log, counts = w.client(), dict[bytes, int]()
    tail = LogPosition((await log.check_tail()).tail)
    async for placed in log.reader(LogPosition(0), tail).batches():
        if isinstance(placed, PlacedBatch) and b"of another writer" not in placed.batch.payloads:
            counts[placed.batch.session] = counts.get(placed.batch.session, 0) + len(placed.places)
    return counts


async def test_an_attempt_without_rows_has_won_nothing(autojump_clock: MockClock) -> None:
    """There is nothing to be named in a marker."""
    async with world() as w:
        with w.client().appender(SETTINGS) as appender:
            assert await Attempt(appender).finish() is None


async def test_empty_rows_are_rows_and_are_waited_for(autojump_clock: MockClock) -> None:
    """A payload of no bytes is an entry like any other."""
    async with world() as w:
        with w.client().appender(SETTINGS) as appender:
            made = Attempt(appender)
            await made.write([b"", b""])
            winner = await made.finish()

        assert winner is not None
        assert (winner.entries, winner.bytes) == (2, 0)


async def test_no_more_than_a_bound_is_under_way(autojump_clock: MockClock) -> None:
    """A log that stands still makes a task wait instead of grow."""
    async with world() as w:
        log = w.client()
        with log.appender(SETTINGS) as appender:
            made = Attempt(appender)
            with trio.CancelScope() as scope:
                scope.cancel()  # it goes on up to its first wait
                for _ in range(100):
                    await made.write([bytes(CHUNK_BYTES)])
            assert scope.cancelled_caught
            assert appender.queued_bytes <= UNDER_WAY_BYTES


async def test_an_attempt_whose_session_ended_fails_for_good(autojump_clock: MockClock) -> None:
    """It is unknown if its rows are in the log: it must not be one of those that count."""
    async with world() as w:
        log = w.client()
        with log.appender(SETTINGS) as appender:
            made = Attempt(appender)
            await made.write([b"a"])
            await made.finish()
            await active_loglet(log, w).seal()
            await log.seal()
            await made.write([b"b"])
            with pytest.raises(SealedError):
                await made.finish()
            with pytest.raises((SealedError, UnavailableError)):
                await made.write([b"c"])


# -- payloads -------------------------------------------------------------------------------------------------------------


@given(some.lists(some.binary(max_size=40), max_size=60), some.integers(0, 5))
def test_chunks_are_all_rows_in_order(rows: list[bytes], skipped: int) -> None:
    """Wherever Arrow's batches are cut, each row is in one chunk."""
    column = pa.array(rows, pa.binary()).slice(skipped)

    assert [row for chunk in chunks_of(column) for row in chunk] == rows[skipped:]


def test_chunks_are_bounded_and_full() -> None:
    """By entries, by bytes; what is larger than a chunk is alone."""
    chance = random.Random(1)
    rows = [bytes(chance.choice([0, 10, 1000, CHUNK_BYTES // 3, CHUNK_BYTES + 1])) for _ in range(30)]
    chunks = [*chunks_of(pa.array([*rows, *[b"x"] * 2 * CHUNK_ENTRIES], pa.binary()))]

    assert all(len(chunk) <= CHUNK_ENTRIES for chunk in chunks)
    assert all(sum(map(len, chunk)) <= CHUNK_BYTES or len(chunk) == 1 for chunk in chunks)
    assert len(chunks[-2]) == CHUNK_ENTRIES


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        (None, MalformedError, "row 1 .* null"),
        (bytes(ENTRY_BYTES_MAX + 1), TooLargeError, "4194305 bytes in a payload"),
        (MAGIC + b"...", MalformedError, "row 1 .* like a marker"),
        (b"VERSION", MalformedError, "row 1 .* entry of the database"),
    ],
    ids=["null", "too large", "marker", "entry of a database"],
)
def test_what_cannot_be_a_row_is_refused_with_its_number(
    row: bytes | None, error: type[VirtualLogError], text: str
) -> None:
    """An error names the row, so that it can be found among millions."""
    with pytest.raises(error, match=text):
        check_payloads(pa.array([b"fine", row], pa.binary()), on_database=True)


def test_what_may_be_a_row_passes() -> None:
    """Rows pass: the largest one, an empty one, bytes that are no text, and, without a database, bytes that a database could not read."""
    check_payloads(pa.array([bytes(ENTRY_BYTES_MAX), b"", b"\xff\xfe"], pa.binary()), on_database=True)
    check_payloads(pa.array([], pa.binary()), on_database=True)
    check_payloads(pa.array([b"VERSION"], pa.binary()), on_database=False)
