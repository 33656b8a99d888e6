"""RPC server: serves handlers to every client that connects.

Handlers are called in order of arrival, on the task that received the call. Replies leave in any
order, coalesced by the channel.

Every connection is bounded. Once it owes too many answers, holds too many bytes of unanswered
requests, or its other side does not take its replies, no more is read from it. All of them together
are bounded, too; silent or stuck ones are closed in the end (`admission.py`). A connection that
breaks the protocol is closed, with a line in the log; others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import trio
from trio.abc import Listener, Stream

from virtuallog.contract.batch import BATCH_BYTES_MAX
from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import ForbiddenError, UnavailableError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock, Handlers
from virtuallog.rpc.admission import Admission, ServerLimits
from virtuallog.rpc.channel import Channel
from virtuallog.rpc.dispatch import dispatch
from virtuallog.rpc.metrics import RpcServerMetrics
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.events import CallArrived, ConnectionFailed, Event, OpenRefused
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.permissions import AppendPermission, Permissions, allow
from virtuallog.rpc.tls_acceptor import TlsAcceptor
from virtuallog.rpc.transport import accepted
from virtuallog.runtime import log

PENDING_CALLS_MAX: Final = 2048
"""Unanswered calls of one connection. Above what our own clients keep in flight; one read may
overshoot it."""
PENDING_BYTES_MAX: Final = BATCH_BYTES_MAX
"""Bytes of unanswered calls of one connection: the window of an appender at its defaults.

A quarter of what may wait for a sequencer, so that one client that floods it leaves room for
others. One frame may overshoot it.
"""
UNSENT_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""Bytes of replies that one other side has not taken before no more is read from it.

Requests already received by then may come to twice as much. Replies beyond that are dropped, so
that small requests for large reads cannot fill memory.
"""
LIGHT_BYTES: Final = 64 << 10
"""Bytes up to which the connection is not weighed on each call: a frame and its answer, in most cases."""
EXPIRE_SECONDS: Final = 1.0
"""Period of the check for expired connections, in seconds."""


class RpcServer:
    """RPC server of a node.

    Args:
        handlers: handlers of the requests.
        interfaces: wire form of the requests in `handlers`.
        identity: returns the present identity of this node; called for each new connection.
        clock: clock of this node.
        limits: limits of all connections together.
        credentials: our certificate, and the authority for those of callers. None for no TLS: then
            every caller may call everything.
        guard: decides about appends of clients.
    """

    def __init__(
        self,
        handlers: Handlers,
        interfaces: Iterable[Interface],
        identity: Callable[[], Identity],
        clock: Clock,
        limits: ServerLimits | None = None,
        credentials: Credentials | None = None,
        guard: AppendPermission = allow,
    ) -> None:
        self._handlers = handlers
        self._guard = guard
        known = tuple(interfaces)
        self._methods = bind(known)
        self._permissions = Permissions.of(known)
        self._identity = identity
        self._clock = clock
        self._warnings = RateLimitedLog(clock)
        self._tls_acceptor = TlsAcceptor(credentials, clock, self._warnings) if credentials else None
        self._admission = Admission(limits or ServerLimits())
        self._turns = trio.StrictFIFOLock()
        self._meter = RpcServerMetrics()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._admission)

    @property
    def held_bytes(self) -> int:
        """Bytes that all of them together make this node hold."""
        return self._admission.held_bytes

    def metrics(self) -> list[MetricFamily]:
        """Return the metrics of the server (`MetricsSource`)."""
        limits = self._admission.limits
        return [
            *self._meter.metrics(
                self._methods, self.connections, limits.connections_max, self.held_bytes, limits.held_bytes_max
            ),
            self._warnings.counts.family(),
        ]

    async def serve(
        self,
        listeners: Sequence[Listener[Any]],
        task_status: trio.TaskStatus[list[Listener[Any]]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until cancelled.

        While the process has no descriptors left, new connections wait (trio tries again every 0.1
        s).
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.expire)
            await trio.serve_listeners(self._serve_accepted, list(listeners), task_status=task_status)

    async def expire(self) -> None:
        """Close expired connections, for ever. A part of `serve`."""
        while True:
            await self._clock.sleep(EXPIRE_SECONDS)
            self._admission.expire(self._clock.monotonic())

    async def _serve_accepted(self, stream: Stream) -> None:
        accepted(stream)
        if self._tls_acceptor is None:
            await self.serve_stream(stream)
        elif (secured := await self._tls_acceptor.receive(stream)) is not None:
            await self.serve_stream(secured, secured.peer)

    async def serve_stream(self, stream: Stream, caller: Principal | None = None) -> None:
        """Serve one connection until it ends; closes the stream.

        Args:
            stream: stream of the connection.
            caller: owner of the certificate at the other end; None if unknowable, and everything is
                allowed.
        """
        channel = Channel(
            RpcConnection.new(self._methods, self._identity), self._clock, self._turns, self._meter.traffic
        )
        handlers = self._handlers_for(caller)
        connection = _ServerConnection(channel, handlers, self._admission, self._warnings, self._meter)
        if not self._admission.enter(connection):
            self._warnings.warn("connection refused", reason=f"{self.connections} are open and in use")
            await trio.aclose_forcefully(stream)
            return
        self._meter.accepted += 1
        try:
            await connection.run(stream)
        finally:
            self._admission.leave(connection)

    def _handlers_for(self, caller: Principal | None) -> Handlers:
        """Return the handlers that a caller may use. The first refused call of a connection is logged."""
        if caller is None:
            return self._handlers
        told = False

        def on_refused(error: ForbiddenError) -> None:
            nonlocal told
            if not told:
                told = True
                self._warnings.warn("call refused", reason=str(error))

        return self._permissions.narrow(self._handlers, caller, on_refused, self._guard)


class _ServerConnection:
    """One open connection: the `AdmittedConnection` of an `Admission`."""

    def __init__(
        self,
        channel: Channel[RpcConnection],
        handlers: Handlers,
        admission: Admission,
        warnings: RateLimitedLog,
        meter: RpcServerMetrics,
    ) -> None:
        self._channel = channel
        self._answers = channel.connection.answers
        self._handlers = handlers
        self._admission = admission
        self._warnings = warnings
        self._meter = meter
        self._closed = False
        self.arrived_at = channel.received_at
        self._weighed = 0
        """Bytes held at the last weighing."""

    @property
    def active_at(self) -> float:
        return self._channel.received_at

    @property
    def has_asked(self) -> bool:
        return self._channel.connection.received_frames > 0

    @property
    def is_idle(self) -> bool:
        return not self._answers.pending_calls and not self.held_bytes

    @property
    def held_bytes(self) -> int:
        channel = self._channel
        return channel.unsent_bytes + self._answers.pending_call_bytes + channel.connection.unfinished_bytes

    @property
    def stuck_since(self) -> float | None:
        return self._channel.stuck_since

    def end(self, reason: str) -> None:
        self._warnings.warn("connection closed", reason=reason)
        self._closed = True
        self._channel.close(UnavailableError(reason))

    async def run(self, stream: Stream) -> None:
        try:
            await self._channel.run(stream, self._on_event, self._may_read)
        finally:
            self._closed = True  # handlers may still answer; their replies are dropped

    def _may_read(self) -> bool:
        answers = self._answers
        self._weigh()
        return (
            answers.pending_calls < PENDING_CALLS_MAX
            and answers.pending_call_bytes < PENDING_BYTES_MAX
            and self._channel.unsent_bytes < UNSENT_BYTES_MAX
        )

    def _weigh(self) -> None:
        """Account for the bytes held. Those of a connection that holds little are found by the next
        `Admission.expire`: all of them hold 64 MiB at the most."""
        if self._weighed or self.held_bytes > LIGHT_BYTES:
            self._weighed = self.held_bytes
            self._admission.weigh(self)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, CallArrived):
            self._meter.calls[type(event.request)] += 1
            dispatch(self._handlers, event.request, partial(self._respond, event.answer))
        elif isinstance(event, OpenRefused):
            self._warnings.warn("connection refused", reason=str(event.error))
        elif isinstance(event, ConnectionFailed):
            self._warnings.warn("connection closed", reason=str(event.error))

    def _respond(self, answer: int, outcome: Any) -> None:
        if self._closed:
            return
        if not self._answers.owes(answer):
            log.error("a request was answered twice", outcome=type(outcome).__name__)
            return
        if isinstance(outcome, VirtualLogError):
            self._meter.errors[type(outcome)] += 1
        if self._channel.unsent_bytes > 2 * UNSENT_BYTES_MAX:
            outcome = UnavailableError(f"a reply was dropped: {self._channel.unsent_bytes} bytes wait to be taken")
        try:
            self._answers.respond(answer, outcome)
        except VirtualLogError as error:
            self._answers.respond(answer, error)
        except Exception:
            log.exception("a reply does not fit its schema", reply=type(outcome).__name__)
            self._answers.respond(answer, UnavailableError("the node failed to encode its reply"))
        self._weigh()
        self._channel.kick()
