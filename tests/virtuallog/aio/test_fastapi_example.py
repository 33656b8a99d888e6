"""examples/fastapi_log.py, on a log in memory: its lifespan, its errors, and its tails."""

from __future__ import annotations

import asyncio
import base64
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.source_tree import ROOT
from tests.virtuallog.aio.asgi_client import AsgiClient, lifespan
from tests.virtuallog.aio.asyncio_world import AsyncioWorld, asyncio_world, in_asyncio
from virtuallog.aio import AsyncioLog
from virtuallog.contract.types import LogPosition

pytest.importorskip("fastapi")
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "fastapi_log.py"))


@asynccontextmanager
async def served() -> AsyncIterator[tuple[AsgiClient, AsyncioWorld]]:
    """The service, and its log."""
    worlds = list[AsyncioWorld]()

    @asynccontextmanager
    async def opens() -> AsyncIterator[AsyncioLog]:
        async with asyncio_world() as world:
            worlds.append(world)
            yield world.log

    async with lifespan(EXAMPLE["make_app"](opens)) as client:
        yield client, worlds[0]
    assert not worlds[0].log.is_open


def event(position: int, payload: bytes) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (position, base64.b64encode(payload))


@in_asyncio
async def test_entries_are_appended_and_read() -> None:
    """The client of the log is that of the server's life; errors become answers of HTTP."""
    async with served() as (client, world):
        for number in range(3):
            async with client.request("POST", "/entries", b"%d" % number) as response:
                assert await response.status() == 201
                assert await response.json() == {"position": number}
        async with client.request("GET", "/entries/1") as response:
            assert await response.status() == 200
            assert await response.json() == {"position": 1, "payload": base64.b64encode(b"1").decode()}
        async with client.request("GET", "/entries/7") as response:
            assert await response.status() == 404
        await world.log.prefix_trim(LogPosition(2))
        async with client.request("GET", "/entries/1") as response:
            assert await response.status() == 410


@in_asyncio
async def test_a_tail_sends_what_is_appended_and_ends_with_its_client() -> None:
    """From a position on, or behind the last event of a lost connection; nothing of it is left behind."""
    async with served() as (client, world):
        await world.log.append_many([b"a", b"b"])
        async with client.request("GET", "/tail", query="start=1") as response:
            assert await response.status() == 200
            assert await response.chunk() == event(1, b"b")
            await world.log.append(b"c")
            assert await response.chunk() == event(2, b"c")
        async with client.request("GET", "/tail", headers=((b"last-event-id", b"1"),)) as response:
            assert await response.status() == 200
            assert await response.chunk() == event(2, b"c")
        assert not world.bridge._under_way


@in_asyncio
async def test_a_tail_ends_with_the_log() -> None:
    """A log that is closed on purpose ends the stream; a part without data comes as a gap."""
    async with served() as (client, world):
        await world.log.append_many([b"a", b"b"])
        await world.log.append(b"c")
        await world.log.prefix_trim(LogPosition(2))
        await world.log.seal()
        async with client.request("GET", "/tail") as response:
            assert await response.status() == 200
            assert await response.chunk() == b"id: 1\nevent: gap\ndata: trimmed\n\n"
            assert await response.chunk() == event(2, b"c")
            assert await response.chunk() == b""


@in_asyncio
async def test_tails_are_bounded() -> None:
    """A client beyond the bound is refused, and one that leaves makes room."""
    async with served() as (client, _):
        for wanted in [200] * EXAMPLE["TAILS_MAX"]:
            async with client.request("GET", "/tail") as response:
                assert await response.status() == wanted


@in_asyncio
async def test_an_append_that_is_not_done_in_time_has_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """503, and the entry gets into the log later."""
    monkeypatch.setitem(EXAMPLE["make_app"].__globals__, "APPEND_SECONDS", 0.0)
    async with served() as (client, world):
        gate, _ = await world.gate()
        async with client.request("POST", "/entries", b"late") as response:
            assert await response.status() == 503
            assert (await response.json())["outcome"] == "unknown"
        world.bridge.post(gate.opened.set)
        await asyncio.sleep(0)
