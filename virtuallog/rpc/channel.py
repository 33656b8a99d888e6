"""Driver of one connection machine over one stream; the same for clients and servers.

Two tasks. One receives and hands events out, synchronously and in order; one sends. Over TCP, with
TLS or without, the outbox leaves without the sending task, which has only that to do which the socket does not take
at once: all answers to one read leave together, and everything else at the end of the scheduler
turn. Nothing is read while `may_read` returns False: then TCP pushes back.

The bytes of one read are handled in one go, and all other tasks wait for it. So a connection that
sends many small messages gets smaller reads, until one brings about `FRAMES_AT_ONCE`. After each it
stands in line (`turns`) with all others of that kind. Batches and waves are few and large; they are
never affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
import trio
from trio.abc import Stream

from virtuallog.contract.errors import UnavailableError, UntrustedError, VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.rpc.metrics import Traffic
from virtuallog.rpc.protocol.frames import Outbox
from virtuallog.rpc.security.tls_stream import EncryptedStream
from virtuallog.rpc.tcp_stream import TcpStream, as_tcp_stream
from virtuallog.runtime.end_of_turn import EndOfTurn, end_of_turn

RECEIVE_BYTES: Final = 64 << 10
"""Bytes read at a time: some waves of batches. Bounds the number of small calls in one read; up to
1 MiB no difference was measured."""
READ_BYTES_MIN: Final = 4 << 10
"""Least bytes read at a time, however small the frames are. The size is halved when a read brings too many."""
FRAMES_AT_ONCE: Final = 64
"""Frames handled in one go: two milliseconds of work, if they are calls."""
SEND_BYTES: Final = 256 << 10
"""Bytes sent at a time: the other side must take so many for its connection to count as alive.

Not much more is joined, as joined bytes stay in memory, and count as unsent, until the last byte is
taken.
"""
_GOODBYE_SECONDS: Final = 1.0
"""Timeout for the abort message of a connection that ends badly. A peer that does not take it does
not need it."""


class ConnectionCore(Protocol):
    """A connection without I/O: the meaning of its bytes, and the bytes to send."""

    outbox: Outbox
    failure: VirtualLogError | None
    """Reason why it is over; None if it is not. Nothing more is received; the outbox is still sent."""
    received_frames: int

    @property
    def unfinished_bytes(self) -> int:
        """Bytes received of an incomplete message."""
        ...

    def receive_untrusted(self, chunk: bytes) -> Iterable[Any]:
        """Return the events in `chunk`."""
        ...


MachineT = TypeVar("MachineT", bound=ConnectionCore)


def _as_it_is(data: bytes) -> bytes:
    return data


@attrs.define(eq=False)
class Channel(Generic[MachineT]):
    """A connection core and its stream. May be filled before it runs: that leaves with the first
    bytes."""

    connection: MachineT
    clock: Clock
    received_at: float = attrs.field(init=False)
    """Time at which the last bytes received had been handed out, by the monotonic clock; before any, the
    time the channel was made. A wait until more may be read leaves it as it is."""
    turns: trio.StrictFIFOLock | None = None
    """Queue of all connections of a server; None on a client."""
    traffic: Traffic = attrs.field(factory=Traffic)
    """Counters of bytes, possibly shared by several connections."""
    _unfinished_since: float | None = attrs.field(default=None, init=False)
    _untaken_since: float | None = attrs.field(default=None, init=False)
    _read_bytes: int = attrs.field(default=RECEIVE_BYTES, init=False)
    _sending_bytes: int = attrs.field(default=0, init=False)
    _unsent: bytes = attrs.field(default=b"", init=False)
    """Bytes taken out of the outbox, and not yet taken by the socket; counted in `_sending_bytes`."""
    _end: EndOfTurn = attrs.field(factory=end_of_turn, init=False)
    _at_once: TcpStream | None = attrs.field(default=None, init=False)
    """Socket for sending without the sending task; None if there is none."""
    _encode: Callable[[bytes], bytes] = attrs.field(default=_as_it_is, init=False)
    """Turns bytes of the outbox into bytes for the network: encrypts them, over TLS."""
    _leaves_at_once: bool = attrs.field(default=False, init=False)
    _wake_sender: trio.Event = attrs.field(factory=trio.Event, init=False)
    _wake_receiver: trio.Event = attrs.field(factory=trio.Event, init=False)
    _waits_for_room: bool = attrs.field(default=False, init=False)
    """True while a task waits until bytes are sent, or may be read."""
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _failure: VirtualLogError = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.received_at = self.clock.monotonic()
        self._failure = UnavailableError("the other side closed the connection")

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the other side has not taken yet."""
        return self.connection.outbox.waiting_bytes + self._sending_bytes

    @property
    def stuck_since(self) -> float | None:
        """Time since when the other side owes the rest of a message, or has taken no bytes; None if
        neither."""
        return min(
            (since for since in (self._unfinished_since, self._untaken_since) if since is not None), default=None
        )

    def kick(self) -> None:
        """Wake the channel: the outbox was filled, or `may_read` may return True now."""
        self._send_soon()
        if self._waits_for_room:
            self._wake_receiver.set()

    def close(self, reason: VirtualLogError) -> None:
        """End the connection now; `run` returns `reason`."""
        self._failure = reason
        self._scope.cancel()

    async def run(
        self, stream: Stream, on_event: Callable[[Any], None], may_read: Callable[[], bool] = lambda: True
    ) -> VirtualLogError:
        """Serve until the connection ends; return the reason. Cancelling cuts it off.

        Args:
            stream: stream to the other side; closed on return.
            on_event: called for each event, in order. Must not block and must not raise.
            may_read: called before each read; False to wait.
        """
        stream = as_tcp_stream(stream)
        network = stream
        if isinstance(stream, EncryptedStream):
            network = stream.transport_stream = as_tcp_stream(stream.transport_stream)
            self._encode = stream.encrypt
        if isinstance(network, TcpStream):
            self._at_once = network
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, network)
                    # A task of its own: to wake it, trio need not pass through all that awaits this method.
                    nursery.start_soon(self._receive_all, stream, on_event, may_read)
        finally:
            self._at_once = None
            await trio.aclose_forcefully(stream)
        return self.connection.failure or self._failure

    async def _receive_all(self, stream: Stream, on_event: Callable[[Any], None], may_read: Callable[[], bool]) -> None:
        await self._receive(stream, on_event, may_read)
        if self.connection.failure is not None:
            with self.clock.timeout(_GOODBYE_SECONDS):
                await self._sent()
        self._scope.cancel()

    async def _receive(self, stream: Stream, on_event: Callable[[Any], None], may_read: Callable[[], bool]) -> None:
        connection = self.connection
        while connection.failure is None:
            if not may_read():
                await self._wait_until(may_read)
                continue  # the connection may be over by now
            try:
                chunk = await stream.receive_some(self._read_bytes)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return self._broken(error)
            if not chunk:
                return None
            self.traffic.received_bytes += len(chunk)
            before = connection.received_frames
            for event in connection.receive_untrusted(bytes(chunk)):
                on_event(event)
            if connection.outbox.waiting_bytes:
                self._send_soon()
            self._end.flush()
            frames = connection.received_frames - before
            self._note_received(frames)
            is_much = frames > FRAMES_AT_ONCE // 2
            if self.turns is not None and (is_much or len(chunk) == self._read_bytes):
                self._size_next_read(len(chunk), frames)
                if is_much:
                    async with self.turns:
                        await trio.lowlevel.checkpoint()
        return None

    async def _wait_until(self, may_read: Callable[[], bool]) -> None:
        """Wait until `may_read`. A missing rest of a message is our doing meanwhile."""
        self._unfinished_since = None
        while not may_read():
            await self._wait_for_room()
        self._note_rest(0, self.clock.monotonic())

    async def _wait_for_room(self) -> None:
        self._wake_receiver = trio.Event()
        self._waits_for_room = True
        await self._wake_receiver.wait()
        self._waits_for_room = False

    def _note_received(self, frames: int) -> None:
        self.received_at = self.clock.monotonic()
        self._note_rest(frames, self.received_at)

    def _note_rest(self, frames: int, now: float) -> None:
        """Note since when the rest of a message is missing."""
        if not self.connection.unfinished_bytes:
            self._unfinished_since = None
        elif frames or self._unfinished_since is None:
            self._unfinished_since = now

    def _size_next_read(self, size: int, frames: int) -> None:
        if frames > FRAMES_AT_ONCE:
            self._read_bytes = max(READ_BYTES_MIN, self._read_bytes // 2)
        elif size == self._read_bytes and 2 * frames <= FRAMES_AT_ONCE:
            self._read_bytes = min(RECEIVE_BYTES, self._read_bytes * 2)

    def _send_soon(self) -> None:
        """Send at the end of this turn; behind the bytes being sent, if the socket could not take
        them at once."""
        if self._at_once is None or self._sending_bytes:
            self._wake_sender.set()
        elif not self._leaves_at_once:
            self._leaves_at_once = True
            self._end.put(self._send_at_once)

    def _send_at_once(self) -> None:
        """Send without waiting. Called between two turns: work that wakes a task is left for the
        next one."""
        self._leaves_at_once = False
        if self._at_once is None or self._sending_bytes:
            return
        stream, outbox = self._at_once, self.connection.outbox
        while outbox.waiting_bytes:
            try:
                data = self._encode(b"".join(outbox.take(SEND_BYTES)))
            except trio.BrokenResourceError as error:
                self._end.later(partial(self._broken, error))
                return
            try:
                sent = stream.send_now(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                sent = 0  # the sending task finds out if that is the end; nothing may leave before these bytes
            self.traffic.sent_bytes += sent
            if sent < len(data):
                self._unsent, self._sending_bytes = data[sent:], len(data) - sent
                self._end.later(self._wake_sender.set)
                return
        if self._waits_for_room:
            self._end.later(self._wake_receiver.set)

    async def _send(self, network: Stream) -> None:
        outbox = self.connection.outbox
        while True:
            await self._wake_sender.wait()
            self._wake_sender = trio.Event()
            while self._unsent or outbox.waiting_bytes:
                try:
                    data = self._unsent or self._encode(b"".join(outbox.take(SEND_BYTES)))
                    self._unsent, self._sending_bytes = b"", len(data)
                    await self._send_pieces(network, data)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self._broken(error)
                self._sending_bytes = 0
                self._wake_receiver.set()
            self._wake_receiver.set()

    async def _send_pieces(self, network: Stream, data: bytes) -> None:
        if len(data) <= SEND_BYTES:
            await self._send_piece(network, data)
            return
        whole = memoryview(data)
        for start in range(0, len(whole), SEND_BYTES):
            await self._send_piece(network, whole[start : start + SEND_BYTES])

    async def _send_piece(self, network: Stream, piece: bytes | memoryview) -> None:
        self._untaken_since = self.clock.monotonic()
        await network.send_all(piece)
        self._untaken_since = None
        self.traffic.sent_bytes += len(piece)

    async def _sent(self) -> None:
        while self.unsent_bytes:
            self._wake_sender.set()
            await self._wait_for_room()

    def _broken(self, error: Exception) -> None:
        cause = error.__cause__ or error
        if isinstance(cause, UntrustedError):  # TLS has refused us, before anything was done
            self.close(cause)
        else:
            self.close(UnavailableError(f"the connection broke: {cause}"))
