"""A server of the database in this process, behind a port that loses one answer: the connection breaks instead, as in a lost network."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

import attrs
import trio
from trio.testing import memory_stream_pair

from tests.server.zookeeper.world import World, served
from virtuallog_server.local_cluster.layout import HOST

_HEADER: Final = struct.Struct(">ii")
_CREATES: Final = (1, 15)


@attrs.define(eq=False)
class LossyPort:
    """Hands connections on to the server."""

    world: World
    path: bytes
    """The first create of this path is carried out, and its answer is lost."""
    lost: int = attrs.field(default=0, init=False)
    """Answers that were lost."""

    async def serve(self, client: trio.SocketStream) -> None:
        """One connection."""
        near, far = memory_stream_pair()
        self.world.nursery.start_soon(self.world.server.serve_stream, far, HOST)
        doomed: set[int] = set()
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with client, near, trio.open_nursery() as nursery:
                nursery.start_soon(self._ask, client, near, doomed, nursery.cancel_scope)
                nursery.start_soon(self._answer, near, client, doomed, nursery.cancel_scope)

    async def _ask(
        self, client: trio.abc.Stream, server: trio.abc.Stream, doomed: set[int], scope: trio.CancelScope
    ) -> None:
        async with aclosing(_frames(client)) as frames:
            async for frame in frames:
                xid, opcode = _HEADER.unpack_from(frame, 4)
                if opcode in _CREATES and self.path in frame and not self.lost:
                    doomed.add(xid)
                await server.send_all(frame)
        scope.cancel()

    async def _answer(
        self, server: trio.abc.Stream, client: trio.abc.Stream, doomed: set[int], scope: trio.CancelScope
    ) -> None:
        async with aclosing(_frames(server)) as frames:
            async for frame in frames:
                if _HEADER.unpack_from(frame, 4)[0] in doomed:
                    self.lost += 1
                    break
                await client.send_all(frame)
        scope.cancel()


async def _frames(stream: trio.abc.ReceiveStream) -> AsyncGenerator[bytes, None]:
    """Frames with their lengths, until the other side closes."""
    buffer = bytearray()
    while piece := await stream.receive_some():
        buffer += piece
        while len(buffer) >= 4 and len(buffer) >= (size := 4 + int.from_bytes(buffer[:4], "big")):
            yield bytes(buffer[:size])
            del buffer[:size]


@asynccontextmanager
async def open_lossy_server(path: str) -> AsyncIterator[tuple[str, LossyPort]]:
    """A server for the length of the block: its address, and its port."""
    async with served() as world:
        port = LossyPort(world, path.encode())
        listeners = await trio.open_tcp_listeners(0, host=HOST)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, port.serve, listeners)
            yield f"{HOST}:{listeners[0].socket.getsockname()[1]}", port
            nursery.cancel_scope.cancel()
