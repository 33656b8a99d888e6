"""`TcpStream` carries the same bytes as trio's TCP stream, and ends as that does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.abc import Stream
from trio.testing import memory_stream_pair

from tests.virtuallog.rpc.shop import interfaces
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.rpc.channel import Channel
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.frames import Frame, FrameSplitter
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.tcp_stream import TcpStream, as_tcp_stream


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Stream, Stream]]:
    """Yield both ends of a connection; the first is a `TcpStream`."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        client = await trio.open_tcp_stream(*listener.socket.getsockname()[:2])
        server = await listener.accept()
        async with client, server:
            yield as_tcp_stream(client), server


async def test_what_is_sent_arrives_and_the_end_is_seen() -> None:
    """Bytes arrive both ways; after the other side has closed, no more come."""
    async with connected() as (ours, theirs):
        await ours.send_all(b"there")
        assert await theirs.receive_some(10) == b"there"
        await theirs.send_all(b"and back")
        assert await ours.receive_some(3) == b"and"
        assert await ours.receive_some() == b" back"
        await theirs.aclose()
        assert await ours.receive_some() == b""


async def test_more_than_the_socket_takes_is_sent_as_room_comes() -> None:
    """A sender waits for a slow receiver, and every byte arrives, in order."""
    data = bytes(range(256)) * (64 << 10)
    async with connected() as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, data)
        received = bytearray()
        while len(received) < len(data):
            received += await theirs.receive_some(100_000)
        assert received == data


async def test_a_wait_can_be_cancelled_and_loses_nothing() -> None:
    """Bytes after a cancelled receive are there for the next one."""
    async with connected() as (ours, theirs):
        with trio.CancelScope() as scope:
            scope.cancel()
            await ours.receive_some()
        assert scope.cancelled_caught
        await theirs.send_all(b"late")
        assert await ours.receive_some() == b"late"


async def test_a_broken_connection_and_a_closed_stream_are_told_apart() -> None:
    """The error tells a connection broken by the other side from a stream closed by our own."""
    async with connected() as (ours, theirs):
        await theirs.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await ours.send_all(bytes(64 << 20))  # more than any buffer on the way takes
        await ours.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await ours.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await ours.send_all(b"too late")


def test_streams_that_are_not_plain_tcp_stay_as_they_are() -> None:
    """TLS streams and streams in memory stay as they are: they have no socket."""
    ours, _ = memory_stream_pair()
    assert as_tcp_stream(ours) is ours


class _OutOfBuffers(TcpStream):
    """The system has no buffers left for one write, and then it has: ENOBUFS."""

    failures = 1

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        if self.failures:
            self.failures -= 1
            raise trio.BrokenResourceError("no buffer space available")
        return super().send_now(data)


async def test_nothing_leaves_before_what_the_socket_has_refused() -> None:
    """Frames of a failed write are sent again, before later ones."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        client = await trio.open_tcp_stream(*listener.socket.getsockname()[:2])
        channel = Channel(RpcConnection.new(bind(interfaces())), TrioClock())
        nursery.start_soon(channel.run, _OutOfBuffers(client), lambda event: None)
        await trio.testing.wait_all_tasks_blocked()
        async with await listener.accept() as server:
            splitter, frames = FrameSplitter(), list[Frame]()
            for letter in b"abc":
                channel.connection.outbox.put([bytes([letter]) * 8])
                channel.kick()
                await trio.lowlevel.checkpoint()
            while len(frames) < 3 and (chunk := await server.receive_some()):
                frames += splitter.feed_untrusted(bytes(chunk))

        assert [bytes(segment) for (segment,) in frames] == [b"a" * 8, b"b" * 8, b"c" * 8]
        nursery.cancel_scope.cancel()


async def test_reading_goes_on_once_everything_was_sent_in_one_go() -> None:
    """Reading goes on once the socket has taken everything at the end of the turn.

    Nothing is read while bytes wait to be sent. A task that waits for room is woken.
    """
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        client = await trio.open_tcp_stream(*listener.socket.getsockname()[:2])
        channel = Channel(RpcConnection.new(bind(interfaces())), TrioClock())
        nursery.start_soon(channel.run, client, lambda event: None, lambda: not channel.unsent_bytes)
        async with await listener.accept() as server:
            await trio.testing.wait_all_tasks_blocked()
            channel.connection.outbox.put([bytes(64)])
            for count in (1, 2):
                await server.send_all(b"\0")
                await _until(lambda wanted=count: channel.traffic.received_bytes == wanted)  # type: ignore[misc]
            assert channel.traffic.sent_bytes > 64
        nursery.cancel_scope.cancel()


async def _until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test fails if it never comes."""
    with trio.fail_after(5):
        while not condition():
            await trio.sleep(0.001)
