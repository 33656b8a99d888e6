"""Drives one connection machine over one stream: the same for clients and servers.

Two tasks. One receives and hands events out, synchronously and in order; one sends. Whatever is put into the outbox
within one scheduler turn leaves in one `send_all`. Nothing is read while `may_read` says no: then TCP pushes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio
from trio.abc import Stream

from virtuallog.errors import UnavailableError, VirtualLogError
from virtuallog.ports import Clock
from virtuallog.rpc.connection import Connection
from virtuallog.rpc.events import Event

RECEIVE_BYTES: Final = 64 << 10
"""Read at a time: some waves of batches. Up to 1 MiB no difference was measured; this bounds how many small calls one
read can bring."""
_GOODBYE_SECONDS: Final = 1.0
"""For the abort message of a connection that ends badly; a peer that does not take it does not need it."""


@attrs.define(eq=False)
class Channel:
    """A connection and its way to the other side. May be filled before it runs: that leaves in the first flight."""

    connection: Connection
    clock: Clock
    received_at: float = attrs.field(init=False)
    """When bytes last came; before any, when the channel was made. By the monotonic clock."""
    _sending_bytes: int = attrs.field(default=0, init=False)
    _wake_sender: trio.Event = attrs.field(factory=trio.Event, init=False)
    _wake_receiver: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _failure: VirtualLogError = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.received_at = self.clock.monotonic()
        self._failure = UnavailableError("the other side closed the connection")

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait for the other side to take them."""
        return self.connection.outbox.waiting_bytes + self._sending_bytes

    def kick(self) -> None:
        """Something has changed: the outbox was filled, or `may_read` may now say yes."""
        self._wake_sender.set()
        self._wake_receiver.set()

    def close(self, reason: VirtualLogError) -> None:
        """End the connection now; `run` returns `reason`."""
        self._failure = reason
        self._scope.cancel()

    async def run(
        self, stream: Stream, on_event: Callable[[Event], None], may_read: Callable[[], bool] = lambda: True
    ) -> VirtualLogError:
        """Serve until the connection ends; says why it did. Cancelling cuts it off.

        Args:
            stream: to the other side; closed on return.
            on_event: called for each event, in order. Must not block and must not raise.
            may_read: asked before each read.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, stream)
                    await self._receive(stream, on_event, may_read)
                    if self.connection.failure is not None:
                        with self.clock.timeout(_GOODBYE_SECONDS):
                            await self._sent()
                    nursery.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(stream)
        return self.connection.failure or self._failure

    async def _receive(self, stream: Stream, on_event: Callable[[Event], None], may_read: Callable[[], bool]) -> None:
        connection = self.connection
        while connection.failure is None:
            while not may_read():
                self._wake_receiver = trio.Event()
                await self._wake_receiver.wait()
            try:
                chunk = await stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return self._broken(error)
            if not chunk:
                return None
            self.received_at = self.clock.monotonic()
            for event in connection.receive_untrusted(bytes(chunk)):
                on_event(event)
            self._wake_sender.set()
        return None

    async def _send(self, stream: Stream) -> None:
        while True:
            await self._wake_sender.wait()
            self._wake_sender = trio.Event()
            if chunks := self.connection.outbox.take():
                data = b"".join(chunks)
                self._sending_bytes = len(data)
                try:
                    await stream.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self._broken(error)
                self._sending_bytes = 0
                self._wake_receiver.set()

    async def _sent(self) -> None:
        while self.unsent_bytes:
            self._wake_receiver = trio.Event()
            await self._wake_receiver.wait()

    def _broken(self, error: Exception) -> None:
        cause = error.__cause__ or error
        self.close(UnavailableError(f"the connection broke: {cause}"))
