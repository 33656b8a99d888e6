"""One end of a simulated TCP connection: a trio stream, and its kernel's behaviour at close or
process death."""

from __future__ import annotations

import enum
from typing import Protocol

import attrs
import trio

from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_segments import Incoming, Outgoing, TcpSegment


class Carrier(Protocol):
    """The connection, as an end sees it."""

    def other(self, end: SimulatedStream) -> SimulatedStream: ...

    def tell_reset(self, end: SimulatedStream) -> None:
        """Tell this end, over the network, that there is no such connection."""
        ...

    def was_forgotten(self, end: SimulatedStream) -> None:
        """Record that this end is gone with the power of its machine."""
        ...

    def was_ended(self) -> None:
        """Record that one of the ends is no longer open."""
        ...


class _State(enum.Enum):
    OPEN = "open"
    CLOSED = "closed"
    """Closed by its own side."""
    BROKEN = "broken"
    GONE = "gone"
    """Gone with the memory of its machine."""


@attrs.define(eq=False)
class SimulatedStream(trio.abc.Stream):
    """One end. At most one task sends and one receives, as everywhere in trio."""

    connection: Carrier
    process: Process
    outgoing: Outgoing
    incoming: Incoming
    _state: _State = attrs.field(default=_State.OPEN, init=False)
    _reason: OSError | None = attrs.field(default=None, init=False)
    """Reason why it is broken; None if it is not."""

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN and self.process.alive

    @property
    def peer(self) -> SimulatedStream:
        return self.connection.other(self)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send as `trio.abc.SendStream`. Returns once all is in the buffer; the bytes may still be
        lost."""
        rest = memoryview(data)
        await self._sendable()
        while rest := rest[self.outgoing.offer(rest) :]:
            await self.outgoing.room.park()
            await self._sendable()

    async def wait_send_all_might_not_block(self) -> None:
        await self._sendable()
        while self.outgoing.room_bytes <= 0:
            await self.outgoing.room.park()
            await self._sendable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive as `trio.abc.ReceiveStream`. Bytes that came before the connection broke can
        still be read."""
        if not self.incoming.ready_bytes and self.is_open and not self.incoming.has_ended:
            await self.incoming.arrived.park()
        else:
            await trio.lowlevel.checkpoint()
        while True:
            await self._running()
            if self._state is _State.CLOSED:
                raise trio.ClosedResourceError
            if chunk := self.incoming.read(max_bytes):
                self.peer.outgoing.was_read(len(chunk))
                return chunk
            self._check_unbroken()
            if self.incoming.has_ended:
                return b""
            await self.incoming.arrived.park()

    async def aclose(self) -> None:
        """Close without waiting. Does nothing if the process is dead: the kernel has closed it
        already."""
        if self.process.alive:
            self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close as a kernel does, for `aclose` or for a process that has ended."""
        if self._state is not _State.OPEN:
            return
        self._end(_State.CLOSED)
        if self.incoming.ready_bytes:
            self.outgoing.stop()
            self.connection.tell_reset(self.peer)
        else:
            self.outgoing.finish()

    def lose_power(self) -> None:
        """Forget the connection with the machine's power; the other end does not know."""
        self.outgoing.stop()
        if self._state is _State.OPEN:
            self._end(_State.GONE)
            self.connection.was_forgotten(self)

    def break_off(self, reason: OSError) -> None:
        """Break this end: from now on its use fails."""
        self.outgoing.stop()
        if self._state is _State.OPEN:
            self._reason = reason
            self._end(_State.BROKEN)

    def take_in(self, segment: TcpSegment) -> bool:
        """Take a segment. False if this end knows no connection that it could belong to."""
        if self.is_open:
            self.incoming.take_in(segment)
            return True
        return self._state is _State.CLOSED and not segment.content  # both have finished

    async def _sendable(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._running()
        if self._state is _State.CLOSED:
            raise trio.ClosedResourceError
        self._check_unbroken()

    async def _running(self) -> None:
        if self.process.paused or not self.process.alive:  # checked first, as it is rare and a call costs
            await self.process.wait_running()

    def _check_unbroken(self) -> None:
        if self._reason is not None:
            raise trio.BrokenResourceError from self._reason

    def _end(self, state: _State) -> None:
        self._state = state
        self.outgoing.room.unpark_all()
        self.incoming.arrived.unpark_all()
        self.connection.was_ended()
