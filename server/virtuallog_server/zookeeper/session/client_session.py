"""One client, from its first byte to its last: who it is, which session it has, and what ends it.

    word of four letters -> answered -> closed
    connect request      -> a session (`attaching`) -> requests (`operations`)
                         -> told that there is no such session, or nothing -> closed

A connection ends when the client leaves, closes its session or breaks the protocol; when its session is over or goes on at another
connection; when an answer will never be known; when nothing comes for as long as the session's timeout (the session itself is not ours to
end); and when it takes nothing of what is sent to it. Its watches end with it.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import attrs
from trio.abc import Stream

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.rpc.channel import Channel
from virtuallog_database.tree.commands import Identity, Origin
from virtuallog_database.tree.results import ChangeKind, Error
from virtuallog_server.zookeeper.admin.facts import ConnectionFacts
from virtuallog_server.zookeeper.session.hooks import ServiceMode
from virtuallog_server.zookeeper.session.metrics import WriteSampler, ZooKeeperMetrics
from virtuallog_server.zookeeper.session.read_budget import ReadBudget
from virtuallog_server.zookeeper.session.reads import ReadContext
from virtuallog_server.zookeeper.session.request_handler import RequestHandler
from virtuallog_server.zookeeper.session.session_setup import SessionGrant, SessionSetup, SetupContext
from virtuallog_server.zookeeper.session.shared_sync import SharedSync
from virtuallog_server.zookeeper.wire import handshake, replies
from virtuallog_server.zookeeper.wire.connection import (
    UNSENT_BYTES_MAX,
    Connection,
    ConnectionPhase,
    Event,
    FourLetterWord,
    Request,
)
from virtuallog_server.zookeeper.wire.handshake import ConnectRequest


class ServerContext(SetupContext, Protocol):
    """What a guest needs of the server."""

    @property
    def syncs(self) -> SharedSync: ...

    @property
    def read_budget(self) -> ReadBudget: ...

    @property
    def meter(self) -> ZooKeeperMetrics: ...

    def settle(self, guest: ClientSession) -> None:
        """It has a session."""
        ...

    def weigh(self, guest: ClientSession) -> None: ...


@attrs.frozen(kw_only=True)
class ClientAddress:
    """The other side of a connection."""

    host: str
    """Its address; empty if it has none."""
    port: int = 0
    subject: str | None = None
    """Of the certificate that it has shown; empty, if it has none. None: it does not come by TLS."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@attrs.define(eq=False)
class ClientSession:
    """See above. The `ClientSession` of an `Admission`, and a `Watcher` of the tree."""

    house: ServerContext
    caller: ClientAddress
    connection: Connection = attrs.field(init=False)
    channel: Channel[Connection] = attrs.field(init=False)
    operations: RequestHandler = attrs.field(init=False)
    arrived_at: float = attrs.field(init=False)
    established_ms: int = attrs.field(init=False)
    session: int = attrs.field(default=0, init=False)
    timeout_ms: int = attrs.field(default=0, init=False)
    """0: there is no session yet."""
    is_local: bool = attrs.field(default=False, init=False)
    """The session is this connection's alone, and not in the log."""
    _counted: bool = attrs.field(default=False, init=False)
    """Its session was counted as an attempt: until a login."""
    _heard_frames: int = attrs.field(default=0, init=False)
    _silent_seconds: float = attrs.field(default=0.0, init=False)
    _is_held_up: bool = attrs.field(default=False, init=False)
    """Nothing was read last time, as there was no room."""

    def __attrs_post_init__(self) -> None:
        house, settings = self.house, self.house.settings
        self.connection = Connection(
            settings.jute_maxbuffer_bytes,
            settings.outstanding_max,
            house.hooks.words.is_word,
            self._on_output,
            partial(house.read_budget.admits, self._go_on),
        )
        self.channel = Channel(self.connection, house.clock)
        self.operations = RequestHandler(
            ReadContext(house.database, self),
            self.connection,
            house.hooks,
            house.syncs,
            WriteSampler(house.clock.monotonic, house.meter.took),
            house.read_budget,
            self.lose,
            Origin(identities=self._greet()),
            on_login=self._on_login,
        )
        self.arrived_at = self.channel.received_at
        self.established_ms = round(house.clock.wall() * 1000)

    async def run(self, stream: Stream) -> VirtualLogError:
        """Until it ends; says why."""
        try:
            return await self.channel.run(stream, self._on_event, self._may_read)
        finally:
            self._leave()

    # -- what the server asks ----------------------------------------------------------------------------------------

    @property
    def active_at(self) -> float:
        return self.channel.received_at

    @property
    def has_asked(self) -> bool:
        return self.connection.received_frames > 0

    @property
    def is_idle(self) -> bool:
        """Never: somebody who has a session keeps it, and his watches, also without a word."""
        return False

    @property
    def stuck_since(self) -> float | None:
        return self.channel.stuck_since

    @property
    def held_bytes(self) -> int:
        connection = self.connection
        return self.channel.unsent_bytes + connection.pipeline.held_bytes + connection.unfinished_bytes

    @property
    def address(self) -> str:
        return self.caller.host

    @property
    def identities(self) -> tuple[Identity, ...]:
        return self.operations.origin.identities

    def end(self, reason: str) -> None:
        self.lose(UnavailableError(reason))

    def tick(self, seconds: float, standing: ServiceMode) -> None:
        """Time has passed, and clients are served like this now. A client that got its session under another standing has to find out:
        looked at for each, as the standing may have changed twice since the last tick. Counted in ticks of this server: one that was stopped for a minute has not been listening, nor does it
        listen to whom it holds up."""
        if self.timeout_ms and standing is not (ServiceMode.READ_ONLY if self.is_local else ServiceMode.FULL):
            self.end(f"clients are served differently from now on: {standing.value}")
            return
        frames = self.connection.received_frames
        if frames != self._heard_frames or self._is_held_up or not self.timeout_ms:
            self._heard_frames, self._silent_seconds = frames, 0.0
            return
        self._silent_seconds += seconds
        if self._silent_seconds * 1000 > self.timeout_ms:
            self.end(f"nothing was heard for {self._silent_seconds:g} s")

    def facts(self) -> ConnectionFacts:
        connection = self.connection
        return ConnectionFacts(
            address=self.caller.address,
            session=self.session,
            timeout_ms=self.timeout_ms,
            outstanding=len(connection.pipeline),
            received=connection.received_frames,
            sent=connection.sent_frames,
            established_ms=self.established_ms,
            last_zxid=connection.last_zxid,
            identities=[each.scheme if each.scheme == "digest" else f"{each.scheme}:{each.id}" for each in self.identities],
            secure=self.caller.subject is not None,
        )  # fmt: skip

    # -- what others do ----------------------------------------------------------------------------------------------

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        """A watch has fired. A client that takes nothing is closed: it could be told of changes without end."""
        connection = self.connection
        if connection.failure is not None:
            return
        connection.emit(replies.event(kind, path))
        if connection.outbox.waiting_bytes > 2 * UNSENT_BYTES_MAX:
            self.end("does not take what its watches tell")

    def lose(self, cause: Exception) -> None:
        """The connection is over, now."""
        error = cause if isinstance(cause, VirtualLogError) else UnavailableError(f"an answer is missing: {cause!r}")
        self.operations.is_over = True
        self.connection.fail(error)
        self.channel.close(error)

    def _on_ended(self, reason: Error) -> None:
        """The session is over, or has gone elsewhere; what this client has done itself is answered in its turn."""
        if not self.operations.closing:
            self.end(f"the session is not served here any more: {reason.name}")

    def _go_on(self) -> None:
        """The tree may be looked at again."""
        self.connection.pipeline.advance()
        self.channel.kick()  # more of what has come may have room now

    # -- what comes --------------------------------------------------------------------------------------------------

    def _on_output(self) -> None:
        self.channel.kick()

    def _may_read(self) -> bool:
        """Asked before each read, and when something was sent: do first what has come already."""
        connection = self.connection
        if connection.failure is not None:
            return True
        connection.pipeline.advance()
        for event in connection.requests():
            self._on_event(event)
        self._is_held_up = not connection.has_room
        self.house.weigh(self)
        if connection.received_frames != self._heard_frames and self.session and not self.is_local:
            self.house.database.expiry.heard(self.session)
        return not self._is_held_up or connection.failure is not None

    def _on_event(self, event: Event) -> None:
        """Raises nothing: that would end the server, with all of its connections."""
        if type(event) is Request:
            self.operations.handle(event)
            return
        try:
            self._on_beginning(event)
        except Exception as error:
            self.operations.fail(error)

    def _on_beginning(self, event: Event) -> None:
        if isinstance(event, ConnectRequest):
            SessionSetup(self.house, self, event).begin()
        elif isinstance(event, FourLetterWord):
            self.connection.emit(self.house.hooks.words.answer(event.letters))
            self.connection.end("a word was answered")

    def _greet(self) -> tuple[Identity, ...]:
        return self.house.hooks.authentication.greet(self.caller.host, self.caller.subject or "")

    # -- the session -------------------------------------------------------------------------------------------------

    @property
    def has_gone(self) -> bool:
        return self.operations.is_over

    def admit(self, asked: ConnectRequest, grant: SessionGrant) -> None:
        """It has a session: requests can be taken."""
        operations = self.operations
        self.session, self.timeout_ms, self.is_local = grant.session, grant.timeout_ms, grant.is_local
        self._counted = grant.counted
        operations.origin = Origin(grant.session, grant.generation, self.identities)
        operations.read_only = grant.is_local
        self.house.settle(self)
        response = handshake.accepted(
            asked, grant.session, grant.password, grant.timeout_ms, read_only=operations.read_only
        )
        self.connection.open(response)
        self.channel.kick()  # what has come meanwhile can be done now
        if not grant.is_local:
            self.house.database.expiry.attach(grant.session, grant.generation, self._on_ended)

    def _on_login(self) -> None:
        if self._counted:
            self._counted = False
            self.house.attempts.give_back(self.address, self.house.clock.monotonic())

    def refuse(self, asked: ConnectRequest, reason: Error) -> None:
        """It is told that there is no such session, and closed."""
        self.connection.emit(handshake.refused(asked))
        self.connection.end(f"its session is refused: {reason.name}")

    def _leave(self) -> None:
        self.operations.is_over = True
        self.house.read_budget.leave(self._go_on)
        if self.connection.phase is not ConnectionPhase.ENDING:
            self.connection.stop()
        database = self.house.database
        database.watches.remove_all(self)
        if self.session and not self.is_local:
            database.expiry.detach(self.session, self.operations.origin.generation)
