"""Connections of an HTTP server, on a mock clock and streams in memory: who is pushed out, and when one ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import attrs
import pytest
import trio
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from trio.testing import MemoryReceiveStream, MemorySendStream, MockClock, memory_stream_pair, wait_all_tasks_blocked

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_server.process.console.http_connections import CONNECTION, HttpBounds, HttpConnection, HttpConnections

MemoryStream: TypeAlias = trio.StapledStream[MemorySendStream, MemoryReceiveStream]
BOUNDS = HttpBounds(
    connections=2,
    connections_of_address=2,
    head_bytes=4096,
    read_seconds=None,
    keep_alive_seconds=5.0,
    connection_seconds=60.0,
)
REQUEST = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"


@attrs.define
class Slow:
    """An application that answers when it may. /held holds its connection for 600 s."""

    may_answer: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: HttpConnection = scope["state"][CONNECTION]
        if scope["path"] == "/cut":
            connection.cut()
        if scope["path"] == "/held":
            with connection.hold(600):
                await self.may_answer.wait()
        elif scope["path"] == "/slow":
            await self.may_answer.wait()
        await PlainTextResponse(f"{scope['http_version']} {scope['path']}")(scope, receive, send)


@attrs.define
class Server:
    application: Slow
    connections: HttpConnections
    nursery: trio.Nursery
    clock: SimulatedClock

    async def ask(self, path: str = "", more: str = "") -> MemoryStream:
        """A connection that has sent a request for `path`; none if it is empty."""
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.connections.serve, theirs)
        if path:
            await ours.send_all(REQUEST % (path.encode(), more.encode()))
        await wait_all_tasks_blocked()
        return ours


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    application, clock = Slow(), SimulatedClock(Process(NodeId(1)))
    async with trio.open_nursery() as nursery:
        yield Server(application, HttpConnections(application, BOUNDS, clock), nursery, clock)
        nursery.cancel_scope.cancel()


async def rest(stream: MemoryStream) -> bytes:
    """All that comes until the connection ends."""
    try:
        return b"".join([bytes(part) async for part in stream])
    except trio.BrokenResourceError:
        return b""


async def test_a_connection_in_use_is_pushed_out_by_none(autojump_clock: MockClock) -> None:
    """Two silent connections have room. However many come, the one with a request is answered."""
    async with server() as one:
        held = await one.ask("held", "Connection: close\r\n")
        silent = [await one.ask() for _ in range(5)]
        one.application.may_answer.set()

        assert (await rest(held)).endswith(b"1.1 /held")
        assert [await rest(each) for each in silent[:3]] == [b""] * 3


async def test_a_connection_without_a_hold_gives_way(autojump_clock: MockClock) -> None:
    """As the pages of a node do: an answer takes a moment, so the oldest connection is the one that stalls."""
    async with server() as one:
        slow = await one.ask("slow")
        await one.ask()
        await one.ask()

        assert await rest(slow) == b""


@pytest.mark.parametrize(("path", "seconds"), [("slow", 60), ("held", 600), ("", 5)])
async def test_every_connection_ends(path: str, seconds: int, autojump_clock: MockClock) -> None:
    """After its own time, that of its request, or that for a head."""
    async with server() as one:
        began = one.clock.monotonic()
        stream = await one.ask(path)

        assert await rest(stream) == b""
        assert one.clock.monotonic() - began == pytest.approx(seconds, abs=0.1)


async def test_a_head_that_dribbles_has_the_same_time(autojump_clock: MockClock) -> None:
    """A byte each second does not keep a connection open."""
    async with server() as one:
        began = one.clock.monotonic()
        stream = await one.ask()

        async def dribble() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while True:
                    await stream.send_all(b"G")
                    await one.clock.sleep(1)

        one.nursery.start_soon(dribble)
        await rest(stream)
        assert one.clock.monotonic() - began == pytest.approx(5, abs=0.1)


async def test_an_application_may_cut_a_connection(autojump_clock: MockClock) -> None:
    """At once, before the answer is sent."""
    async with server() as one:
        began = one.clock.monotonic()
        assert await rest(await one.ask("cut")) == b""
        assert one.clock.monotonic() - began < 0.1


@pytest.mark.parametrize("more", ["Upgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", ""])
async def test_a_connection_stays_with_http_1(more: str, autojump_clock: MockClock) -> None:
    """HTTP/2 has bounds of its own, so an offer of it is ignored."""
    async with server() as one:
        stream = await one.ask("page", more + "Connection: close\r\n")

        answer = await rest(stream)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"1.1 /page")
