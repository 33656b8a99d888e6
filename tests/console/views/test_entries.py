"""Pages of entries: by position, by time, from the end, by a search; what fails is said in the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from tests.console.views.database_entries import command, entry_of
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog_console.views import entries, entry_search
from virtuallog_console.views.entries import (
    ENTRIES_MAX,
    LOOKED_MAX,
    EntryPage,
    EntryRow,
    GapRow,
    read_at_time,
    read_last,
    read_page,
)
from virtuallog_console.views.entry_search import search
from virtuallog_console.views.masks import Masks
from virtuallog_console.views.values import Decoder
from virtuallog_console.views.viewer import Viewer
from virtuallog_database.tree.commands import Create, Touch

CLIENT = Viewer(role=Role.CLIENT)
ADMIN = Viewer(role=Role.ADMIN)


def texts(page: EntryPage) -> list[str]:
    """Payloads, and kinds of gaps."""
    return [row.kind if isinstance(row, GapRow) else row.value.text if row.value else "database" for row in page.rows]


def spoil(log: VirtualLog, name: str, error: Exception | None) -> None:
    """Let a method of the log fail from now on, or wait for ever if there is no error."""

    async def fail(*_: object) -> None:
        if error is not None:
            raise error
        await trio.sleep_forever()

    setattr(log, name, fail)


async def test_a_page_shows_entries_with_their_batches(autojump_clock: MockClock) -> None:
    """Position, time, session, number in the session, and the batch around an entry."""
    async with world() as w:
        log = w.client()
        cast(SimulatedClock, log.view.environment.clock).wall_offset_seconds = 1000
        await log.append_many([b"a", b"b", b"c"])
        await log.append(b'{"d": 1}')
        page = await read_page(log, CLIENT, 1)
        assert texts(page) == ["b", "c", '{"d": 1}']
        first, _, last = [row for row in page.rows if isinstance(row, EntryRow)]
        assert (first.position, first.sequence, first.batch) == (1, 1, range(3))
        assert (last.position, last.batch, len(last.session)) == (3, range(3, 4), 32)
        assert last.value is not None
        assert last.value.decoder is Decoder.JSON
        assert first.time_ms >= 1_000_000
        assert (page.start, page.next, page.tail, page.trim_point, page.has_more) == (1, 4, 4, 0, False)


async def test_pages_follow_each_other(autojump_clock: MockClock) -> None:
    """The next page begins where the last one ends, also in the middle of a batch."""
    async with world() as w:
        log = w.client()
        await log.append_many([b"%d" % number for number in range(10)])
        seen, at = [], 0
        while True:
            page = await read_page(log, CLIENT, at, count=4)
            seen += texts(page)
            if not page.has_more:
                break
            at = page.next
        assert seen == [str(number) for number in range(10)]
        assert texts(await read_last(log, CLIENT, count=3)) == ["7", "8", "9"]
        assert texts(await read_page(log, CLIENT, 3, count=0)) == ["3"]


async def test_gaps_have_rows_of_their_own(autojump_clock: MockClock) -> None:
    """A trimmed range, a filler behind it; without a position the page begins where the log does."""
    async with world() as w:
        log = w.client()
        await log.reconfig_extend("sparse")
        await log.append_many([b"a", b"b"])
        await log.append(b"c")
        await log.prefix_trim(LogPosition(1))
        page = await read_page(log, CLIENT, 0)
        assert texts(page)[0] == "trimmed"
        assert "filler" in texts(page)
        assert texts(await read_page(log, CLIENT))[0] == "b"


async def test_a_closed_log_and_an_empty_one(autojump_clock: MockClock) -> None:
    """Neither is a failure; a position past the tail is an empty page."""
    async with world() as w:
        log = w.client()
        assert await read_page(log, CLIENT) == EntryPage(start=0, next=0, trim_point=0, tail=0)
        await log.append(b"a")
        await log.seal()
        page = await read_page(log, CLIENT, 7)
        assert (page.rows, page.is_closed, page.has_more, page.problem) == ((), True, False, "")


async def test_a_page_by_time(autojump_clock: MockClock) -> None:
    """It begins with the first entry of that time or later."""
    async with world() as w:
        log, clock = w.client(), w.client().view.environment.clock
        for number in range(5):
            await log.append(b"%d" % number)
            await clock.sleep(10)
        third = next(row.time_ms for row in (await read_page(log, CLIENT, 2)).rows if isinstance(row, EntryRow))
        assert texts(await read_at_time(log, CLIENT, third)) == ["2", "3", "4"]
        assert texts(await read_at_time(log, CLIENT, third + 60_000)) == []


async def test_a_database_is_shown_as_commands(autojump_clock: MockClock) -> None:
    """The payload itself is not shown, whichever decoder is asked for: it has passwords and hidden values."""
    async with world() as w:
        log = w.client()
        await log.append(entry_of(command(Create("/a", b"hidden"))))
        for decoder in Decoder:
            (row,) = (await read_page(log, CLIENT, decoder=decoder)).rows
            assert isinstance(row, EntryRow)
            assert row.value is None
            assert row.database is not None
            assert [each.path for each in row.database.commands] == ["/a"]


async def test_long_entries_are_cut_in_a_list_and_shown_alone(autojump_clock: MockClock) -> None:
    """A list has a bound for each payload; one row may show more."""
    async with world() as w:
        log = w.client()
        await log.append_many([b"x" * 10_000, b"y"])
        (first, _) = (await read_page(log, CLIENT, preview_bytes=1 << 30)).rows
        (alone,) = (await read_page(log, CLIENT, 0, count=1, preview_bytes=1 << 30)).rows
        assert isinstance(first, EntryRow)
        assert isinstance(alone, EntryRow)
        assert first.value is not None
        assert alone.value is not None
        assert (first.value.size, len(first.value.text), first.value.is_cut) == (10_000, 4096, True)
        assert (len(alone.value.text), alone.value.is_cut) == (10_000, False)


async def test_a_page_has_bounds(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and bytes; what was not read begins at `next`."""
    async with world() as w:
        log = w.client()
        for _ in range(3):
            await log.append_many([b"x"] * 100)
        page = await read_page(log, CLIENT, count=1_000_000)
        assert (len(page.rows), page.next, page.has_more) == (ENTRIES_MAX, ENTRIES_MAX, True)
        monkeypatch.setattr(entries, "READ_BYTES", 1)
        page = await read_page(log, CLIENT)
        assert (len(page.rows), page.next) == (100, 100)


READS: list[Callable[[VirtualLog], Awaitable[Any]]] = [
    lambda log: read_page(log, CLIENT, 0),
    lambda log: read_last(log, CLIENT),
    lambda log: read_at_time(log, CLIENT, 1),
]


@pytest.mark.parametrize("read", READS, ids=["position", "last", "time"])
@pytest.mark.parametrize("name", ["check_tail", "find_trim_point", "read"])
async def test_a_log_that_does_not_answer_is_a_page_with_a_reason(
    name: str, read: Callable[[VirtualLog], Awaitable[EntryPage]], autojump_clock: MockClock
) -> None:
    """An error, and silence: never an exception, and never a wait without an end."""
    for error in (UnavailableError("servers are away"), None):
        async with world() as w:
            log = w.client()
            await log.append(b"a")
            spoil(log, name, error)
            clock = log.view.environment.clock
            begun = clock.monotonic()
            page = await read(log)
            assert page.problem
            assert clock.monotonic() - begun <= entries.SEARCH_SECONDS + 2 * entries.SECONDS


@pytest.mark.parametrize("error", [UnavailableError("away"), None], ids=["error", "silence"])
async def test_a_page_keeps_what_was_read_before_a_failure(error: Exception | None, autojump_clock: MockClock) -> None:
    """The next page goes on right behind it."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        await log.reconfig_extend("memory")
        await log.append(b"b")
        read, reads = log.read, 0

        async def once(*args: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads > 1:
                spoil(log, "read", error)
                return await log.read(*args)
            return await read(*args)

        setattr(log, "read", once)  # noqa: B010  # mypy knows another signature
        page = await read_page(log, CLIENT)
        assert (texts(page), page.next, page.has_more) == (["a"], 1, True)
        assert page.problem


async def test_one_unknown_bound_does_not_hide_the_other(autojump_clock: MockClock) -> None:
    """Without an answer the tail is the highest one that this client has seen."""
    async with world() as w:
        log = w.client()
        await log.append_many([b"a", b"b"])
        await log.check_tail()
        spoil(log, "check_tail", None)
        page = await read_page(log, CLIENT)
        assert (page.trim_point, page.tail, texts(page)) == (0, 2, ["a", "b"])
        assert page.problem == "tail: no answer within 5 s"


async def test_damage_ends_a_page_where_it_is(autojump_clock: MockClock) -> None:
    """Rows that were read before stay, and the position is named."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        spoil(log, "read", CorruptionError("every copy is damaged"))
        page = await read_page(log, CLIENT)
        assert page.problem == "at 0: CorruptionError: every copy is damaged"


async def test_a_search_goes_on_where_it_has_stopped(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found entries up to a bound, bytes up to a bound; both say where to go on, and nothing is found twice or missed."""
    async with world() as w:
        log = w.client()
        expected = []
        for number in range(40):
            expected += [5 * number, 5 * number + 3]
            await log.append_many([b"needle", b"x", b"y", b"a needle here", b"nee"])
        monkeypatch.setattr(entry_search, "FOUND_MAX", 7)
        for most in (1 << 20, 1):
            monkeypatch.setattr(entry_search, "SEARCH_BYTES", most)
            monkeypatch.setattr(entry_search, "PIECE_BYTES", 300)
            found, at = [], 0
            while True:
                result = await search(log, CLIENT, "needle", at)
                found += [row.position for row in result.page.rows if isinstance(row, EntryRow)]
                assert len(result.page.rows) <= 7
                at = result.page.next
                if result.is_finished:
                    break
            assert found == expected


async def test_a_search_does_not_find_hidden_values(autojump_clock: MockClock) -> None:
    """Else it would tell them by guesses. Passwords of a session, masked values, values for a client."""
    async with world() as w:
        log = w.client()
        await log.append(entry_of(command(Create("/a/b", b"hidden"))))
        masking = Viewer(role=Role.ADMIN, masks=Masks(("/a",)))
        for viewer, text, hits in (
            (ADMIN, "hidden", 1), (CLIENT, "hidden", 0), (masking, "hidden", 0), (CLIENT, "/a/b", 1), (ADMIN, "tttt", 0),
        ):  # fmt: skip
            result = await search(log, viewer, text)
            assert (len(result.page.rows), result.is_finished) == (hits, True)


async def test_a_search_that_fails_says_up_to_where_it_has_looked(autojump_clock: MockClock) -> None:
    """It can go on there later. A text that cannot be searched for is the caller's mistake."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        for error in (UnavailableError("away"), None):
            spoil(log, "read", error)
            result = await search(log, CLIENT, "a")
            assert (result.page.rows, result.page.next, result.is_finished) == ((), 0, False)
        spoil(log, "check_tail", UnavailableError("away"))
        assert "away" in (await search(log, CLIENT, "a")).page.problem
        for text in ("", "x" * 2000):
            with pytest.raises(InvalidSettingError):
                await search(log, CLIENT, text)


async def test_housekeeping_is_left_out_and_counted(autojump_clock: MockClock) -> None:
    """Signs of life have no row; the page goes on until it is full, or has looked at enough; the next one begins behind what it saw."""
    async with world() as w:
        log = w.client()
        signs = [entry_of(command(Touch((1, 2))))] * 30
        kept = [entry_of(command(Create(f"/{number}", b"1"))) for number in range(4)]
        for entry in kept:
            await log.append_many(signs)
            await log.append(entry)
        page = await read_page(log, ADMIN, LogPosition(0), count=2, leaves_out=True)
        whole = await read_page(log, ADMIN, LogPosition(0), count=2)
        last = await read_last(log, ADMIN, count=2, leaves_out=True)
        await log.append_many(signs * 40)
        searched = await read_page(log, ADMIN, LogPosition(124), count=2, leaves_out=True)

    assert [row.position for row in page.rows if isinstance(row, EntryRow)] == [30, 61]
    assert (page.start, page.next, page.left_out) == (0, 62, 60)
    assert (len(whole.rows), whole.left_out) == (2, 0)
    assert [row.position for row in last.rows if isinstance(row, EntryRow)] == [30, 61, 92, 123]
    assert (last.left_out, last.next) == (120, 124)
    assert (searched.rows, searched.left_out, searched.next) == ((), LOOKED_MAX, 124 + LOOKED_MAX)
    assert searched.has_more
