"""One connection of a client: bytes in, requests in order; answers in, bytes out in the order of requests.

    BEGUN       a command of four letters, or a connect request
    CONNECTING  all input waits: nothing may be done for a client before it has a session
    OPEN        requests
    ENDING      no more requests; those in progress are answered, then the connection is over

Bounds: a frame by `jute.maxbuffer`; requests without an answer by number and by bytes; answers that the client does not read by
bytes. At a bound no further request is taken (`requests` ends), received bytes wait, and the driver stops reading. One request may
overshoot each bound.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import attrs

from virtuallog.contract.errors import MalformedError, UnavailableError, VirtualLogError
from virtuallog.rpc.protocol.frames import Outbox
from virtuallog_server.zookeeper.wire import handshake
from virtuallog_server.zookeeper.wire.frames import LENGTH_BYTES, FrameSplitter
from virtuallog_server.zookeeper.wire.handshake import ConnectRequest
from virtuallog_server.zookeeper.wire.jute import Reader
from virtuallog_server.zookeeper.wire.pipeline import Pipeline

UNSENT_BYTES_MAX: Final = 4 << 20
"""Most bytes of answers that a client has not read: four of the largest znodes. With more it does not read, or its network is slow."""
PENDING_BYTES_MAX: Final = 16 << 20
"""Most bytes of one client's requests without an answer: sixteen of the largest. A window of 1,000 small ones is a hundredth of that."""
_HEADER: Final = struct.Struct(">ii")
_ZXID: Final = slice(8, 16)
"""Place of the zxid in the frame of an answer: behind its length and its xid."""


class ConnectionPhase(enum.Enum):
    BEGUN = "begun"
    CONNECTING = "connecting"
    OPEN = "open"
    ENDING = "ending"


@attrs.frozen
class FourLetterWord:
    """A command of four letters, sent instead of a connect request."""

    letters: bytes


class Request(NamedTuple):
    """Header and body of a request."""

    xid: int
    opcode: int
    body: Reader


Event: TypeAlias = FourLetterWord | ConnectRequest | Request


@attrs.define(eq=False)
class Connection:
    """The state of one connection. It is the `Machine` of a `virtuallog.rpc.channel.Channel`."""

    frame_bytes_max: int
    outstanding_max: int
    _is_word: Callable[[bytes], bool]
    _on_output: Callable[[], None]
    """Called when the outbox gets its first bytes."""
    _may_look: Callable[[], bool] = lambda: True
    """True if the tree may be read now. After a refusal the hook's owner calls `pipeline.advance`."""
    _may_take: Callable[[], bool] = lambda: True
    """True if received requests may be taken now. After a refusal the hook's owner calls `requests`."""
    outbox: Outbox = attrs.field(factory=Outbox, init=False)
    pipeline: Pipeline = attrs.field(init=False)
    phase: ConnectionPhase = attrs.field(default=ConnectionPhase.BEGUN, init=False)
    failure: VirtualLogError | None = attrs.field(default=None, init=False)
    """Reason of the end. None before it. Frames in the outbox are still sent."""
    received_frames: int = attrs.field(default=0, init=False)
    sent_frames: int = attrs.field(default=0, init=False)
    _last_zxid: bytes = attrs.field(default=b"", init=False)
    _splitter: FrameSplitter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pipeline = Pipeline(self._answer, self._may_answer)
        self._splitter = FrameSplitter(self.frame_bytes_max)

    @property
    def unfinished_bytes(self) -> int:
        """Received bytes of an incomplete frame, or of one that is not taken yet."""
        return self._splitter.buffered_bytes

    @property
    def last_zxid(self) -> int:
        """The zxid of the last answer. 0 before the first."""
        return int.from_bytes(self._last_zxid, "big", signed=True)

    @property
    def has_room(self) -> bool:
        """True if more should be read from the client."""
        return (
            self.phase in _READING
            and self.pipeline.takes(self.outstanding_max, PENDING_BYTES_MAX)
            and not self.is_unread
        )

    @property
    def is_unread(self) -> bool:
        """True if the client has left so many bytes of answers unread that no more are made for it."""
        return self.outbox.waiting_bytes >= UNSENT_BYTES_MAX

    def receive_untrusted(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events in the client's bytes, as far as there is room."""
        if self.phase is not ConnectionPhase.ENDING:
            self._splitter.feed(chunk)
        return self.requests()

    def requests(self) -> Iterator[Event]:
        """Yield received requests that were not taken yet. Call it when there is room again, once the session exists, and once
        requests may be taken again.
        """
        if not self._may_take():
            return
        try:
            while self.has_room and self.failure is None:
                event = self._next_untrusted()
                if event is None:
                    return
                yield event
        except MalformedError as error:
            self.fail(error)

    def open(self, response: bytes) -> None:
        """Send the connect response: requests can be taken."""
        assert self.phase is ConnectionPhase.CONNECTING
        self.phase = ConnectionPhase.OPEN
        self.emit(response)

    def emit(self, frame: bytes) -> None:
        """Send a frame, before everything that is emitted later."""
        self.sent_frames += 1
        outbox = self.outbox
        if outbox.waiting_bytes:
            outbox.add(frame)
        else:
            outbox.add(frame)
            self._on_output()

    def _answer(self, frame: bytes) -> None:
        self._last_zxid = frame[_ZXID]
        self.emit(frame)

    def end_after(self, frame: bytes, reason: str) -> None:
        """Answer the request that was taken last with `frame`, in its turn; then end the connection."""
        self.stop()
        self.pipeline.answer(lambda: frame, lambda: self.end(reason))

    def stop(self) -> None:
        """Take no more requests."""
        self.phase = ConnectionPhase.ENDING

    def end(self, reason: str) -> None:
        """End in good order: the outbox is sent, then the connection is closed."""
        self.fail(UnavailableError(reason))

    def fail(self, error: VirtualLogError) -> None:
        """End with an error."""
        self.phase = ConnectionPhase.ENDING
        self.failure = self.failure or error
        self._on_output()

    def _may_answer(self) -> bool:
        return self.failure is None and not self.is_unread and self._may_look()

    def _next_untrusted(self) -> Event | None:
        if self.phase is ConnectionPhase.BEGUN:
            return self._first_untrusted()
        frame = self._splitter.next_untrusted()
        if frame is None:
            return None
        self.received_frames += 1
        if len(frame) < _HEADER.size:
            raise MalformedError(f"a request of {len(frame)} bytes, which is less than a header")
        xid, opcode = _HEADER.unpack_from(frame)
        return Request(xid, opcode, Reader(frame, _HEADER.size))

    def _first_untrusted(self) -> Event | None:
        first = self._splitter.first_bytes()
        if len(first) == LENGTH_BYTES and self._is_word(first):
            self.stop()
            return FourLetterWord(first)
        frame = self._splitter.next_untrusted()
        if frame is None:
            return None
        self.received_frames += 1
        self.phase = ConnectionPhase.CONNECTING
        return handshake.parse_untrusted(frame)


_READING: Final = (ConnectionPhase.BEGUN, ConnectionPhase.OPEN)
