"""Tails: one reader for all of them, on a mock clock."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.console.asgi import Exchange, Room, room
from tests.virtuallog.client.world import World, world
from virtuallog.client.address_space import AddressSpace
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.types import LogPosition
from virtuallog_console.access.admission import STREAMS_OF_CALLER_MAX
from virtuallog_console.door.core.tail_pace import BEHIND_SECONDS, BYTES_PER_SECOND, SENDS_PER_SECOND
from virtuallog_console.door.tail_hub import CATCH_UPS_MAX, SLOW_SECONDS, TailHub
from virtuallog_console.door.tail_stream import HEARTBEAT_SECONDS, TAIL_SECONDS
from virtuallog_console.door.tail_window import WINDOW_BYTES_MAX


@attrs.define
class Tails:
    """A log, an application over it, and tails that are open."""

    world: World
    log: VirtualLog
    room: Room

    async def open(self, query: str = "encoding=text&latest=true", **more: Any) -> Exchange:
        """A tail that has begun."""
        tail = Exchange(path="/v1/tail", query=query, **more)
        self.world.nursery.start_soon(tail.run, self.room.application, self.room.clock)
        await wait_all_tasks_blocked()
        return tail

    async def append(self, *payloads: str) -> None:
        await self.log.append_many([payload.encode() for payload in payloads])
        await self.room.clock.sleep(1)
        await wait_all_tasks_blocked()


@asynccontextmanager
async def tails() -> AsyncIterator[Tails]:
    async with world() as made:
        log = made.client()
        yield Tails(made, log, room(log, made.nursery))


def events(tail: Exchange) -> list[tuple[str, str, Any]]:
    """(name, id, data) of all events that have come."""
    found = []
    for block in tail.received.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


def texts(tail: Exchange) -> list[str]:
    return [data["text"] for name, _, data in events(tail) if name == "entry"]


def skipped(tail: Exchange) -> int:
    """Positions that a tail was told to be skipped."""
    return sum(data["count"] for name, _, data in events(tail) if name == "skipped")


def check_whole(tail: Exchange, start: int = 0) -> None:
    """Check that each position from `start` on has come, once and in order, as an entry or as skipped."""
    for name, number, data in events(tail):
        begin, stop = (data["from"], data["to"]) if name == "skipped" else (data["position"], data["position"] + 1)
        assert (begin, int(number)) == (start, stop - 1)
        start = stop


def is_over(tail: Exchange) -> bool:
    return bool(tail.sent) and not tail.sent[-1].get("more_body", True)


async def test_entries_come_as_they_are_appended(autojump_clock: MockClock) -> None:
    """From the tail on, each with its position as its id."""
    async with tails() as here:
        await here.append("before")
        tail = await here.open()
        await here.append("a")
        await here.append("b", "c")

        assert texts(tail) == ["a", "b", "c"]
        assert [number for _, number, _ in events(tail)] == ["1", "2", "3"]
        assert tail.answer.headers["content-type"].startswith("text/event-stream")
        assert tail.answer.headers["cache-control"] == "no-store"


async def test_a_tail_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    """Behind the last event that has arrived; the header of a browser goes before the address, which it uses again."""
    async with tails() as here:
        await here.append("a", "b", "c")
        again = await here.open("from=0&encoding=text", headers={"Last-Event-ID": "1"})
        whole = await here.open("from=0&encoding=text")
        await here.append("d")

        assert texts(again) == ["c", "d"]
        assert texts(whole) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("from=4", {}, 416),
        ("", {"Last-Event-ID": "3"}, 416),
        ("", {"Last-Event-ID": "x"}, 400),
        ("from=-1", {}, 400),
        ("", {"Origin": "https://attacker.example"}, 403),
        ("", {"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_other_tails_are_refused(query: str, headers: dict[str, str], status: int) -> None:
    """Before anything is sent; a page of another site opens none."""
    async with tails() as here:
        await here.append("a", "b", "c")

        assert (await here.room.ask(path="/v1/tail", query=query, headers=headers)).status == status


async def test_a_hundred_tails_cost_one_reader(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read as often as for one, each entry is spelled once, and all tails have all entries."""
    reads, read = [0], AddressSpace.read

    async def counted(space: AddressSpace, *arguments: Any) -> Any:
        reads[0] += 1
        return await read(space, *arguments)

    monkeypatch.setattr(AddressSpace, "read", counted)
    async with tails() as here:
        opened = [await here.open() for _ in range(100)]
        for number in range(20):
            await here.append(f"{number}")

        assert reads[0] <= 21
        assert all(texts(tail) == [str(number) for number in range(20)] for tail in opened)
        assert here.room.hub.tails == 100


async def test_a_crowd_of_appends_costs_each_tail_a_few_sends(autojump_clock: MockClock) -> None:
    """While entries come quickly, many of them are one read and one send; the first comes at once. All that can be sent in time is sent."""
    async with tails() as here:
        opened = [await here.open() for _ in range(50)]
        await here.room.clock.sleep(1)
        began = len(opened[0].sent)
        await here.log.append(b"first")
        await wait_all_tasks_blocked()
        assert texts(opened[0]) == ["first"]
        for number in range(1000):
            await here.log.append(b"%d" % number)
            await here.room.clock.sleep(0.001)
        await here.room.clock.sleep(BEHIND_SECONDS)

        assert all(len(texts(tail)) == 1001 for tail in opened)
        assert len(opened[0].sent) - began <= (BEHIND_SECONDS + 1) * SENDS_PER_SECOND / 50 + 2


@pytest.mark.parametrize("count", [1, 10, 100])
async def test_the_work_of_all_tails_does_not_depend_on_their_number(autojump_clock: MockClock, count: int) -> None:
    """A log is faster than tails may be for a minute. So many sends and bytes in a second are all of them together; each
    tail accounts for every position, and what it is sent is not old.
    """
    async with tails() as here:
        opened = [await here.open() for _ in range(count)]
        began, sends = here.room.clock.monotonic(), sum(len(tail.sent) for tail in opened)
        size = sum(len(tail.received) for tail in opened)
        while here.room.clock.monotonic() < began + 60:
            await here.log.append_many([b"x" * 4000] * 400)
            await here.room.clock.sleep(1)
        seconds = here.room.clock.monotonic() - began
        sends = sum(len(tail.sent) for tail in opened) - sends
        size = sum(len(tail.received) for tail in opened) - size
        newest = max(int(number) for _, number, _ in events(opened[0]))
        tail = (await here.log.check_tail()).tail
        for each in opened:
            check_whole(each)

        assert sends <= SENDS_PER_SECOND * seconds + 3 * count
        assert 0.2 * BYTES_PER_SECOND * seconds <= size <= 1.1 * BYTES_PER_SECOND * (seconds + BEHIND_SECONDS)
        assert newest >= tail - 400 * (2 * BEHIND_SECONDS + 1)
        assert skipped(opened[0]) > 0


async def test_what_is_skipped_is_not_read(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred tails of a fast log cost the nodes some entries in a second, and the console counts what tails were not sent."""
    found, read = [0], AddressSpace.read

    async def counted(space: AddressSpace, *arguments: Any) -> Any:
        placed = await read(space, *arguments)
        found[0] += sum(each.stop - each.start for each in placed)
        return placed

    monkeypatch.setattr(AddressSpace, "read", counted)
    async with tails() as here:
        opened = [await here.open() for _ in range(100)]
        for _ in range(20):
            for _ in range(10):
                await here.log.append_many([b"x" * 100] * 400)
            await here.room.clock.sleep(1)

        assert skipped(opened[0]) > 70_000
        assert found[0] <= 80_000 - skipped(opened[0]) + 5_000
        figures = {family.name: family.samples[0].value for family in here.room.hub.metrics()}
        assert figures["virtuallog_console_tail_skipped_total"] == 100 * skipped(opened[0])


async def test_an_entry_that_takes_too_long_is_skipped(autojump_clock: MockClock) -> None:
    """For one tail it is sent, for a hundred it would keep all of them waiting for minutes: they are told of its position."""
    async with tails() as here:
        alone = await here.open()
        await here.append("x" * ENTRY_BYTES_MAX, "after")
        await here.room.clock.sleep(10)
        assert [len(text) for text in texts(alone)] == [ENTRY_BYTES_MAX, 5]
        many = [await here.open() for _ in range(99)]
        await here.append("x" * ENTRY_BYTES_MAX)
        await here.append("last")

        assert events(many[0])[0] == ("skipped", "2", {"from": 2, "to": 3, "count": 1})
        assert texts(many[0]) == ["last"]


async def test_a_tail_that_does_not_ask_for_the_latest_skips_nothing(autojump_clock: MockClock) -> None:
    """It reads by itself what the others were told to be skipped: each entry comes once, in order."""
    async with tails() as here:
        others = [await here.open() for _ in range(20)]
        complete = await here.open("encoding=text")
        for number in range(30):
            await here.append(*(f"{number} {index} {'x' * 2000}" for index in range(300)))
        await here.room.clock.sleep(60)

        assert skipped(others[0]) > 0
        assert [text[:8].split()[:2] for text in texts(complete)] == [
            [str(n), str(i)] for n in range(30) for i in range(300)
        ]
        assert skipped(complete) == 0


async def test_a_tail_that_begins_among_skipped_entries_counts_its_own(autojump_clock: MockClock) -> None:
    """Entries that were skipped before the first position of a tail are not counted for it."""
    async with tails() as here:
        others = [await here.open() for _ in range(50)]
        await here.append(*(str(number) for number in range(100)))
        await here.log.append_many([b"x" * 4000] * 2000)
        late = [await here.open("from=150&encoding=text&latest=true")]
        await here.room.clock.sleep(60)

        assert skipped(others[0]) > 0
        check_whole(late[0], 150)


async def test_without_tails_nothing_is_read(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader ends with the last tail, and begins again with the next one, further on."""
    async with tails() as here:
        first = await here.open()
        await here.append("a")
        first.gone.set()
        await wait_all_tasks_blocked()
        assert here.room.hub.tails == 0
        with monkeypatch.context() as patch:
            patch.setattr(AddressSpace, "read", None)
            await here.append("b")
        second = await here.open()
        await here.append("c")

        assert texts(first) == ["a"]
        assert texts(second) == ["c"]


async def test_a_tail_that_takes_nothing_is_cut(autojump_clock: MockClock) -> None:
    """After some seconds. The others have had everything long since."""
    async with tails() as here:
        slow, quick = await here.open(stalls=True), await here.open()
        began = here.room.clock.monotonic()
        await here.append("a")
        assert texts(quick) == ["a"]
        await slow.was_cut.wait()

        assert here.room.clock.monotonic() - began <= SLOW_SECONDS + 2
        await wait_all_tasks_blocked()
        assert here.room.hub.tails == 1


async def test_a_tail_that_falls_behind_learns_where_to_go_on(autojump_clock: MockClock) -> None:
    """The window has moved past it: its last event says from where another tail has to begin. No entry is skipped in silence."""
    async with tails() as here:
        slow = await here.open()
        slow.may_take = may_take = trio.Event()
        await here.append("first")
        for _ in range(WINDOW_BYTES_MAX // ENTRY_BYTES_MAX + 2):
            await here.log.append(b"x" * ENTRY_BYTES_MAX)
            await here.room.clock.sleep(BEHIND_SECONDS)
        may_take.set()
        await wait_all_tasks_blocked()

        assert is_over(slow)
        name, _, data = events(slow)[-1]
        assert (name, data["reason"]) == ("resume", "read too slowly")
        again = await here.open(f"from={data['from']}")
        assert [number for _, number, _ in [*events(slow)[:-1], *events(again)]] == [str(number) for number in range(5)]


async def test_tails_that_go_while_they_catch_up_leave_their_places(autojump_clock: MockClock) -> None:
    """As many as may catch up at a time are gone before they have taken anything: the next one is served."""
    async with tails() as here:
        await here.append("a", "b")
        opened = [await here.open("from=0&encoding=text") for _ in range(CATCH_UPS_MAX)]
        for tail in opened:
            assert texts(tail) == ["a", "b"]
            tail.gone.set()
        for _ in range(CATCH_UPS_MAX):
            with here.room.hub.follow(0, lambda: None) as cursor:
                await here.room.hub.next(cursor)

        assert texts(await here.open("from=0&encoding=text")) == ["a", "b"]


async def test_a_tail_that_begins_as_the_last_one_ends_misses_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window begins anew, further on: the tail reads by itself what lies between, and is not sent away."""
    async with tails() as here:
        hub, find = here.room.hub, TailHub._find_tail

        async def find_later(found: TailHub) -> LogPosition:
            await here.log.append(b"between")
            return await find(found)

        with hub.follow(0, lambda: None) as first:
            await here.append("a")
            assert (await hub.next(first)).start == 0
        monkeypatch.setattr(TailHub, "_find_tail", find_later)
        with hub.follow(1, lambda: None) as second:
            chunk = await hub.next(second)

        assert (chunk.start, chunk.stop) == (1, 2)


async def test_a_silent_log_is_heard_of(autojump_clock: MockClock) -> None:
    """A comment now and then, and after an hour the end, with the place to go on."""
    async with tails() as here:
        tail = await here.open()
        await here.room.clock.sleep(10 * HEARTBEAT_SECONDS + 1)
        assert 10 <= tail.received.count(b"\n\n:\n\n") + tail.received.count(b":\n\n:") <= 20
        await here.append("late")
        await here.room.clock.sleep(TAIL_SECONDS)

        assert is_over(tail)
        assert events(tail)[-1] == ("resume", "", {"from": 1, "reason": "open for 3600 s"})


async def test_the_end_of_a_closed_log_is_told(autojump_clock: MockClock) -> None:
    """An event of its own: there is nothing to come back for until an operator extends the chain."""
    async with tails() as here:
        tail = await here.open()
        await here.append("last")
        await here.log.seal()
        await here.room.clock.sleep(30)

        assert texts(tail) == ["last"]
        assert events(tail)[-1] == ("closed", "", {"from": 1})
        assert is_over(tail)


async def test_a_trim_comes_as_a_gap(autojump_clock: MockClock) -> None:
    """A tail from an old position learns what it has missed, and its id leads behind the gap."""
    async with tails() as here:
        for number in range(4):
            await here.append(f"{number}")
        await here.log.prefix_trim(LogPosition(2))
        tail = await here.open("from=0&encoding=text")

        assert events(tail)[0] == ("gap", "1", {"from": 0, "to": 2, "kind": "trimmed"})
        assert texts(tail) == ["2", "3"]


async def test_a_caller_has_so_many_tails(autojump_clock: MockClock) -> None:
    """One more is refused; when one ends there is room again. Other requests are counted apart."""
    async with tails() as here:
        opened = [await here.open() for _ in range(STREAMS_OF_CALLER_MAX)]
        refused = await here.room.ask(path="/v1/tail")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (await here.room.ask(path="/v1/log")).status == 200
        opened[0].gone.set()
        await wait_all_tasks_blocked()

        assert (await here.open()).answer.status == 200


async def test_catching_up_never_loses_or_repeats(autojump_clock: MockClock) -> None:
    """Tails begin at many positions while a program appends: each has everything from its position on, once."""
    async with tails() as here:
        await here.append(*(str(number) for number in range(1000)))
        opened: list[tuple[int, Exchange]] = []
        for number in range(1000, 1100):
            opened.append((7 * (number - 1000), await here.open(f"from={7 * (number - 1000)}&encoding=text")))
            await here.append(str(number))
        await here.room.clock.sleep(1)

        assert [texts(tail) == [str(number) for number in range(start, 1100)] for start, tail in opened] == [True] * 100
