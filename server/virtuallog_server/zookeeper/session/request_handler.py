"""Handler of a client's requests: commands for the log, reads of the tree (`reads`), and authentication.

One object for each connection that has a session. Nothing here waits: a read is answered, or queued behind earlier requests; a
command is submitted, and answered from the callback. The tree checks rights, versions and paths. How a command becomes an entry of the log:
`virtuallog_database/replica/command_proposals.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.runtime import log
from virtuallog_database.tree.commands import CloseSession, Operation, Origin
from virtuallog_database.tree.results import Error, RefusedError, Result
from virtuallog_server.zookeeper.auth.sasl import SaslExchange
from virtuallog_server.zookeeper.auth.schemes import AuthenticationError, add_identities
from virtuallog_server.zookeeper.session.metrics import WriteSampler
from virtuallog_server.zookeeper.session.read_budget import ReadBudget
from virtuallog_server.zookeeper.session.reads import READS, SCANS, Find, ReadContext
from virtuallog_server.zookeeper.session.serving_context import SessionHooks
from virtuallog_server.zookeeper.session.shared_sync import SharedSync
from virtuallog_server.zookeeper.wire import replies, requests
from virtuallog_server.zookeeper.wire.connection import Connection, Request
from virtuallog_server.zookeeper.wire.jute import Reader, buffer
from virtuallog_server.zookeeper.wire.opcodes import OpCode
from virtuallog_server.zookeeper.wire.pipeline import PendingReply

Handle: TypeAlias = Callable[["RequestHandler", int, OpCode, Reader], None]
_LOST: Final = frozenset((Error.SESSION_MOVED, Error.SESSION_EXPIRED, Error.UNKNOWN_SESSION))
"""Errors that end the connection, without an answer: the session is no longer its own."""
_UNKNOWN_XID: Final = -1
"""ZooKeeper's -1 in the place of a zxid, if it has not looked at the tree."""


@attrs.define(eq=False)
class RequestHandler:
    """Handles the requests of one connection."""

    view: ReadContext
    connection: Connection
    hooks: SessionHooks
    syncs: SharedSync
    sampler: WriteSampler
    read_budget: ReadBudget
    lose: Callable[[Exception], None]
    """Called when an answer will never be known, or when the session is gone. The connection must be closed, as a client that waits for
    a reply would take the next one for it.
    """
    origin: Origin = attrs.field(factory=Origin)
    read_only: bool = False
    """True if the log cannot be reached: no writes."""
    on_login: Callable[[], None] = lambda: None
    """Called when the client has logged in with SASL."""
    is_over: bool = attrs.field(default=False, init=False)
    """True if the connection has ended. Requests in progress may still be answered; the answers are dropped."""
    closing: bool = attrs.field(default=False, init=False)
    """True if the client has closed its session."""
    _exchange: SaslExchange | None = attrs.field(default=None, init=False)
    _handlers: Mapping[int, Handle] = attrs.field(init=False)
    """Handlers of the requests that are allowed now."""

    def __attrs_post_init__(self) -> None:
        self._handlers = _BEFORE_LOGIN if self.hooks.sasl_required else _HANDLERS

    def handle(self, request: Request) -> None:
        """Carry out a request."""
        xid, opcode, body = request
        handler = self._handlers.get(opcode)
        if handler is None:
            self._turn_away(xid, opcode)
            return
        try:
            handler(self, xid, opcode, body)  # type: ignore[arg-type]  # an IntEnum among keys: an int finds it
        except MalformedError:
            self._refuse(xid, Error.MARSHALLING)
        except Exception as error:
            self.fail(error)

    def _turn_away(self, xid: int, opcode: int) -> None:
        if opcode in _HANDLERS:
            frame = replies.error(xid, self._zxid, Error.SASL_REQUIRED)
            self.connection.end_after(frame, "has not logged in, which this server requires")
        else:
            frame = replies.error(xid, _UNKNOWN_XID, Error.UNIMPLEMENTED)
            self.connection.end_after(frame, f"asked for operation {opcode}, which this server does not know")

    def submit(self, operation: Operation, size: int, answer: Callable[[Result], bytes]) -> None:
        """Put a command into the log, and answer it when it has been applied.

        Args:
            operation: the command.
            size: of the request, in bytes.
            answer: makes the frame.
        """
        origin = self.origin

        def start(turn: PendingReply) -> None:
            self.sampler.begin(turn)
            self.view.database.proposals.submit(operation, origin, partial(self._applied, turn, answer))

        self.connection.pipeline.write(start, size)

    def _applied(self, turn: PendingReply, answer: Callable[[Result], bytes], outcome: Result | Exception) -> None:
        if self.is_over:
            return
        if isinstance(outcome, Exception):  # also an error that every replica met when it applied the command
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
        """Answer, then close. A session that is over already is closed all the same."""
        self.connection.stop()
        self.closing = True
        end = partial(self.connection.end, "the client has closed its session")
        pipeline, origin = self.connection.pipeline, self.origin
        if self.read_only:
            pipeline.answer(lambda: replies.reply(xid, self._zxid), end)
            return

        def start(turn: PendingReply) -> None:
            done = partial(self._applied, turn, lambda result: replies.reply(xid, result.zxid))
            self.view.database.proposals.submit(CloseSession(origin.session), origin, done)

        pipeline.write(start, 0, end)

    @property
    def _zxid(self) -> int:
        return self.view.database.tree.last_zxid

    def read(self, xid: int, opcode: OpCode, body: Reader) -> None:
        parse, find = READS[opcode]
        run = partial(self._run, find, xid, parse(body), self.origin)
        if opcode in SCANS:
            run = partial(self.read_budget.timed, run)
        self.connection.pipeline.read(run)

    def _run(self, find: Find, xid: int, asked: Any, origin: Origin) -> bytes:
        """Run a read when its turn comes, at worst while a log entry is applied. So it raises nothing."""
        try:
            return find(self.view, xid, asked, origin)
        except RefusedError as refused:
            return replies.error(xid, self._zxid, refused.error)
        except Exception as error:
            self.fail(error)
            return b""

    def fail(self, error: Exception) -> None:
        """End the connection after an error of the replica's store, or a bug. The replica itself decides if it ends more."""
        if not isinstance(error, VirtualLogError):
            log.exception("a request of a client has failed")
        self.lose(error)

    def sync(self, xid: int, opcode: OpCode, body: Reader) -> None:
        path = requests.path(body)
        if self.read_only:
            self._refuse(xid, Error.NOT_READ_ONLY)
        else:
            self.syncs.post(partial(self._synced, self.connection.pipeline.wait(), xid, path))

    def _synced(self, turn: PendingReply, xid: int, path: str, error: VirtualLogError | None) -> None:
        if self.is_over:
            return
        if error is not None:
            self.lose(error)
        else:
            self.connection.pipeline.finish_later(turn, lambda: replies.text(xid, self._zxid, path))

    def ping(self, xid: int, opcode: OpCode, body: Reader) -> None:
        """Answer a ping in its turn, as ZooKeeper does: a client whose writes hang notices, and tries another server."""
        self.connection.pipeline.answer(lambda: replies.reply(xid, self._zxid))

    def auth(self, xid: int, opcode: OpCode, body: Reader) -> None:
        """Handle an auth packet. It counts for later requests; earlier ones may still wait, and keep their identities."""
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
            raise AuthenticationError("this server has no users to log in as: configure [[zookeeper.sasl_user]]")
        answer = self._exchange.respond(token)
        if self._exchange.user is not None:
            known = add_identities(self.origin.identities, self._exchange.user)
            self.origin = attrs.evolve(self.origin, identities=known)
            self._handlers = _HANDLERS
            self.on_login()
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
    **dict.fromkeys(_WRITES, RequestHandler.write),
    **dict.fromkeys(READS, RequestHandler.read),
    OpCode.MULTI: RequestHandler.multi,
    OpCode.RECONFIG: RequestHandler.reconfig,
    OpCode.SYNC: RequestHandler.sync,
    OpCode.PING: RequestHandler.ping,
    OpCode.AUTH: RequestHandler.auth,
    OpCode.SASL: RequestHandler.sasl,
    OpCode.WHO_AM_I: RequestHandler.who_am_i,
    OpCode.CLOSE_SESSION: RequestHandler.close_session,
}
_BEFORE_LOGIN: Final[Mapping[int, Handle]] = {
    opcode: _HANDLERS[opcode] for opcode in (OpCode.AUTH, OpCode.SASL, OpCode.PING, OpCode.CLOSE_SESSION)
}
"""Requests that are allowed before a login, if every client must log in."""
