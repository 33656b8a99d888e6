"""A way to a real server that a test can cut: all connections over it break, and new ones are taken at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import attrs
import trio

_BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


@attrs.define(eq=False)
class Proxy:
    """On a port of its own, to `target` on the same machine."""

    target: int
    port: int = 0
    cuts: int = 0
    """Connections that were cut."""
    _streams: set[trio.SocketStream] = attrs.field(factory=set)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def cut(self) -> None:
        """Every connection ends here: what was under way in either direction may or may not have arrived."""
        for stream in list(self._streams):
            self.cuts += 1
            await trio.aclose_forcefully(stream)

    async def serve(self, one: trio.SocketStream) -> None:
        with suppress(*_BROKEN):
            async with await trio.open_tcp_stream("127.0.0.1", self.target) as other:
                self._streams.add(one)
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_pump, one, other)
                        nursery.start_soon(_pump, other, one)
                finally:
                    self._streams.discard(one)


async def _pump(source: trio.SocketStream, target: trio.SocketStream) -> None:
    with suppress(*_BROKEN):
        async for data in source:
            await target.send_all(data)
    await trio.aclose_forcefully(target)
    await trio.aclose_forcefully(source)


@asynccontextmanager
async def open_proxy(target: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
