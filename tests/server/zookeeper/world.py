"""A server of ZooKeeper's protocol over one replica with a list as its log: tests decide when proposals are applied."""

from __future__ import annotations

import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.virtuallog.rpc.world import TrioClock
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Clock, Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.database import Database
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree.commands import OPEN_ACL, Acl
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.server import ZooKeeperServer
from virtuallog_server.zookeeper.session.serving_context import SessionHooks
from virtuallog_simulation.workload.database.jute import Reader, Writer

PATIENCE_SECONDS = 5.0
EVENT = -1


@attrs.define(eq=False)
class ListedLog:
    """The engine below the database. What is proposed waits for `apply`; all that waits is one group, in one transaction."""

    database: Database
    store: LocalStore
    held: bool = False
    """Nothing is applied before `apply` is called."""
    failure: VirtualLogError | None = None
    """Results of proposals and syncs."""
    waiting: list[tuple[Entry, Done]] = attrs.field(factory=list)
    position: int = 0
    syncs: int = 0
    _arrived: trio.Event = attrs.field(factory=trio.Event)

    def propose(self, entry: Entry, done: Done) -> None:
        self.waiting.append((entry, done))
        if not self.held:
            self._arrived.set()

    async def sync(self) -> None:
        await trio.lowlevel.checkpoint()
        self.syncs += 1
        if self.failure is not None:
            raise self.failure

    async def prepare_read(self) -> None:
        await self.sync()

    async def confirm(self) -> None:
        await trio.lowlevel.checkpoint()

    def set_trim_prefix(self, position: LogPosition) -> None:
        pass

    def apply(self) -> None:
        """Everything that waits, as a replica does: one transaction, then what was applied becomes known, then answers."""
        group, self.waiting = self.waiting, []
        if self.failure is not None:
            for _, done in group:
                done(self.failure)
            return
        transaction = StoreTransaction(self.store)
        first = self.position
        self.position += len(group)
        results = [
            self.database.apply(transaction, entry, LogPosition(first + index))
            for index, (entry, _) in enumerate(group)
        ]
        transaction.commit()
        for index, (entry, _) in enumerate(group):
            self.database.post_apply(entry, LogPosition(first + index), results[index])
        for (_, done), result in zip(group, results, strict=True):
            done(result)

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            self.apply()


@attrs.define(eq=False)
class World:
    """A server, and clients that are streams in memory."""

    server: ZooKeeperServer
    log: ListedLog
    nursery: trio.Nursery

    def dial(self, host: str = "127.0.0.1", *, tight: bool = False) -> RawClient:
        """A connection, before its handshake. A tight one takes nothing that is not read at once."""
        ours, theirs = lockstep_stream_pair() if tight else memory_stream_pair()
        self.nursery.start_soon(self.server.serve_stream, theirs, host)
        return RawClient(ours)

    async def client(self, **asked: Any) -> RawClient:
        """With a session."""
        client = self.dial()
        await client.connect(**asked)
        assert client.session
        return client

    async def settled(self) -> None:
        """No task has anything to do any more."""
        await wait_all_tasks_blocked()


def listed_database(clock: Clock) -> tuple[Database, ListedLog]:
    """A replica of an empty tree; run its log."""
    database = Database(clock=clock, random=random.Random(1))
    store = MemoryDisk().open()
    log = ListedLog(database, store)
    database.attach(log, store)
    database.load()
    return database, log


@asynccontextmanager
async def served(
    settings: ZooKeeperSettings | None = None, hooks: SessionHooks | None = None, clock: Clock | None = None
) -> AsyncIterator[World]:
    """A world, until the block ends."""
    clock = clock or TrioClock()
    database, log = listed_database(clock)
    server = ZooKeeperServer(database, settings or ZooKeeperSettings(), clock, random.Random(2), node=1, hooks=hooks)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await nursery.start(database.run)
        await nursery.start(server.run)
        yield World(server, log, nursery)
        nursery.cancel_scope.cancel()


@attrs.frozen
class Reply:
    """One frame from the server."""

    xid: int
    zxid: int
    error: int
    body: Reader


@attrs.define(eq=False)
class RawClient:
    """Sends what a test says, and takes what comes, frame by frame."""

    stream: trio.abc.Stream
    session: int = 0
    timeout_ms: int = 0
    password: bytes = b""
    read_only: bool | None = None
    xid: int = 0
    _buffer: bytearray = attrs.field(factory=bytearray)

    async def connect(
        self,
        *,
        session: int = 0,
        password: bytes = bytes(16),
        timeout_ms: int = 10_000,
        last_zxid: int = 0,
        read_only: bool | None = False,
    ) -> None:
        """The handshake; afterwards `session` is 0 if it was refused."""
        await self.greet(
            session=session, password=password, timeout_ms=timeout_ms, last_zxid=last_zxid, read_only=read_only
        )
        await self.greeted()

    async def greet(
        self, *, session: int, password: bytes, timeout_ms: int, last_zxid: int, read_only: bool | None
    ) -> None:
        writer = Writer().int32(0).int64(last_zxid).int32(timeout_ms).int64(session).buffer(password)
        await self.send_bytes((writer if read_only is None else writer.flag(read_only)).frame())

    async def greeted(self) -> None:
        content = await self.frame()
        body = Reader(content)
        assert body.int32() == 0
        self.timeout_ms, self.session, self.password = body.int32(), body.int64(), body.buffer() or b""
        self.read_only = body.flag() if len(content) > struct.calcsize(">iiqi16s") else None

    async def send_bytes(self, content: bytes) -> None:
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- no product code
            await self.stream.send_all(content)

    async def send(self, kind: int, body: Writer | None = None, xid: int | None = None) -> int:
        """A request; its xid."""
        self.xid += 1
        number = self.xid if xid is None else xid
        writer = Writer().int32(number).int32(kind)
        writer.content += (body or Writer()).content
        await self.send_bytes(writer.frame())
        return number

    async def call(self, kind: int, body: Writer | None = None, xid: int | None = None) -> Reply:
        """A request, and the next frame, which must be its reply."""
        number = await self.send(kind, body, xid)
        reply = await self.reply()
        assert reply.xid == number
        return reply

    async def frame(self) -> bytes:
        """The next one. Fails the test if none comes."""
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- no product code
            while len(self._buffer) < 4 or len(self._buffer) < self._size():
                piece = await self.stream.receive_some()
                if not piece:
                    raise UnavailableError("closed")
                self._buffer += piece
        size = self._size()
        content = bytes(self._buffer[4:size])
        del self._buffer[:size]
        return content

    async def reply(self) -> Reply:
        body = Reader(await self.frame())
        return Reply(body.int32(), body.int64(), body.int32(), body)

    async def event(self) -> tuple[int, str]:
        """The next frame, which must be an event: its kind and path."""
        reply = await self.reply()
        assert (reply.xid, reply.zxid, reply.error) == (EVENT, -1, 0)
        kind, state = reply.body.int32(), reply.body.int32()
        assert state == 3
        return kind, reply.body.string()

    async def closed(self) -> bytes:
        """The bytes that still arrive until the server closes the connection."""
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- no product code
            try:
                while piece := await self.stream.receive_some():
                    self._buffer += piece
            except trio.BrokenResourceError:
                pass
        left, self._buffer = bytes(self._buffer), bytearray()
        return left

    def _size(self) -> int:
        return 4 + int.from_bytes(self._buffer[:4], "big")

    # -- usual requests ----------------------------------------------------------------------------------------------

    async def create(
        self, path: str, data: bytes | None = b"", flags: int = 0, acl: tuple[Acl, ...] = OPEN_ACL
    ) -> Reply:
        return await self.call(1, created(path, data, flags, acl))

    async def set(self, path: str, data: bytes, version: int = -1) -> Reply:
        return await self.call(5, setting(path, data, version))

    async def get(self, path: str, *, watch: bool = False) -> Reply:
        return await self.call(4, Writer().string(path).flag(watch))


def created(path: str, data: bytes | None = b"", flags: int = 0, acl: tuple[Acl, ...] = OPEN_ACL) -> Writer:
    """The body of a create."""
    return Writer().string(path).buffer(data).acl(acl).int32(flags)


def setting(path: str, data: bytes, version: int = -1) -> Writer:
    """The body of a setData."""
    return Writer().string(path).buffer(data).int32(version)


def watched(path: str, watch: bool = True) -> Writer:
    """The body of exists, getData and getChildren."""
    return Writer().string(path).flag(watch)
