"""One connection as its client sees it: what it asked, and every frame that came, in order.

A client asks one request after the other, so what each answer and each event follows is known. Frames are taken from the stream when the client
waits for an answer; their order is the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.testing.checker.history import History
from virtuallog_database.tree.commands import Acl, Identity
from virtuallog_database.tree.results import ChangeKind
from virtuallog_simulation.workload.database.jute import Reader, Writer

ANSWER_SECONDS: Final = 2.5
"""Seconds that a client waits for an answer; then it leaves the connection."""
_EVENT_XID: Final = -1


@attrs.frozen
class Watch:
    """Sets a watch: by a read of data, children or `exists`, or with a mode."""

    table: str
    """data, exist, child, persistent or recursive."""
    path: str


@attrs.frozen
class Restore:
    """setWatches2."""

    since: int
    watches: Sequence[Watch]

    def paths(self, table: str) -> tuple[str, ...]:
        return tuple(each.path for each in self.watches if each.table == table)


@attrs.frozen
class Login:
    """Adds an identity to the connection."""

    identity: Identity
    credential: bytes


@attrs.frozen
class Ephemerals:
    """getEphemerals, of all."""


@attrs.frozen
class Write:
    """Any write: its number in the protocol, and its body."""

    number: int
    body: bytes = attrs.field(repr=False)
    about: str = ""


@attrs.frozen
class Ping:
    """A request without content."""


Request: TypeAlias = Watch | Restore | Login | Ephemerals | Write | Ping


@attrs.frozen
class Reply:
    """An answer."""

    time: float
    request: Request
    zxid: int
    error: int
    names: tuple[str, ...] = ()
    """Names in the answer to `Ephemerals`."""


@attrs.frozen
class ReceivedEvent:
    """A watch has fired."""

    time: float
    kind: ChangeKind
    path: str


@attrs.frozen(kw_only=True)
class Claim:
    """Contents of a client's handshake."""

    server: int
    host: str
    session: int = 0
    password: bytes = bytes(16)
    last_zxid: int = 0
    read_only: bool = False


@attrs.define(eq=False)
class RecordedConnection:
    """Made by the story, which connects the stream."""

    claim: Claim
    stream: trio.abc.Stream
    opened: float
    history: History = attrs.field(repr=False)
    """History of requests, for the timeline of a failing run."""
    session: int = 0
    """0: refused."""
    password: bytes = b""
    is_answered: bool = False
    """The handshake was."""
    read_only: bool = False
    """The server serves it in read-only mode."""
    frames: list[Reply | ReceivedEvent] = attrs.field(factory=list)
    ended: float | None = None
    """Time at which the client noticed that the server had closed it."""
    _received: bytearray = attrs.field(factory=bytearray)
    _xid: int = 0

    @property
    def seen(self) -> int:
        """The newest zxid that an answer has shown."""
        return max((frame.zxid for frame in self.frames if isinstance(frame, Reply)), default=0)

    async def connect(self) -> None:
        """The handshake. Raises UnavailableError: closed without an answer, or none in time."""
        claim = self.claim
        writer = Writer().int32(0).int64(claim.last_zxid).int32(30_000).int64(claim.session).buffer(claim.password)
        with self.history.record(claim.host, claim) as returned:
            body = Reader(await self._in_time(writer.flag(claim.read_only).frame(), first=True))
            body.int32()
            body.int32()
            self.is_answered = True
            self.session, self.password, self.read_only = body.int64(), body.buffer() or b"", body.flag()
            returned(self.session)

    async def ask(self, request: Request) -> Reply:
        """Raises UnavailableError: the connection is over."""
        self._xid += 1
        writer = Writer().int32(self._xid)
        _write(writer, request)
        with self.history.record(self.claim.host, request) as returned:
            await self._in_time(writer.frame(), first=False, request=request)
            reply = self.frames[-1]
            assert isinstance(reply, Reply)
            returned(reply.error)
        return reply

    async def leave(self) -> None:
        await trio.aclose_forcefully(self.stream)

    async def _in_time(self, frame: bytes, *, first: bool, request: Request | None = None) -> bytes:
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                await self.stream.send_all(frame)
                while True:
                    content = await self._frame()
                    if first or self._take(Reader(content), request or Ping()):
                        return content
        except (trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
            self.ended = trio.current_time()
            raise UnavailableError("closed") from None
        await self.leave()
        raise UnavailableError("no answer")

    def _take(self, body: Reader, request: Request) -> bool:
        """Handle a frame; returns True if it is the answer."""
        xid, zxid, error = body.int32(), body.int64(), body.int32()
        if xid == _EVENT_XID:
            kind = ChangeKind(body.int32())
            body.int32()
            self.frames.append(ReceivedEvent(trio.current_time(), kind, body.string()))
            return False
        names = tuple(body.strings()) if isinstance(request, Ephemerals) and not error else ()
        self.frames.append(Reply(trio.current_time(), request, zxid, error, names))
        return True

    async def _frame(self) -> bytes:
        while len(self._received) < 4 or len(self._received) < 4 + int.from_bytes(self._received[:4], "big"):
            piece = await self.stream.receive_some(1 << 16)
            if not piece:
                raise EOFError
            self._received += piece
        end = 4 + int.from_bytes(self._received[:4], "big")
        content = bytes(self._received[4:end])
        del self._received[:end]
        return content


def _write(writer: Writer, request: Request) -> None:
    match request:
        case Watch("data", path):
            writer.int32(4).string(path).flag(True)
        case Watch("exist", path):
            writer.int32(3).string(path).flag(True)
        case Watch("child", path):
            writer.int32(8).string(path).flag(True)
        case Watch(table, path):
            writer.int32(106).string(path).int32(table == "recursive")
        case Restore(since):
            writer.int32(105).int64(since)
            for table in ("data", "exist", "child", "persistent", "recursive"):
                writer.strings(request.paths(table))
        case Login(_, credential):
            writer.int32(100).int32(0).string("digest").buffer(credential)
        case Ephemerals():
            writer.int32(103).string("/")
        case Write(number, body):
            writer.int32(number).content += body
        case Ping():
            writer.int32(11)


def creating(path: str, acl: Sequence[Acl], *, ephemeral: bool) -> Write:
    body = Writer().string(path).buffer(b"").acl(acl).int32(int(ephemeral))
    return Write(1, bytes(body.content), path)


def setting(path: str) -> Write:
    return Write(5, bytes(Writer().string(path).buffer(b"x").int32(-1).content), path)


def deleting(path: str) -> Write:
    return Write(2, bytes(Writer().string(path).int32(-1).content), path)


def protecting(path: str, acl: Sequence[Acl]) -> Write:
    return Write(7, bytes(Writer().string(path).acl(acl).int32(-1).content), path)


def replacing(path: str, acl: Sequence[Acl], other: str) -> Write:
    """A multi: one znode goes, another one comes."""
    writer = Writer()
    writer.int32(2).flag(False).int32(-1).string(path).int32(-1)
    writer.int32(1).flag(False).int32(-1).string(other).buffer(b"").acl(acl).int32(0)
    writer.int32(-1).flag(True).int32(-1)
    return Write(14, bytes(writer.content), other)
