"""What each request of a client does: reads of the tree, commands for the log, watches, and who the client is.

One object for each connection that has a session. Nothing here waits: a read is answered, or put behind what is before it; a command is
submitted, and answered from the callback. Rights, versions and paths are the tree's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import structlog

from database.kv.commands import CloseSession, Operation, Origin
from database.kv.database import Database
from database.kv.results import Error, RefusedError, Result
from database.kv.watches import Watcher, WatchMode, WatchTable
from server.zookeeper import replies, requests
from server.zookeeper.auth import AuthenticationError, add_identities
from server.zookeeper.connection import Connection, Request
from server.zookeeper.hooks import Hooks
from server.zookeeper.jute import Reader, buffer
from server.zookeeper.meter import Sampler
from server.zookeeper.opcodes import OpCode
from server.zookeeper.pipeline import Turn
from server.zookeeper.requests import BadArgumentsError, NamedWatches
from server.zookeeper.sasl import Exchange
from server.zookeeper.syncs import Syncs
from virtuallog.errors import MalformedError, VirtualLogError

log = structlog.get_logger(__name__)

Handle: TypeAlias = Callable[["Operations", int, OpCode, Reader], None]
_LOST: Final = frozenset((Error.SESSION_MOVED, Error.SESSION_EXPIRED, Error.UNKNOWN_SESSION))
"""The session is not this connection's any more: it is closed rather than told."""
_UNKNOWN_XID: Final = -1
"""Where ZooKeeper puts -1 for a zxid: it has not looked at the tree."""


@attrs.define(eq=False)
class Operations:
    """See above."""

    database: Database
    connection: Connection
    watcher: Watcher
    hooks: Hooks
    syncs: Syncs
    sampler: Sampler
    lose: Callable[[Exception], None]
    """Called when an answer will never be known, or when the session is gone: the connection has to be closed, as whoever waits for
    a reply in its turn would take the next one for it."""
    origin: Origin = attrs.field(factory=Origin)
    read_only: bool = False
    """The log cannot be reached: no writes."""
    is_over: bool = attrs.field(default=False, init=False)
    """Nobody is there any more. What is under way may still be answered: into the void."""
    closing: bool = attrs.field(default=False, init=False)
    """The client has closed its session."""
    _exchange: Exchange | None = attrs.field(default=None, init=False)
    _handlers: Mapping[int, Handle] = attrs.field(init=False)
    """What may be asked now."""

    def __attrs_post_init__(self) -> None:
        self._handlers = _BEFORE_LOGIN if self.hooks.sasl_required else _HANDLERS

    def handle(self, request: Request) -> None:
        """Do what a client asks."""
        xid, opcode, body = request
        handler = self._handlers.get(opcode)
        if handler is None:
            self._turn_away(xid, opcode)
            return
        try:
            handler(self, xid, opcode, body)  # type: ignore[arg-type]  # an IntEnum among keys: an int finds it
        except MalformedError:
            self._refuse(xid, Error.MARSHALLING)
        except BadArgumentsError:
            self._refuse(xid, Error.BAD_ARGUMENTS)
        except Exception as error:
            self._failed(error)

    def _turn_away(self, xid: int, opcode: int) -> None:
        if opcode in _HANDLERS:
            frame = replies.error(xid, self._zxid, Error.SASL_REQUIRED)
            self.connection.end_after(frame, "has not logged in, as everybody must")
        else:
            frame = replies.error(xid, _UNKNOWN_XID, Error.UNIMPLEMENTED)
            self.connection.end_after(frame, f"asked for operation {opcode}, which nobody knows")

    # -- writes ----------------------------------------------------------------------------------------------------

    def submit(self, operation: Operation, size: int, answer: Callable[[Result], bytes]) -> None:
        """Put a command into the log, and answer it when it has been applied.

        Args:
            operation: what to do.
            size: of the request, in bytes.
            answer: makes the frame.
        """
        origin = self.origin

        def start(turn: Turn) -> None:
            self.sampler.begin(turn)
            self.database.submit(operation, origin, partial(self._applied, turn, answer))

        self.connection.pipeline.write(start, size)

    def _applied(self, turn: Turn, answer: Callable[[Result], bytes], outcome: Result | Exception) -> None:
        if self.is_over:
            return
        if isinstance(outcome, Exception):  # also one that every replica has met when it applied the command
            self.lose(outcome)
        elif outcome.error in _LOST and not self.closing:
            self.lose(RefusedError(outcome.error))
        else:
            self.sampler.end(turn)
            self.connection.pipeline.finish(turn, answer(outcome))

    def write(self, xid: int, opcode: OpCode, body: Reader) -> None:
        operation = _WRITES[opcode](body)
        if self.read_only:
            self._refuse(xid, Error.NOT_READ_ONLY)
        else:
            self.submit(operation, body.at, partial(replies.result, xid, opcode))

    def multi(self, xid: int, opcode: OpCode, body: Reader) -> None:
        batch = requests.batch(body)
        if self.read_only:
            self._refuse(xid, Error.NOT_READ_ONLY)
        else:
            self.submit(batch.multi, body.at, partial(replies.multi, xid, batch.opcodes))

    def reconfig(self, xid: int, opcode: OpCode, body: Reader) -> None:
        asked, origin, reconfigure = requests.reconfig(body), self.origin, self.hooks.reconfigure
        if reconfigure is None or self.read_only:
            self._refuse(xid, Error.UNIMPLEMENTED if reconfigure is None else Error.NOT_READ_ONLY)
            return

        def answer(done: Result) -> bytes:
            if done.error:
                return replies.error(xid, done.zxid, done.error)
            return replies.data(xid, done.zxid, *done.value)

        self.connection.pipeline.write(
            lambda turn: reconfigure(asked, origin, partial(self._applied, turn, answer)), body.at
        )

    def close_session(self, xid: int, opcode: OpCode, body: Reader) -> None:
        """Answered, then closed. One that was over already is closed all the same."""
        self.connection.stop()
        self.closing = True
        end = partial(self.connection.end, "the client has closed its session")
        pipeline, origin = self.connection.pipeline, self.origin
        if self.read_only:
            pipeline.answer(lambda: replies.reply(xid, self._zxid), end)
            return

        def start(turn: Turn) -> None:
            done = partial(self._applied, turn, lambda result: replies.reply(xid, result.zxid))
            self.database.submit(CloseSession(origin.session), origin, done)

        pipeline.write(start, 0, end)

    # -- reads -----------------------------------------------------------------------------------------------------

    @property
    def _zxid(self) -> int:
        return self.database.tree.last_zxid

    def _read(self, xid: int, find: Callable[..., bytes], *arguments: Any) -> None:
        self.connection.pipeline.read(partial(self._run, xid, find, *arguments))

    def _run(self, xid: int, find: Callable[..., bytes], *arguments: Any) -> bytes:
        """Called from wherever the turn of the read comes, at worst while a log entry is applied: so it raises nothing."""
        try:
            return find(xid, *arguments)
        except RefusedError as refused:
            return replies.error(xid, self._zxid, refused.error)
        except Exception as error:
            self._failed(error)
            return b""

    def _failed(self, error: Exception) -> None:
        """The store of this replica, or a bug: that ends one connection. Whether it ends more is for the replica to say."""
        if not isinstance(error, VirtualLogError):
            log.exception("a request of a client has failed")
        self.lose(error)

    def get_data(self, xid: int, opcode: OpCode, body: Reader) -> None:
        path, watch = requests.read(body)
        self._read(xid, self._find_data, path, watch, self.origin)

    def _find_data(self, xid: int, path: str, watch: bool, origin: Origin) -> bytes:
        database = self.database
        data, stat = database.tree.get_data(path, origin.identities)
        if watch:
            database.watches.data.add(path, self.watcher)
        return replies.data(xid, database.tree.last_zxid, data, stat)

    def exists(self, xid: int, opcode: OpCode, body: Reader) -> None:
        path, watch = requests.read(body)
        self._read(xid, self._find_stat, path, watch)

    def _find_stat(self, xid: int, path: str, watch: bool) -> bytes:
        """The watch is set in either case: somebody may wait for the znode to be created."""
        if watch:
            self.database.watches.data.add(path, self.watcher)
        return replies.stat(xid, self._zxid, self.database.tree.exists(path))

    def get_children(self, xid: int, opcode: OpCode, body: Reader) -> None:
        path, watch = requests.read(body)
        self._read(xid, self._find_children, path, watch, opcode == OpCode.GET_CHILDREN2, self.origin)

    def _find_children(self, xid: int, path: str, watch: bool, with_stat: bool, origin: Origin) -> bytes:
        names, stat = self.database.tree.get_children(path, origin.identities)
        if watch:
            self.database.watches.child.add(path, self.watcher)
        return replies.children(xid, self._zxid, names, stat if with_stat else None)

    def get_acl(self, xid: int, opcode: OpCode, body: Reader) -> None:
        self._read(xid, self._find_acl, requests.path(body), self.origin)

    def _find_acl(self, xid: int, path: str, origin: Origin) -> bytes:
        acl, stat = self.database.tree.get_acl(path, origin.identities)
        return replies.acl(xid, self._zxid, acl, stat)

    def get_ephemerals(self, xid: int, opcode: OpCode, body: Reader) -> None:
        self._read(xid, self._find_ephemerals, requests.path(body))

    def _find_ephemerals(self, xid: int, prefix: str) -> bytes:
        found = self.database.tree.get_ephemerals(self.origin.session, prefix)
        return replies.children(xid, self._zxid, found, None)

    def count(self, xid: int, opcode: OpCode, body: Reader) -> None:
        self._read(xid, self._find_count, requests.path(body), self.origin)

    def _find_count(self, xid: int, path: str, origin: Origin) -> bytes:
        return replies.number(xid, self._zxid, self.database.tree.count_descendants(path, origin.identities))

    def multi_read(self, xid: int, opcode: OpCode, body: Reader) -> None:
        self._read(xid, self._find_many, requests.multi_read(body), self.origin)

    def _find_many(self, xid: int, asked: requests.MultiRead, origin: Origin) -> bytes:
        tree = self.database.tree
        find = {OpCode.GET_DATA: tree.get_data, OpCode.GET_CHILDREN: tree.get_children}
        reads = ((opcode, partial(find[opcode], one.path, origin.identities)) for opcode, one in asked.reads)
        return replies.multi_read(xid, self._zxid, reads)

    # -- sync, ping ------------------------------------------------------------------------------------------------

    def sync(self, xid: int, opcode: OpCode, body: Reader) -> None:
        path = requests.path(body)
        if self.read_only:
            self._refuse(xid, Error.NOT_READ_ONLY)
        else:
            self.syncs.post(partial(self._synced, self.connection.pipeline.wait(), xid, path))

    def _synced(self, turn: Turn, xid: int, path: str, error: VirtualLogError | None) -> None:
        if self.is_over:
            return
        if error is not None:
            self.lose(error)
        else:
            self.connection.pipeline.finish(turn, replies.text(xid, self._zxid, path))

    def ping(self, xid: int, opcode: OpCode, body: Reader) -> None:
        """In its turn, as in ZooKeeper: a client whose writes hang learns so, and goes elsewhere."""
        self.connection.pipeline.answer(lambda: replies.reply(xid, self._zxid))

    # -- watches ---------------------------------------------------------------------------------------------------

    def add_watch(self, xid: int, opcode: OpCode, body: Reader) -> None:
        asked = requests.add_watch(body)
        try:
            mode = WatchMode(asked.mode)
        except ValueError:
            raise BadArgumentsError(f"watch mode {asked.mode}") from None
        if mode is WatchMode.STANDARD:
            raise BadArgumentsError("a standard watch is set by a read")
        self._read(xid, self._set_watch, asked.path, mode)

    def _set_watch(self, xid: int, path: str, mode: WatchMode) -> bytes:
        self.database.watches.add(path, self.watcher, mode)
        return replies.number(xid, self._zxid, 0)

    def check_watches(self, xid: int, opcode: OpCode, body: Reader) -> None:
        asked = requests.named_watches(body)
        self._read(xid, self._find_watches, asked, self._tables(asked), WatchTable.contains)

    def remove_watches(self, xid: int, opcode: OpCode, body: Reader) -> None:
        asked = requests.named_watches(body)
        self._read(xid, self._find_watches, asked, self._tables(asked), WatchTable.remove)

    def _find_watches(
        self,
        xid: int,
        asked: NamedWatches,
        tables: tuple[WatchTable, ...],
        find: Callable[[WatchTable, str, Watcher], bool],
    ) -> bytes:
        found = [find(table, asked.path, self.watcher) for table in tables]
        if not any(found):
            raise RefusedError(Error.NO_WATCHER)
        return replies.reply(xid, self._zxid)

    def _tables(self, asked: NamedWatches) -> tuple[WatchTable, ...]:
        watches = self.database.watches
        tables = {1: (watches.child,), 2: (watches.data,), 3: (watches.child, watches.data)}
        if asked.type not in tables:
            raise MalformedError(f"type {asked.type} of watches")
        return tables[asked.type]

    def set_watches(self, xid: int, opcode: OpCode, body: Reader) -> None:
        self._read(xid, self._restore_watches, requests.set_watches(body))

    def set_watches2(self, xid: int, opcode: OpCode, body: Reader) -> None:
        self._read(xid, self._restore_watches, requests.set_watches2(body))

    def _restore_watches(self, xid: int, asked: requests.SetWatches) -> bytes:
        self.database.set_watches(
            self.watcher,
            asked.relative_zxid,
            data=asked.data,
            exist=asked.exist,
            child=asked.child,
            persistent=asked.persistent,
            recursive=asked.recursive,
        )
        return replies.reply(xid, self._zxid)

    # -- who the client is -----------------------------------------------------------------------------------------

    def auth(self, xid: int, opcode: OpCode, body: Reader) -> None:
        """Counts for what is behind it; what is before it may still wait, and keeps the identities it came with."""
        asked = requests.auth(body)
        try:
            known = self.hooks.authentication.authenticate(self.origin.identities, asked.scheme, asked.credential)
        except AuthenticationError as error:
            self.connection.end_after(replies.error(xid, 0, Error.AUTH_FAILED), f"authentication failed: {error}")
            return
        self.origin = attrs.evolve(self.origin, identities=known)
        self.connection.pipeline.answer(partial(replies.reply, xid, 0))

    def sasl(self, xid: int, opcode: OpCode, body: Reader) -> None:
        token = requests.token(body)
        if self._exchange is None and self.hooks.new_exchange is not None:
            self._exchange = self.hooks.new_exchange()
        try:
            answer = self._login(token)
        except AuthenticationError as error:
            self.connection.end_after(replies.error(xid, 0, Error.AUTH_FAILED), f"login failed: {error}")
            return
        self.connection.pipeline.answer(partial(replies.reply, xid, 0, buffer(answer)))

    def _login(self, token: bytes) -> bytes:
        if self._exchange is None:
            raise AuthenticationError("nobody can log in here")
        answer = self._exchange.respond(token)
        if self._exchange.user is not None:
            known = add_identities(self.origin.identities, self._exchange.user)
            self.origin = attrs.evolve(self.origin, identities=known)
            self._handlers = _HANDLERS
        return answer

    def who_am_i(self, xid: int, opcode: OpCode, body: Reader) -> None:
        known = self.origin.identities
        self.connection.pipeline.answer(lambda: replies.identities(xid, self._zxid, known))

    def _refuse(self, xid: int, reason: int) -> None:
        self.connection.pipeline.answer(lambda: replies.error(xid, self._zxid, reason))


_WRITES: Final[Mapping[int, Callable[[Reader], requests.Write]]] = {
    OpCode.CREATE: requests.create,
    OpCode.CREATE2: requests.create,
    OpCode.CREATE_CONTAINER: requests.create_container,
    OpCode.CREATE_TTL: requests.create_ttl,
    OpCode.DELETE: requests.delete,
    OpCode.SET_DATA: requests.set_data,
    OpCode.SET_ACL: requests.set_acl,
}
_HANDLERS: Final[Mapping[int, Handle]] = {
    **dict.fromkeys(_WRITES, Operations.write),
    OpCode.EXISTS: Operations.exists,
    OpCode.GET_DATA: Operations.get_data,
    OpCode.GET_ACL: Operations.get_acl,
    OpCode.GET_CHILDREN: Operations.get_children,
    OpCode.GET_CHILDREN2: Operations.get_children,
    OpCode.SYNC: Operations.sync,
    OpCode.PING: Operations.ping,
    OpCode.MULTI: Operations.multi,
    OpCode.RECONFIG: Operations.reconfig,
    OpCode.CHECK_WATCHES: Operations.check_watches,
    OpCode.REMOVE_WATCHES: Operations.remove_watches,
    OpCode.MULTI_READ: Operations.multi_read,
    OpCode.AUTH: Operations.auth,
    OpCode.SET_WATCHES: Operations.set_watches,
    OpCode.SASL: Operations.sasl,
    OpCode.GET_EPHEMERALS: Operations.get_ephemerals,
    OpCode.GET_ALL_CHILDREN_NUMBER: Operations.count,
    OpCode.SET_WATCHES2: Operations.set_watches2,
    OpCode.ADD_WATCH: Operations.add_watch,
    OpCode.WHO_AM_I: Operations.who_am_i,
    OpCode.CLOSE_SESSION: Operations.close_session,
}
_BEFORE_LOGIN: Final[Mapping[int, Handle]] = {
    opcode: _HANDLERS[opcode] for opcode in (OpCode.AUTH, OpCode.SASL, OpCode.PING, OpCode.CLOSE_SESSION)
}
"""What those may ask who have not logged in where everybody must."""
