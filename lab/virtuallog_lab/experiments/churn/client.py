"""A fast client of the database: one connection, pipelined requests, frames made by hand.

Every value begins with a number that grows by one from each write of that connection to the next.
So the end state shows for each znode if it has the last value that was acknowledged, or one that
was sent later.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio
from crc32c import crc32c

from virtuallog.contract.address import split_address
from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.tree.commands import Create
from virtuallog_simulation.workload.database import wire
from virtuallog_simulation.workload.database.jute import Reader
from virtuallog_simulation.workload.database.requests import Answer, GetData, Request, Sync

CLOCK: Final = SystemClock()
ROOT: Final = "/churn"
TIMEOUT_MS: Final = 30_000
_RECEIVE_BYTES: Final = 1 << 18
_HEADER: Final = struct.Struct(">iiqi")
"""Header of a reply: its length, the number of its request, zxid, error."""
_SET_DATA: Final = struct.Struct(">iii")
"""Header of a request: its length, its number, its type."""
_NUMBER: Final = struct.Struct(">q")
_ANY_VERSION: Final = b"\xff\xff\xff\xff"
_BATCH: Final = 500
"""Requests that are asked at a time when they are not what is measured."""


def path_of(key: int) -> str:
    """Path of the znode with this number."""
    return f"{ROOT}/{key:06d}"


@attrs.define(eq=False)
class Client:
    """One connection and its session. Made by `connected`."""

    _stream: trio.SocketStream
    _received: bytearray = attrs.field(factory=bytearray, init=False)
    _xid: int = attrs.field(default=0, init=False)

    async def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers to these, in order.

        Raises:
            UnavailableError: the connection broke.
        """
        answers: list[Answer] = []
        for start in range(0, len(requests), _BATCH):
            asked = requests[start : start + _BATCH]
            await self._send(b"".join(wire.encode(request, self._next_xid()) for request in asked))
            for request in asked:
                body = Reader(await self._frame())
                body.int32()
                answers.append(wire.decode(request, body.int64(), body.int32(), body))
        return answers

    async def write(self, writes: Writes, outstanding: int) -> None:
        """Make these writes, so many at a time, until there are no more of them.

        Raises:
            UnavailableError: the connection broke, or a write was refused. Then `give_up`.
        """
        await self._send(b"".join(writes.take(outstanding, self)))
        while writes.under_way:
            done = await self._take_replies(writes)
            if frames := writes.take(done, self):
                await self._send(b"".join(frames))

    async def shake_hands(self) -> None:
        """Get a session."""
        await self._send(wire.encode_connect(0, bytes(16), 0, TIMEOUT_MS))
        wire.decode_connect(Reader(await self._frame()))

    def frame_of(self, prefix: bytes, number: int, filling: bytes) -> bytes:
        """A request that sets a znode."""
        body = prefix + _NUMBER.pack(number) + filling
        return _SET_DATA.pack(len(body) + 8, self._next_xid(), 5) + body

    def _next_xid(self) -> int:
        self._xid = self._xid % 0x7FFFFFFF + 1
        return self._xid

    async def _take_replies(self, writes: Writes) -> int:
        """Wait for some, check them, and say how many there were."""
        await self._receive()
        received, at, count = self._received, 0, 0
        while len(received) >= at + _HEADER.size:
            length, _, zxid, error = _HEADER.unpack_from(received, at)
            if len(received) < at + 4 + length:
                break
            if error:
                raise UnavailableError(f"a write was refused: error {error}, zxid {zxid}")
            at, count = at + 4 + length, count + 1
        del received[:at]
        writes.acknowledge(count)
        return count

    async def _frame(self) -> bytes:
        while True:
            if len(self._received) >= 4:
                length = int.from_bytes(self._received[:4], "big")
                if len(self._received) >= 4 + length:
                    frame = bytes(self._received[4 : 4 + length])
                    del self._received[: 4 + length]
                    return frame
            await self._receive()

    async def _receive(self) -> None:
        try:
            piece = await self._stream.receive_some(_RECEIVE_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise UnavailableError("the connection broke") from error
        if not piece:
            raise UnavailableError("the server ended the connection")
        self._received += piece

    async def _send(self, content: bytes) -> None:
        try:
            await self._stream.send_all(content)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise UnavailableError("the connection broke") from error


@attrs.define
class Budget:
    """Writes still to be sent, shared by all writers."""

    left: int

    def take(self, count: int) -> int:
        taken = min(count, self.left)
        self.left -= taken
        return taken


@attrs.define(eq=False)
class Writes:
    """Writes of one writer, and their outcomes. Each has znodes of its own."""

    keys: Sequence[int]
    fillings: list[bytes]
    """Bytes behind the number of a value: each in turn."""
    budget: Budget
    """Shared with the other writers."""
    under_way: deque[tuple[int, int]] = attrs.field(factory=deque, init=False)
    """(key, number) of what is sent and not answered."""
    acknowledged: dict[int, int] = attrs.field(factory=dict, init=False)
    """The newest number that was acknowledged, by key."""
    sent: dict[int, int] = attrs.field(factory=dict, init=False)
    """The newest one that was sent."""
    count: int = attrs.field(default=0, init=False)
    """Acknowledged writes."""
    _number: int = attrs.field(default=0, init=False)
    _prefixes: list[bytes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        size = _NUMBER.size + len(self.fillings[0])
        self._prefixes = [_buffer(path_of(key).encode()) + size.to_bytes(4, "big") for key in self.keys]
        self.fillings = [filling + _ANY_VERSION for filling in self.fillings]

    def take(self, count: int, client: Client) -> list[bytes]:
        """The next requests, at most so many."""
        frames = []
        for _ in range(self.budget.take(count)):
            place = self._number % len(self.keys)
            self._number += 1
            key, number = self.keys[place], self._number
            self.under_way.append((key, number))
            self.sent[key] = number
            filling = self.fillings[number % len(self.fillings)]
            frames.append(client.frame_of(self._prefixes[place], number, filling))
        return frames

    def acknowledge(self, count: int) -> None:
        """Acknowledge so many more, in their order."""
        for _ in range(count):
            key, number = self.under_way.popleft()
            self.acknowledged[key] = number
        self.count += count

    def give_up(self) -> None:
        """Stop waiting for writes under way: each may be done, or not. Others are sent in their
        stead."""
        self.budget.left += len(self.under_way)
        self.under_way.clear()

    def lost(self, values: Mapping[int, int]) -> list[str]:
        """Contradictions between the numbers found in the znodes and the acknowledgements."""
        return [
            f"{path_of(key)} has write {values.get(key)}, though {number} was acknowledged, and {self.sent[key]} sent last"
            for key, number in self.acknowledged.items()
            if not number <= values.get(key, -1) <= self.sent[key]
        ]


@asynccontextmanager
async def connected(address: str, patience: float) -> AsyncIterator[Client]:
    """A client of one server, with a new session, for the length of the block.

    Raises:
        UnavailableError: the server refuses the client.
    """
    stream: trio.SocketStream | None = None
    try:
        with CLOCK.timeout(patience):
            stream = await trio.open_tcp_stream(*split_address(address))
            client = Client(stream)
            await client.shake_hands()
            patience = math.inf
        if patience != math.inf:
            raise UnavailableError(f"{address} does not answer")
        yield client
    except OSError as error:
        raise UnavailableError(f"no connection to {address}: {error}") from error
    finally:
        if stream is not None:
            await trio.aclose_forcefully(stream)


async def make_znodes(client: Client, keys: int) -> None:
    """`ROOT`, and so many below it. Those that are there already stay."""
    await client.ask([Create(path=ROOT, data=b""), *(Create(path=path_of(key), data=b"") for key in range(keys))])


@attrs.frozen
class State:
    """All the znodes as one server shows them."""

    checksum: int
    """CRC32C over path, value, version and zxids of each."""
    numbers: dict[int, int]
    """Numbers at the beginning of the values, by key."""


async def read_state(client: Client, keys: int) -> State:
    """After a `sync`.

    Raises:
        UnavailableError: the connection broke, or a znode is missing.
    """
    await client.ask([Sync(path=ROOT)])
    answers = await client.ask([GetData(path=path_of(key), watch=False) for key in range(keys)])
    checksum, numbers = 0, {}
    for key, answer in enumerate(answers):
        if answer.error:
            raise UnavailableError(f"{path_of(key)} cannot be read: error {answer.error}")
        data, stat = answer.value
        checksum = crc32c(repr((path_of(key), data, tuple(stat))).encode(), checksum)
        numbers[key] = _NUMBER.unpack_from(data)[0] if len(data) >= _NUMBER.size else 0
    return State(checksum, numbers)


def shares(keys: int, writers: int) -> list[list[int]]:
    """Znodes of each writer."""
    return [list(range(writer, keys, writers)) for writer in range(writers)]


def _buffer(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
