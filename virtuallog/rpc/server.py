"""Serves handlers to whoever connects.

Handlers are called in order of arrival, on the task that received the call; replies leave in any order, coalesced by
the channel. Every connection is bounded: once it owes too many answers, holds too many bytes of unanswered requests, or
its other side does not take its replies, no more is read from it. A connection that breaks the protocol is closed,
with a line in the log; others do not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import structlog
import trio
from trio.abc import Listener, Stream

from virtuallog.errors import UnavailableError, VirtualLogError
from virtuallog.ports import Clock, Handlers
from virtuallog.rpc.channel import Channel
from virtuallog.rpc.connection import Connection
from virtuallog.rpc.dispatch import dispatch
from virtuallog.rpc.events import CallArrived, Event, Failed
from virtuallog.rpc.frames import FRAME_BYTES_MAX
from virtuallog.rpc.interface import Interface
from virtuallog.rpc.methods import bind
from virtuallog.rpc.node import Identity
from virtuallog.rpc.transport import accepted

CONNECTIONS_MAX: Final = 1024
"""At a time. A node has one of each other node and of each client; more is a leak, or an attack."""
PENDING_CALLS_MAX: Final = 2048
"""Unanswered calls of one connection. Above what our own clients keep in flight; one read may overshoot it."""
PENDING_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""Bytes of unanswered calls of one connection: two of the largest, so that one can come while one is served."""
UNSENT_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""Bytes of replies that one other side has not taken before no more is read from it. What it has asked for by then
may come to twice as much: replies beyond that are dropped, so that small requests for large reads cannot fill memory."""

log = structlog.get_logger(__name__)


class RpcServer:
    """See above.

    Args:
        handlers: what is served.
        interfaces: the wire form of the requests in `handlers`.
        identity: of this node, as of now; asked whenever somebody opens a connection.
        clock: of this node.
    """

    def __init__(
        self, handlers: Handlers, interfaces: Iterable[Interface], identity: Callable[[], Identity], clock: Clock
    ) -> None:
        self._handlers = handlers
        self._methods = bind(interfaces)
        self._identity = identity
        self._clock = clock
        self._connections = 0

    async def serve(
        self,
        listeners: Sequence[Listener[Any]],
        task_status: trio.TaskStatus[list[Listener[Any]]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until cancelled."""
        await trio.serve_listeners(self._serve_accepted, list(listeners), task_status=task_status)

    async def _serve_accepted(self, stream: Stream) -> None:
        accepted(stream)
        await self.serve_stream(stream)

    async def serve_stream(self, stream: Stream) -> None:
        """Serve one connection until it ends; closes the stream."""
        if self._connections >= CONNECTIONS_MAX:
            log.warning("connection refused", reason=f"{CONNECTIONS_MAX} are open")
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        channel = Channel(Connection.new(self._methods, self._identity), self._clock)
        try:
            await _ServerConnection(channel, self._handlers).run(stream)
        finally:
            self._connections -= 1


class _ServerConnection:
    """One connection, as long as it lives."""

    def __init__(self, channel: Channel, handlers: Handlers) -> None:
        self._channel = channel
        self._answers = channel.connection.answers
        self._handlers = handlers
        self._closed = False

    async def run(self, stream: Stream) -> None:
        try:
            await self._channel.run(stream, self._on_event, self._may_read)
        finally:
            self._closed = True  # handlers may still answer: into the void

    def _may_read(self) -> bool:
        answers = self._answers
        return (
            answers.pending_calls < PENDING_CALLS_MAX
            and answers.pending_call_bytes < PENDING_BYTES_MAX
            and self._channel.unsent_bytes < UNSENT_BYTES_MAX
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, CallArrived):
            dispatch(self._handlers, event.request, partial(self._respond, event.answer))
        elif isinstance(event, Failed):
            log.warning("connection closed", reason=str(event.error))

    def _respond(self, answer: int, outcome: Any) -> None:
        if self._closed:
            return
        if self._channel.unsent_bytes > 2 * UNSENT_BYTES_MAX:
            outcome = UnavailableError(f"a reply was dropped: {self._channel.unsent_bytes} bytes wait to be taken")
        try:
            self._answers.respond(answer, outcome)
        except VirtualLogError as error:
            self._answers.respond(answer, error)
        except Exception:
            log.exception("a reply does not fit its schema", reply=type(outcome).__name__)
            self._answers.respond(answer, UnavailableError("the node failed to encode its reply"))
        self._channel.kick()
