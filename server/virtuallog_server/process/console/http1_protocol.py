"""HTTP/1.1 of one connection, by Hypercorn, over any stream.

Hypercorn's `TCPServer` takes sockets and trio's TLS streams, and lets a client go on with HTTP/2 in the middle of a connection, which
has bounds of its own. This one takes our TLS streams, and speaks HTTP/1.1 alone: `Upgrade: h2c` is ignored, as RFC 9110 allows.
"""

from __future__ import annotations

from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from trio.abc import Stream


class Http1Protocol(H11Protocol):
    """A connection that stays with HTTP/1.1."""

    async def _check_protocol(self, event: Any) -> None:
        """Take every request as one of HTTP/1.1."""


class Http1Connection(TCPServer):
    """One connection; await it to serve it.

    Args:
        app: the application, wrapped by `hypercorn.utils.wrap_app`.
        config: bounds of Hypercorn.
        context: shared by all connections of a server.
        stream: the stream, TLS included.
        client: host and port of the other side.
        secured: True if the stream is inside TLS.
        state: values for `scope["state"]` of each request.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        stream: Stream,
        client: tuple[str, int],
        secured: bool,
        state: dict[str, Any],
    ) -> None:
        super().__init__(app, config, context, ConnectionState(state), stream)  # type: ignore[arg-type]
        self._client = client
        self._secured = secured

    async def run(self) -> None:
        """Serve until the connection ends. An error of the network ends it in order."""
        try:
            async with TaskGroup() as task_group:
                self._task_group = task_group
                self.protocol = Http1Protocol(  # type: ignore[assignment]
                    self.app,
                    self.config,
                    self.context,
                    task_group,
                    ConnectionState(self.state.copy()),
                    self._secured,
                    self._client,
                    None,
                    self.protocol_send,
                )
                await self.protocol.initiate()
                await self.idle_task.restart(task_group, self._idle_timeout)
                await self._read_data()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await self._close()
