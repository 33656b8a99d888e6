"""One connection of a client to a server of the database: pipelined requests, and answers and
events in the order of arrival.

Everything is in the history at the moment at which it was read from the stream, not when a task got
round to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, TypeVar

import attrs
import trio

from virtuallog.contract.errors import MalformedError, UnavailableError
from virtuallog.testing.checker.history import History, Recorder
from virtuallog_database.tree.results import ChangeKind
from virtuallog_simulation.workload.database import wire
from virtuallog_simulation.workload.database.jute import Reader
from virtuallog_simulation.workload.database.requests import Answer, Asked, Close, Connect, Event, Granted, Request

Dial: TypeAlias = Callable[[], Awaitable[trio.abc.Stream]]
DoneT = TypeVar("DoneT")
_LENGTH_BYTES: Final = 4


@attrs.define(eq=False)
class _Pending:
    """A request that is not answered yet."""

    request: Request
    xid: int
    returned: Recorder
    answer: Answer | None = None
    settled: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Connection:
    """Made by `connected`. Any number of tasks may `ask`; what they ask is sent in the order of their calls."""

    number: int
    stream: trio.abc.Stream
    granted: Granted
    _history: History
    _who: str
    seen: int
    """The newest state that any answer has shown."""
    is_open: bool = attrs.field(default=True, init=False)
    on_event: Callable[[Event], None] = attrs.field(default=lambda event: None, init=False)
    _sent: int = attrs.field(default=0, init=False)
    _pending: deque[_Pending] = attrs.field(factory=deque, init=False)
    _outgoing: bytearray = attrs.field(factory=bytearray, init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def ask(self, request: Request) -> Answer:
        """The server's answer, refusals included.

        Raises:
            UnavailableError: the connection broke; whether anything was done is unknown.
        """
        with self._history.record(self._who, Asked(self.number, self.granted.session, request)) as returned:
            if not self.is_open:
                raise UnavailableError("the connection is closed")
            self._sent += 1
            pending = _Pending(request, wire.xid_of(request, self._sent), returned)
            self._pending.append(pending)
            self._outgoing += wire.encode(request, pending.xid)
            self._wanted.set()
            await pending.settled.wait()
            if pending.answer is None:
                raise UnavailableError("the connection broke")
            return pending.answer

    async def send(self) -> None:
        """Write requests, all that have gathered at once."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            sent, self._outgoing = self._outgoing, bytearray()
            await self.stream.send_all(bytes(sent))

    async def receive(self, frames: AsyncIterator[bytes]) -> None:
        """Read answers and events until either side ends. After a failed send the rest is ignored:
        the waiting callers have got their error."""
        async for frame in frames:
            if self.is_open:
                self._take(Reader(frame))

    def _take(self, body: Reader) -> None:
        xid, zxid, error = body.int32(), body.int64(), body.int32()
        if xid == wire.EVENT_XID:
            kind = ChangeKind(body.int32())
            body.int32()  # the state of the session, always "connected"
            event = Event(self.number, self.granted.session, kind, body.string())
            self._history.observed(self._who, event, None)
            self.on_event(event)
            return
        if not self._pending or self._pending[0].xid != xid:
            expected = self._pending[0].xid if self._pending else None
            raise MalformedError(f"an answer to request {xid}, where {expected} is the next one")
        pending = self._pending.popleft()
        pending.answer = wire.decode(pending.request, zxid, error, body)
        if not isinstance(pending.request, Close):
            self.seen = max(self.seen, zxid)
        pending.returned(pending.answer)
        pending.settled.set()

    def close(self) -> None:
        """Close the connection; waiting callers get no answer."""
        self.is_open = False
        for pending in self._pending:
            pending.settled.set()
        self._pending.clear()


@asynccontextmanager
async def connected(
    number: int, dial: Dial, asked: Connect, password: bytes, history: History, who: str, patience: float
) -> AsyncIterator[Connection]:
    """A connection, after its handshake, until the context ends. It may break before; then `is_open` is False.

    Raises:
        UnavailableError: no server answered, or it refused the session.
    """
    stream = await _in_time(patience, lambda: _dialled(dial))
    try:
        frames = _frames(stream)
        with history.record(who, asked) as returned:
            granted = await _in_time(patience, lambda: _shake_hands(stream, frames, asked, password))
            returned(granted)
        connection = Connection(number, stream, granted, history, who, asked.last_zxid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_guarded, connection, connection.send)
            nursery.start_soon(_guarded, connection, lambda: connection.receive(frames))
            try:
                yield connection
            finally:
                connection.close()
                nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


async def _guarded(connection: Connection, work: Callable[[], Awaitable[None]]) -> None:
    """Turn a broken stream into the end of the connection and of all that wait on it."""
    try:
        await work()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    finally:
        connection.close()


async def _in_time(seconds: float, work: Callable[[], Awaitable[DoneT]]) -> DoneT:
    with trio.move_on_after(seconds):
        return await work()
    raise UnavailableError(f"no answer within {seconds:g} s")


async def _dialled(dial: Dial) -> trio.abc.Stream:
    try:
        return await dial()
    except OSError as error:
        raise UnavailableError(f"no connection: {error}") from error


async def _shake_hands(
    stream: trio.abc.Stream, frames: AsyncIterator[bytes], asked: Connect, password: bytes
) -> Granted:
    try:
        await stream.send_all(
            wire.encode_connect(asked.session, password, asked.last_zxid, asked.timeout_ms, read_only=asked.read_only)
        )
        return wire.decode_connect(Reader(await anext(frames)))
    except (trio.BrokenResourceError, StopAsyncIteration) as error:
        raise UnavailableError("the server ended the connection before the handshake") from error


async def _frames(stream: trio.abc.Stream) -> AsyncIterator[bytes]:
    """Each whole frame that comes, without its length."""
    received = bytearray()
    while piece := await stream.receive_some():
        received += piece
        while len(received) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
            if len(received) < end:
                break
            yield bytes(received[_LENGTH_BYTES:end])
            del received[:end]
