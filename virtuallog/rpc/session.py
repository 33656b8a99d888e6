"""One connection to another node, from the first attempt to its end, with its calls.

    opening ------> open ------> over
       '-------------------------^
    Open is answered         refused, broken, silent, closed

Calls posted while it opens leave in the first flight, behind bootstrap and Open. When it is over,
for any reason, all its calls fail at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
from trio.abc import Stream

from virtuallog.contract.errors import OverloadedError, UnavailableError, UntrustedError, VirtualLogError
from virtuallog.contract.ports import Done, Request
from virtuallog.rpc.channel import Channel
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.events import ConnectionFailed, Event, ReturnArrived
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.protocol.pending_calls import PendingCalls

UNSENT_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""Bytes of calls that one node has not taken: two of the largest frames. Beyond, the node is slower
than its callers."""
SILENCE_SECONDS: Final = 5.0
"""Silence after which a connection counts as dead, in seconds.

Longer than a working server may pause (a full collection, a slow disk under the log).
"""


@attrs.define(eq=False)
class RpcSession:
    """A session with one node."""

    channel: Channel[RpcConnection]
    _on_over: Callable[[RpcSession, VirtualLogError], None]
    """Called once, before the calls fail: a caller that posts again from `done` must find a new
    session."""
    is_open: bool = attrs.field(default=False, init=False)
    """True once the node has confirmed that it is the one meant."""
    _opening: int = attrs.field(init=False)
    """Id of the question that asks for this."""
    _asked_at: float = attrs.field(default=float("-inf"), init=False)
    """Time of the first question after the node's last bytes; before it, the node had no reason to
    speak."""
    _calls: PendingCalls = attrs.field(factory=PendingCalls, init=False)
    _is_over: bool = attrs.field(default=False, init=False)

    @classmethod
    def start(
        cls, channel: Channel[RpcConnection], expected: OpenNode, on_over: Callable[[RpcSession, VirtualLogError], None]
    ) -> RpcSession:
        """Make a session that asks for the node `expected` as soon as it runs."""
        session = cls(channel, on_over)
        session._opening = channel.connection.questions.open(expected)
        return session

    @property
    def next_deadline(self) -> float:
        """Earliest time at which `expire` has work."""
        return self._calls.next_deadline

    @property
    def waiting_calls(self) -> int:
        return len(self._calls)

    def post(self, request: Request[Any], done: Done, now: float, timeout_seconds: float) -> None:
        """Send a request, or keep it until there is a stream.

        Raises:
            OverloadedError, TooLargeError, UnsupportedError: nothing was sent, `done` will not be
                called.
        """
        channel = self.channel
        if channel.unsent_bytes >= UNSENT_BYTES_MAX:
            raise OverloadedError(f"this node does not keep up: {channel.unsent_bytes} bytes wait for it")
        question = channel.connection.questions.call(request)
        self._calls.add(question, request, done, now, timeout_seconds)
        if self._asked_at <= channel.received_at:
            self._asked_at = now
        channel.kick()

    async def run(self, stream: Stream) -> None:
        """Serve the session until it is over."""
        error = await self.channel.run(stream, self._on_event)
        self.end(error, is_refusal=isinstance(error, UntrustedError))

    def _on_event(self, event: Event) -> None:
        if isinstance(event, ReturnArrived):
            if event.question != self._opening:
                self._calls.settle(event.question, event.outcome)
            elif isinstance(event.outcome, VirtualLogError):
                self.end(event.outcome, is_refusal=True)
            else:
                self.is_open = True
        elif isinstance(event, ConnectionFailed):
            self.end(event.error)

    def end(self, error: VirtualLogError, *, is_refusal: bool = False) -> None:
        """End the session.

        If the node refused it, nothing was executed, and callers get the reason as it is. Otherwise
        the outcome of each call is unknown.
        """
        if self._is_over:
            return
        self._is_over = True
        if self.channel.connection.failure is None:  # else the channel still sends its last message, and ends by itself
            self.channel.close(error)
        cause = error if is_refusal else UnavailableError(str(error))
        self._on_over(self, cause)
        self._calls.fail_all(cause)

    def expire(self, now: float) -> None:
        """Settle calls past their deadline, and end a connection without bytes for long though it
        was asked.

        A half-open connection would never report an error.
        """
        expired = self._calls.expire(now)
        for question in expired:
            self.channel.connection.questions.abandon(question)
        if expired:
            self.channel.kick()
            silence = now - max(self.channel.received_at, self._asked_at)
            if silence >= SILENCE_SECONDS:
                self.end(UnavailableError(f"silent for {silence:.1f} s"))
