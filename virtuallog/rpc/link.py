"""The link to one other node: opens a session when needed, and a new one when that is over.

It also opens a new session when another data directory is meant. While it backs off after a
failure, posts fail at once. A caller with other nodes to ask should not wait for a timeout; one
without retries at its own pace. An idle link has no task and no connection attempt.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from copy import copy
from typing import Any, Final

import attrs
import trio
from trio.abc import Stream

from virtuallog.contract.errors import UnavailableError, UntrustedError, VirtualLogError, WrongRecipientError
from virtuallog.contract.ports import Clock, Done, Request
from virtuallog.contract.types import NodeId
from virtuallog.rpc.channel import Channel
from virtuallog.rpc.metrics import Traffic
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.methods import Methods
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.session import RpcSession
from virtuallog.rpc.transport import Connect, check_recipient
from virtuallog.runtime import log

CONNECT_SECONDS: Final = 2.0
"""Connect timeout for one address. A network that loses three packets in a row has other problems."""
BACKOFF_SECONDS_MIN: Final = 0.05
"""First pause between attempts, in seconds. Doubled after each failure."""
BACKOFF_SECONDS_MAX: Final = 2.0
"""Longest pause between attempts. A node restarts in a second or two; trying every two seconds
costs nothing."""


@attrs.frozen
class Peer:
    """Addresses and expected identity of a node."""

    addresses: tuple[str, ...]
    """host:port, the preferred one first."""
    expected: OpenNode = attrs.field(factory=OpenNode)


@attrs.define(eq=False)
class NodeLink:
    """The link to one other node, for posts."""

    node: NodeId
    _methods: Methods = attrs.field(repr=False)
    _resolve: Callable[[NodeId], Peer]
    """Returns the peer; called for each post, see `_session_now`."""
    _connect: Connect
    _clock: Clock
    _random: random.Random
    _nursery: trio.Nursery
    _report: Callable[[Done, Any], None]
    """Delivers an already known outcome on the next scheduler turn, never re-entrantly."""
    _on_broken: Callable[[NodeId], None] = lambda _: None
    """Called when an open session has ended that was still wanted. Must not block and must not post."""
    traffic: Traffic = attrs.field(factory=Traffic, init=False)
    sessions_ended: int = attrs.field(default=0, init=False)
    """Number of sessions that ended, failed attempts included."""
    _session: RpcSession | None = attrs.field(default=None, init=False)
    _failures: int = attrs.field(default=0, init=False)
    """Failures in a row since a session was last open."""
    _last_peer: Peer | None = attrs.field(default=None, init=False)
    """Peer of the last session; None before the first."""
    _error: VirtualLogError = attrs.field(factory=lambda: UnavailableError("never connected"), init=False)
    _retry_at: float = attrs.field(default=float("-inf"), init=False)

    @property
    def next_deadline(self) -> float:
        """Earliest time at which `expire` has work."""
        return math.inf if self._session is None else self._session.next_deadline

    @property
    def is_open(self) -> bool:
        return self._session is not None and self._session.is_open

    @property
    def waiting_calls(self) -> int:
        return self._session.waiting_calls if self._session is not None else 0

    @property
    def unsent_bytes(self) -> int:
        return self._session.channel.unsent_bytes if self._session is not None else 0

    def post(self, request: Request[Any], done: Done, now: float, timeout_seconds: float) -> None:
        """`Services.post`, for this node, at the time `now`."""
        try:
            session = self._session_now(now)
            session.post(request, done, now, timeout_seconds)
        except VirtualLogError as error:
            self._report(done, error)

    def expire(self, now: float) -> None:
        """Settle calls past their deadline."""
        if self._session is not None:
            self._session.expire(now)

    def close(self) -> None:
        """End the connection; calls in progress fail. The link may be used again."""
        if self._session is not None:
            self._session.end(UnavailableError("this connection is not needed any more"))

    def _session_now(self, now: float) -> RpcSession:
        """Return the session with the peer that is meant now.

        A replaced data directory may live on without knowing it, and answer as ever. Any write sent
        to it after that is lost.

        Raises:
            VirtualLogError: the last failure, if it is recent; or the resolver does not know the
                node.
        """
        try:
            peer = self._resolve(self.node)
        except VirtualLogError:  # the resolver knows no such node
            self._drop_outdated_session()
            raise
        last, session = self._last_peer, self._session
        if session is not None and last is not None:
            if peer is last or peer.expected == last.expected:
                return session
            self._drop_outdated_session()
        return self._start(peer, now)

    def _drop_outdated_session(self) -> None:
        """Drop a session with a data directory that is no longer the one meant."""
        session, self._session = self._session, None
        if session is not None:
            self._report(session.end, UnavailableError(f"who was node {self.node} is not the one meant any more"))

    def _start(self, peer: Peer, now: float) -> RpcSession:
        if now < self._retry_at and peer == self._last_peer:
            raise copy(self._error)
        channel = Channel(RpcConnection.new(self._methods), self._clock, traffic=self.traffic)
        self._last_peer = peer
        self._session = RpcSession.start(channel, peer.expected, self._on_over)
        self._nursery.start_soon(self._run, self._session, peer)
        return self._session

    async def _run(self, session: RpcSession, peer: Peer) -> None:
        """Connect and serve. Cancelled when the whole client ends: then no caller is called back
        (see `RpcServices.run`)."""
        stream = await self._connect_any(peer)
        if isinstance(stream, VirtualLogError):
            session.end(stream, is_refusal=True)  # nothing has left yet
        else:
            await session.run(stream)

    async def _connect_any(self, peer: Peer) -> Stream | VirtualLogError:
        """Open a stream to the first address that answers. After each failed session it starts one
        further down the list."""
        failure: VirtualLogError = UnavailableError(f"node {self.node} is unreachable: it has no address")
        for index in range(len(peer.addresses)):
            address = peer.addresses[(index + self._failures) % len(peer.addresses)]
            with self._clock.timeout(CONNECT_SECONDS):
                try:
                    return await self._connect_to(address)
                except (OSError, trio.BrokenResourceError, VirtualLogError) as error:
                    failure = self._failure(address, error)
                    continue
            failure = self._failure(address, f"no answer within {CONNECT_SECONDS:g} s")
        return failure

    async def _connect_to(self, address: str) -> Stream:
        stream = await self._connect(address)
        try:
            check_recipient(stream, self.node)
        except WrongRecipientError:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    def _failure(self, address: str, reason: Exception | str) -> VirtualLogError:
        match reason:
            case WrongRecipientError():
                return reason
            case UntrustedError():
                return UntrustedError(f"node {self.node} at {address}: {reason}")
            case _:
                return UnavailableError(f"node {self.node} is unreachable: {address}: {reason}")

    def _on_over(self, session: RpcSession, error: VirtualLogError) -> None:
        self.sessions_ended += 1
        log.info("link down", node=self.node, reason=str(error))
        if session is not self._session:  # another peer was meant already
            return
        self._session, self._error = None, error
        if session.is_open:  # it has worked: try again on the next post
            self._failures, self._retry_at = 0, self._clock.monotonic()
            self._on_broken(self.node)
        else:
            self._retry_at = self._clock.monotonic() + self._backoff_seconds()
            self._failures += 1

    def _backoff_seconds(self) -> float:
        longest: float = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2 ** min(self._failures, 16))
        return longest * self._random.uniform(0.5, 1.0)
