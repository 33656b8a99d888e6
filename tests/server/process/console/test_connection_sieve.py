"""New connections on real sockets, on a mock clock: those of use are served, the others are refused or closed."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import attrs
import pytest
import trio
from trio.abc import Stream
from trio.testing import MockClock

from virtuallog.contract.address import split_address
from virtuallog.contract.types import NodeId
from virtuallog.rpc.connection_pace import ConnectionPace
from virtuallog.rpc.connection_slots import ConnectionSlots
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.transport import bound_address, tcp_listen
from virtuallog.testing.logs import capture_logs
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_server.process.console.connection_sieve import PAUSE_SECONDS, ConnectionSieve
from virtuallog_server.process.console.first_bytes import opening_of_http

SECONDS = 5.0
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
REQUEST = HEAD + b"\r\n"


@attrs.define
class Port:
    """Port of a sieve in front of a service that answers `served`."""

    number: int
    clock: SimulatedClock
    clients: AsyncExitStack
    """Closes their connections."""
    served: list[bytes] = attrs.field(factory=list)
    """First bytes of all connections that were passed on."""
    came: int = 0
    changed: trio.Event = attrs.field(factory=trio.Event)

    async def connect(self, sent: bytes = b"") -> trio.SocketStream:
        stream = await self.clients.enter_async_context(await trio.open_tcp_stream("127.0.0.1", self.number))
        if sent:
            await stream.send_all(sent)
        return stream

    async def serve(self, stream: Stream) -> None:
        async with stream:
            self.served.append(bytes(await stream.receive_some()))
            await stream.send_all(b"served")

    async def until_came(self, count: int) -> None:
        """Wait until so many connections were accepted."""
        while self.came < count:
            await self.changed.wait()

    def count(self) -> None:
        self.came += 1
        self.changed.set()
        self.changed = trio.Event()


@asynccontextmanager
async def port(pace: ConnectionPace | None = None, slots: int = 8) -> AsyncIterator[Port]:
    clock = SimulatedClock(Process(NodeId(1)))
    (listener,) = await tcp_listen("127.0.0.1:0")
    with capture_logs():
        async with AsyncExitStack() as clients, trio.open_nursery() as nursery:
            one = Port(split_address(bound_address(listener))[1], clock, clients)
            sieve = ConnectionSieve(
                opening=opening_of_http(1000, SECONDS),
                clock=clock,
                slots=ConnectionSlots(slots, slots),
                warnings=RateLimitedLog(clock),
                pace=pace,
                came=one.count,
            )
            nursery.start_soon(sieve.run, listener, one.serve)
            yield one
            nursery.cancel_scope.cancel()


async def rest(stream: trio.SocketStream) -> bytes:
    """All that comes until the connection ends."""
    parts = list[bytes]()
    with suppress(trio.BrokenResourceError):
        while part := await stream.receive_some():
            parts.append(bytes(part))
    return b"".join(parts)


async def test_a_whole_head_is_passed_on_with_all_of_its_bytes(autojump_clock: MockClock) -> None:
    """Looking at them takes none, and no time."""
    async with port() as one:
        began = one.clock.monotonic()
        assert await rest(await one.connect(REQUEST)) == b"served"
        assert one.served == [REQUEST]
        assert one.clock.monotonic() == began


async def test_other_bytes_are_refused_with_a_reason(autojump_clock: MockClock) -> None:
    """The client can read it, also if it has sent more than a head may have; the service does not see it."""
    async with port() as one:
        large = HEAD + b"X: " + b"x" * 2000
        for sent, status in ((b"\x16\x03\x01\x02\x00", b"400"), (b"SSH-2.0-x\r\n", b"400"), (large, b"431")):
            answer = await rest(await one.connect(sent))
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.endswith(b"\n")
        assert one.served == []


@pytest.mark.skipif(not hasattr(socket, "TCP_DEFER_ACCEPT"), reason="an option of Linux")
async def test_a_silent_connection_is_not_there_yet(autojump_clock: MockClock) -> None:
    """One that came later and speaks is served first. The silent one is served once it speaks."""
    async with port() as one:
        silent = await one.connect()
        assert await rest(await one.connect(REQUEST)) == b"served"
        assert one.came == 1
        await silent.send_all(REQUEST)
        assert await rest(silent) == b"served"
        assert one.came == 2


async def test_a_head_in_two_parts_is_served(autojump_clock: MockClock) -> None:
    """Looks at it become rarer, so that one that drips costs little."""
    async with port() as one:
        stream = await one.connect(HEAD)
        await one.until_came(1)
        await stream.send_all(b"\r\n")
        assert await rest(stream) == b"served"
        assert one.served == [REQUEST]


async def test_a_head_that_does_not_end_has_its_time(autojump_clock: MockClock) -> None:
    """Then the connection is closed."""
    async with port() as one:
        began = one.clock.monotonic()
        assert await rest(await one.connect(HEAD)) == b""
        assert SECONDS <= one.clock.monotonic() - began <= SECONDS + 2 * PAUSE_SECONDS


async def test_of_too_many_without_a_head_the_oldest_is_closed(autojump_clock: MockClock) -> None:
    """The others keep their places, and are served when their heads are whole."""
    async with port(slots=2) as one:
        streams = []
        for number in range(3):
            streams.append(await one.connect(HEAD))
            await one.until_came(number + 1)
        assert await rest(streams[0]) == b""
        for stream in streams[1:]:
            await stream.send_all(b"\r\n")
        assert [await rest(stream) for stream in streams[1:]] == [b"served"] * 2


async def test_connections_of_an_address_keep_its_pace(autojump_clock: MockClock) -> None:
    """The first is served at once, the second in its turn, and a third is closed: its turn would be too late. A turn that is given back is
    free again."""
    pace = ConnectionPace(per_second=1, burst=1, wait_seconds=1.5)
    async with port(pace) as one:
        began, waited = one.clock.monotonic(), list[float]()
        assert await rest(await one.connect(REQUEST)) == b"served"
        second = await one.connect(REQUEST)
        await one.until_came(2)
        third = await one.connect(REQUEST)
        for stream, answer in ((second, b"served"), (third, b"")):
            assert await rest(stream) == answer
            waited.append(one.clock.monotonic() - began)
        assert 1.0 <= waited[0] <= 1.0 + 2 * PAUSE_SECONDS


async def test_the_end_closes_all_that_wait(autojump_clock: MockClock) -> None:
    """A cancelled sieve leaves no connection open."""
    async with AsyncExitStack() as clients:
        async with port() as one:
            one.clients = clients
            stream = await one.connect(HEAD)
            await one.until_came(1)
        assert await rest(stream) == b""
        with pytest.raises(OSError, match="attempts to connect"):
            await one.connect()
