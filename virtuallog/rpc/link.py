"""The way to one other node: a connection, opened when it is first needed and again when it broke.

            post                        connected, opened
    idle ----------> opening ------------------------------> open
      ^                 |                                      |
      '---- back off ---'<-------------------------------------'
                   no address answers, or the connection ends

Calls posted while the link opens leave in the first flight, behind bootstrap and Open. When the connection ends, all
calls in flight fail at once. While it backs off, posts fail at once, too: a caller that has other nodes to ask should
not wait for a timeout; one that has not, retries at a pace of its own.

A connection that is silent while calls on it time out is taken for dead (a half-open one would never tell), and
opened anew by the next post.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from typing import Any, Final

import attrs
import structlog
import trio
from trio.abc import Stream

from virtuallog.errors import OverloadedError, UnavailableError, VirtualLogError
from virtuallog.ports import Clock, Done, Request
from virtuallog.rpc.channel import Channel
from virtuallog.rpc.connection import Connection
from virtuallog.rpc.events import Event, ReturnArrived
from virtuallog.rpc.frames import FRAME_BYTES_MAX
from virtuallog.rpc.methods import Methods
from virtuallog.rpc.node import Open
from virtuallog.rpc.pending import PendingCalls
from virtuallog.rpc.transport import Connect
from virtuallog.types import NodeId

UNSENT_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""Bytes of calls that one node has not taken: two of the largest. Beyond, the node is slower than its callers."""
CONNECT_SECONDS: Final = 2.0
"""For one address. On a network where three packets in a row get lost, other things are on fire."""
SILENCE_SECONDS: Final = 5.0
"""Longer than a server that works may pause (a full collection, a slow disk under the log)."""
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 2.0
"""A node that restarts is back in a second or two; asking for it every two seconds costs nothing."""

log = structlog.get_logger(__name__)


@attrs.frozen
class Peer:
    """Where a node is, and who should be there."""

    addresses: tuple[str, ...]
    """host:port, the preferred one first."""
    expected: Open = attrs.field(factory=Open)


@attrs.define(eq=False)
class Link:
    """See above. `post` and `expire` never wait; `report` gets outcomes that are known at once, to be told later."""

    node: NodeId
    _methods: Methods = attrs.field(repr=False)
    _resolve: Callable[[NodeId], Peer]
    _connect: Connect
    _clock: Clock
    _random: random.Random
    _nursery: trio.Nursery
    _report: Callable[[Done, Any], None]
    _calls: PendingCalls = attrs.field(factory=PendingCalls, init=False)
    _channel: Channel | None = attrs.field(default=None, init=False)
    _opening: int | None = attrs.field(default=None, init=False)
    """The question that asks for the node, until it is answered."""
    _peer: Peer | None = attrs.field(default=None, init=False)
    """Whom the last attempt was for."""
    _refusal: VirtualLogError | None = attrs.field(default=None, init=False)
    """What Open was answered with, if that was no success: then nothing behind it was executed."""
    _error: VirtualLogError = attrs.field(factory=lambda: UnavailableError("never connected"), init=False)
    _failures: int = attrs.field(default=0, init=False)
    """In a row, since a connection was last open."""
    _retry_at: float = attrs.field(default=float("-inf"), init=False)

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to `expire`."""
        return len(self._calls) > 0

    def post(self, request: Request[Any], done: Done, timeout_seconds: float) -> None:
        """`Services.post`, for this node."""
        now = self._clock.monotonic()
        try:
            channel = self._channel or self._open(now)
            if channel.unsent_bytes >= UNSENT_BYTES_MAX:
                raise OverloadedError(f"node {self.node} does not keep up: {channel.unsent_bytes} bytes wait for it")
            question = channel.connection.questions.call(request)
        except VirtualLogError as error:
            self._report(done, error)
            return
        self._calls.add(question, request, done, now, timeout_seconds)
        channel.kick()

    def _open(self, now: float) -> Channel:
        peer = self._resolve(self.node)
        if now < self._retry_at and peer == self._peer:
            raise copy(self._error)
        connection = Connection.new(self._methods)
        channel = Channel(connection, self._clock)
        self._opening = connection.questions.open(peer.expected)
        self._peer, self._channel = peer, channel
        self._nursery.start_soon(self._run, channel, peer)
        return channel

    async def _run(self, channel: Channel, peer: Peer) -> None:
        """Connect, serve, and account for the end. Cancelled when the whole client ends: then calls fail, too."""
        reason = "this client was shut down"
        try:
            stream = await self._connect_any(peer)
            reason = stream if isinstance(stream, str) else str(await channel.run(stream, self._on_event))
        finally:
            self._ended(self._refusal or UnavailableError(f"node {self.node}: {reason}"))

    async def _connect_any(self, peer: Peer) -> Stream | str:
        """A stream to the first address that answers, or why there is none. Each failure starts further down the list."""
        reason = "it has no address"
        for index in range(len(peer.addresses)):
            address = peer.addresses[(index + self._failures) % len(peer.addresses)]
            with self._clock.timeout(CONNECT_SECONDS):
                try:
                    return await self._connect(address)
                except (OSError, trio.BrokenResourceError, VirtualLogError) as error:
                    reason = f"{address}: {error}"
                    continue
            reason = f"{address}: no answer within {CONNECT_SECONDS} s"
        return f"unreachable: {reason}"

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, ReturnArrived):
            return
        if event.question != self._opening:
            self._calls.settle(event.question, event.outcome)
            return
        self._opening = None
        if isinstance(event.outcome, VirtualLogError):
            assert self._channel is not None
            self._refusal = event.outcome
            self._channel.close(event.outcome)
        else:
            self._failures = 0

    def _ended(self, error: VirtualLogError) -> None:
        self._channel, self._refusal, self._error = None, None, error
        if self._opening is None:  # it was open: try again as soon as somebody needs it
            self._retry_at = self._clock.monotonic()
        else:
            self._retry_at = self._clock.monotonic() + self._backoff_seconds()
            self._failures += 1
        self._opening = None
        log.info("link down", node=self.node, reason=str(error))
        self._calls.fail_all(error)

    def _backoff_seconds(self) -> float:
        longest: float = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2 ** min(self._failures, 16))
        return longest * self._random.uniform(0.5, 1.0)

    def expire(self, now: float) -> None:
        """Settle calls past their deadline; give up a connection that has gone silent."""
        expired = self._calls.expire(now)
        channel = self._channel
        if not expired or channel is None:
            return
        for question in expired:
            channel.connection.questions.abandon(question)
        channel.kick()
        if now - channel.received_at >= SILENCE_SECONDS:
            channel.close(UnavailableError(f"silent for {now - channel.received_at:.1f} s"))
