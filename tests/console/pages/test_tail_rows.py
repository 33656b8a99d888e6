"""The stream of the live tail: rows that the server has made, bounded, and where to go on."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.console.asgi import Exchange, Room, room
from tests.console.pages.page_reader import read
from tests.virtuallog.client.world import World, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.pages import tail_page
from virtuallog_console.pages.page_routes import Pages
from virtuallog_metastore import PaxosProvider


@attrs.frozen
class Tails:
    """A console over a log in memory."""

    world: World
    log: VirtualLog
    room: Room

    async def open(self, query: str = "", **more: Any) -> Exchange:
        """A tail that has begun."""
        tail = Exchange(path="/entries/tail", query=query, **more)
        self.world.nursery.start_soon(tail.run, self.room.application, self.room.clock)
        await self.settle()
        return tail

    async def append(self, *payloads: bytes) -> None:
        await self.log.append_many(payloads)
        await self.settle()

    async def settle(self) -> None:
        await self.room.clock.sleep(2.0)
        await wait_all_tasks_blocked()


@asynccontextmanager
async def tails() -> AsyncIterator[Tails]:
    async with world() as made:
        log = made.client()
        pages = Pages(log, PaxosProvider())
        hub = TailHub(log, log.view.environment.clock)
        made.nursery.start_soon(hub.run)
        yield Tails(made, log, room(log, made.nursery, groups=[pages.routes(hub)]))


def events(tail: Exchange) -> list[tuple[str, str, Any]]:
    """(name, id, data) of all events."""
    found = []
    for block in tail.received.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


def positions(data: Any) -> list[int]:
    """Positions of the rows of an event, read as a page would read them."""
    read(f"<table><tbody>{data['rows']}</tbody></table>")
    return [int(found.replace(",", "")) for found in re.findall(r'href="/entries/(\d+)"', data["rows"])]


async def test_rows_come_as_they_are_appended(autojump_clock: MockClock) -> None:
    """The newest first; the id leads to where a browser goes on, and payloads are text."""
    async with tails() as here:
        await here.append(b"before")
        tail = await here.open()
        await here.append(b"one", b"<b>two</b>", b"\xff\0")
        await here.append(b"three")
        (_, _, begun), first, second = events(tail)

    assert (begun["next"], begun["count"], begun["rows"]) == (1, 0, "")
    assert first[:2] == ("rows", "3")
    assert positions(first[2]) == [3, 2, 1]
    assert (first[2]["next"], first[2]["count"], first[2]["left_out"]) == (4, 3, 0)
    assert "&lt;b&gt;two&lt;/b&gt;" in first[2]["rows"]
    assert positions(second[2]) == [4]


async def test_a_tail_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    """From a position, or behind the last id, which is newer; from past the tail on it begins at the tail."""
    async with tails() as here:
        await here.append(*(b"x" for _ in range(5)))
        resumed = events(await here.open("from=3"))
        again = events(await here.open("from=0", headers={"Last-Event-ID": "1"}))
        beyond = events(await here.open("from=999"))
        wrong = await here.room.ask(path="/entries/tail", query="from=x")

    assert positions(resumed[1][2]) == [4, 3]
    assert positions(again[1][2]) == [4, 3, 2]
    assert beyond[0][2]["next"] == 5
    assert wrong.status == 400


async def test_a_fast_log_leaves_rows_out_and_says_so(autojump_clock: MockClock) -> None:
    """At most as many rows as the page keeps, the newest; one that resumes from far back does not read everything."""
    async with tails() as here:
        tail = await here.open()
        await here.append(*(b"%d" % number for number in range(700)))
        found = events(tail)
        await here.append(*(b"%d" % number for number in range(700)))
        late = events(await here.open("from=10"))

    rows = [data for name, _, data in found if name == "rows"]
    assert sum(data["count"] for data in rows) == 700
    assert all(len(positions(data)) <= tail_page.ROWS_MAX for data in rows)
    assert sum(len(positions(data)) + data["left_out"] for data in rows) == 700
    assert positions(rows[-1])[0] == 699
    assert late[0][2]["left_out"] == 1400 - tail_page.BACK_MAX - 10
    assert late[-1][2]["next"] == 1400


async def test_what_tails_were_not_sent_counts_as_left_out(autojump_clock: MockClock) -> None:
    """Many viewers of a fast log: the hub has not read all of it, and each page says how many entries it left out."""
    async with tails() as here:
        viewers = [await here.open() for _ in range(20)]
        await here.append(*(b"x" * 2000 for _ in range(1000)))
        await here.room.clock.sleep(60)
        found = [[data for name, _, data in events(tail) if name == "rows"] for tail in viewers]

    for rows in found:
        shown = sum(len(positions(data)) for data in rows)
        assert 0 < shown < 1000
        assert shown + sum(data["left_out"] for data in rows) == 1000
        assert rows[-1]["next"] == 1000


async def test_a_closed_log_ends_the_tail(autojump_clock: MockClock) -> None:
    """With what had come before, and a reason."""
    async with tails() as here:
        tail = await here.open()
        await here.append(b"last")
        await here.log.seal()
        await here.settle()
        found = events(tail)

    assert positions(found[1][2]) == [0]
    assert found[-1][0] == "ended"
    assert found[-1][2] == {"next": 1, "reason": "the log is closed", "again": False}


async def test_viewers_share_rows(autojump_clock: MockClock, monkeypatch: Any) -> None:
    """Fifty viewers of one role: each row is made once."""
    made = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def row_of(record: Any, viewer: Any) -> Any:
            made.append(record)
            return function(record, viewer)

        return row_of

    monkeypatch.setattr(tail_page, "row_of", counted(tail_page.row_of))
    async with tails() as here:
        open_tails = [await here.open() for _ in range(50)]
        await here.append(*(b"%d" % number for number in range(30)))
        found = [events(tail) for tail in open_tails]

    assert all(positions(each[1][2]) == [*range(29, -1, -1)] for each in found)
    assert len(made) == 30


async def test_a_client_that_goes_ends_its_tail(autojump_clock: MockClock) -> None:
    """Nothing of it is left among the streams."""
    async with tails() as here:
        tail = await here.open()
        assert here.room.application.admission.streams == 1
        tail.gone.set()
        await here.settle()
        assert here.room.application.admission.streams == 0
        await trio.lowlevel.checkpoint()
