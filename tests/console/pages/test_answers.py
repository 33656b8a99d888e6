"""Each page as the console answers it, over real nodes in memory: headers, roles, masks, bounds, and what is said when something fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.console.asgi import Exchange, Room, room
from tests.console.pages.page_reader import PageReader, read
from tests.console.served import Answer
from tests.console.views.test_nodes import log_of
from tests.console.views.test_tree import planted
from tests.server.node.world import World, make_world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.pages.page_routes import Pages
from virtuallog_console.settings import ConsoleSettings
from virtuallog_console.views.masks import Masks
from virtuallog_metastore import PaxosProvider

PATHS = (
    "/", "/entries", "/entries/live", "/entries/2", "/tree", "/tree/sessions", "/nodes", "/holds", "/live"
)  # fmt: skip
SECRET = "hunter2"
MASKING = Masks(("/app/*/password",))
POLICY = AccessPolicy(
    hosts=frozenset({"localhost"}), proxies=ConsoleSettings(proxy=("10.0.0.1",)).policy.proxies, admins=frozenset({"alice"}), actions=True
)  # fmt: skip
ADMIN: dict[str, Any] = {"address": "10.0.0.1", "headers": {"X-Forwarded-User": "alice"}}
CALLERS: tuple[dict[str, Any], ...] = ({}, ADMIN)


@attrs.frozen
class Shown:
    """Pages over a cluster in memory."""

    room: Room
    world: World
    log: VirtualLog

    async def ask(self, path: str, **more: Any) -> Answer:
        place, _, query = path.partition("?")
        return await self.room.ask(path=place, query=query, **more)

    async def page(self, path: str, status: int = 200, **more: Any) -> PageReader:
        """A page, with all that each of them has."""
        answer = await self.ask(path, **more)
        assert answer.status == status, answer.body
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        found = read(answer.body.decode())
        assert [found.tags.count(tag) for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
        return found


@asynccontextmanager
async def shown(world: World) -> AsyncIterator[Shown]:
    log = log_of((await planted(world))[0])
    async with trio.open_nursery() as nursery:
        pages = Pages(log, PaxosProvider(), MASKING)
        hub = TailHub(log, log.view.environment.clock)
        nursery.start_soon(hub.run)
        nursery.start_soon(pages.run)
        yield Shown(room(log, nursery, POLICY, groups=[pages.routes(hub)], hides=pages.hides), world, log)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def test_every_page_answers_each_role(world: World, autojump_clock: MockClock) -> None:
    """With the policy of content, without inline code, and without the masked value, for a client and for an admin."""
    async with shown(world) as served:
        for path in PATHS:
            for caller in CALLERS:
                found = await served.page(path, **caller)
                assert SECRET not in found.text or (caller and path.startswith("/entries")), path
        client = await served.page("/tree?path=/app/x")
        admin = await served.page("/tree?path=/app/x", **ADMIN)
        masked = await served.page("/tree?path=/app/x/password", **ADMIN)
        sessions = await served.page("/tree/sessions")

    assert "needs the role admin" in client.text
    assert "on the data" in admin.text
    assert "masked by a path pattern" in masked.text
    assert SECRET not in masked.text
    assert "needs the role admin" in sessions.text


async def test_values_are_hidden_in_entries_and_exports(world: World, autojump_clock: MockClock) -> None:
    """The log has each value that was ever written: a client sees none of a database, an admin all but those below masks."""
    async with shown(world) as served:
        pages = [await served.page("/entries?from=0", **caller) for caller in CALLERS]
        searches = [await served.page(f"/entries?text={SECRET}&from=0", **caller) for caller in CALLERS]
        exports = [await served.ask("/tree/export?path=/app", **caller) for caller in CALLERS]
        refused = await served.ask("/tree/export", headers={"Sec-Fetch-Site": "cross-site"})

    assert [SECRET in found.text for found in pages] == [False, True]
    assert "/app/x/password" in pages[0].text
    assert pages[1].text.count(f"data {SECRET}") == 2, "those of /private, not that of the mask"
    assert "0 entries found" in searches[0].text
    assert "/private" in searches[1].text
    assert [SECRET.encode() in export.body for export in exports] == [False, False]
    assert exports[0].headers["content-type"].startswith("application/x-ndjson")
    assert exports[0].headers["content-disposition"] == "attachment; filename*=UTF-8''app.jsonl"
    assert b'"withheld": "masked' in exports[0].body
    assert b'{"end": true' in exports[0].body
    assert refused.status == 403


async def test_the_door_gives_no_masked_value(world: World, autojump_clock: MockClock) -> None:
    """With masks an entry of a database comes without its bytes, in a list, alone and in a tail; one of a program comes as it is."""
    async with shown(world) as served:
        await served.log.append(b"of a program")
        listed = (await served.ask("/v1/entries?from=0&encoding=text", **ADMIN)).json["entries"]
        withheld = [entry for entry in listed if "withheld" in entry]
        alone = await served.ask(f"/v1/entries/{withheld[0]['position']}", **ADMIN)
        tail = Exchange(path="/v1/tail", query="from=0&encoding=text", takes=2000)
        await tail.run(served.room.application, served.room.clock)

    assert len(withheld) >= 6
    assert [entry["text"] for entry in listed if "text" in entry] == ["of a program"]
    assert SECRET not in str(listed)
    assert (alone.status, alone.json["type"]) == (403, "urn:virtuallog:problem:withheld")
    assert b'"withheld"' in tail.received
    assert b'"base64"' not in tail.received.partition(b"of a program")[0]


async def test_an_address_that_makes_no_sense_is_a_sentence(world: World, autojump_clock: MockClock) -> None:
    """With a status that says the same, and the value as text."""
    async with shown(world) as served:
        for path in (
            "/entries?from=-1", "/entries?from=1e9", "/entries?from=99999999999999999999", "/entries?time=noon", "/entries?count=0",
            "/entries?decoder=<script>", "/entries/x", "/holds?position=x", "/entries?text=" + "x" * 2000, "/tree?path=" + "/x" * 5000,
        ):  # fmt: skip
            found = await served.page(path, 400)
            assert "The address makes no sense" in found.text, path
        for path, words in (
            ("/entries/999", "There is no such entry yet"),
            ("/tree?path=app", "this is no path of a znode"),
            ("/tree?path=/nothing", "there is no such znode"),
        ):
            found = await served.page(path, 404 if "entries" in path else 200)
            assert words in found.text
        assert (await served.ask("/static/nothing.css")).status == 404
        assert (await served.ask("/entries", method="POST")).status == 405
        assert (await served.ask("/", method="HEAD")).status == 200


async def test_entries_by_position_time_and_text(world: World, autojump_clock: MockClock) -> None:
    """Pages lead to the next and to the former one; a time leads to the first entry from then on."""
    async with shown(world) as served:
        first = await served.page("/entries?from=0&count=3")
        last = await served.page("/entries")
        time = await served.page("/entries?time=1970-01-01T00:00:00&count=2")
        found = await served.page("/entries?text=/app/x/url&from=0")
        one = await served.page("/entries/2?decoder=hex")

    assert "Positions 0 to 2" in first.text
    assert "no previous ones" in first.text
    assert "no more" in last.text
    assert "Positions 0 to 1" in time.text
    assert "1 entry found" in found.text
    assert "/app/x/url" in found.text
    assert "session of the appender" in one.text


async def test_entries_without_housekeeping(world: World, autojump_clock: MockClock) -> None:
    """A link leaves it out; the page says how many entries that are, and keeps to it in its links and forms."""
    async with shown(world) as served:
        whole = await served.ask("/entries?from=0")
        page = await served.page("/entries?from=0&count=1&housekeeping=left-out")
        answer = await served.ask("/entries?from=0&count=1&housekeeping=left-out")

    assert b"&amp;housekeeping=left-out" in whole.body
    assert "housekeeping left out" in page.text
    assert "Show all entries" in page.text
    assert answer.body.count(b'name="housekeeping" value="left-out"') == 2
    assert answer.body.count(b"decoder=auto&amp;housekeeping=left-out") >= 2


async def test_what_fails_is_said_on_the_page(world: World, autojump_clock: MockClock) -> None:
    """A majority is gone: each page is there, with the reasons, and none is an error of the console."""
    async with shown(world) as served:
        await served.page("/")
        for node in (2, 3):  # the client is that of node 1
            world.stop(node)
        await served.room.clock.sleep(3)
        pages = {path: await served.page(path, 200) for path in PATHS if path not in {"/entries/2", "/tree/sessions"}}

    assert "ask for action" in pages["/"].text or "does not answer" in pages["/"].text
    assert pages["/nodes"].text.count("silent") >= 2
    assert "node 3 is silent" in pages["/live"].text


async def test_the_effect_of_a_trim_is_shown(world: World, autojump_clock: MockClock) -> None:
    """What would be dropped, who needs it, and that nodes would refuse it."""
    async with shown(world) as served:
        found = await served.page("/holds?position=3")

    assert "would drop 3 positions: 0 to 2" in found.text
    assert "Nodes would refuse it: the database needs the log from" in found.text
    assert "Needed by: replica" in found.text


async def test_style_and_scripts_are_files_that_browsers_keep(world: World, autojump_clock: MockClock) -> None:
    """Under addresses that change with the content; they fetch nothing but from here."""
    async with shown(world) as served:
        page = (await served.ask("/live")).body.decode()
        addresses = [part.partition('"')[0] for part in page.split('"/static/')[1:]]
        assert len(addresses) == 3
        for address in addresses:
            answer = await served.ask("/static/" + address)
            assert answer.status == 200
            assert answer.headers["cache-control"] == "private, max-age=86400"
            assert b"http:" not in answer.body
            assert b"https:" not in answer.body
            assert b"innerHTML" not in answer.body
