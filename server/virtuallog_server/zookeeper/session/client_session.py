"""One client's connection, from its first byte to its last: its identity, its session, and its end.

    word of four letters -> answered -> closed
    connect request      -> a session (`session_setup`) -> requests (`request_handler`)
                         -> refused: there is no such session -> closed; or closed without an answer

A connection ends when the client leaves, closes its session or breaks the protocol; when its session is over or is resumed on
another connection; when an answer will never be known; when nothing arrives for as long as the session's timeout (`SessionExpiry` ends
the session itself); and when the client reads nothing. Its watches end with it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

import attrs
from trio.abc import Stream

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.rpc.channel import Channel
from virtuallog_database.tree.commands import Identity, Origin
from virtuallog_database.tree.results import ChangeKind, Error
from virtuallog_server.zookeeper.admin.facts import ConnectionFacts
from virtuallog_server.zookeeper.session.metrics import WriteSampler, ZooKeeperMetrics
from virtuallog_server.zookeeper.session.read_budget import ReadBudget
from virtuallog_server.zookeeper.session.reads import ReadContext
from virtuallog_server.zookeeper.session.request_handler import RequestHandler
from virtuallog_server.zookeeper.session.serving_context import ServiceMode
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
    """The parts of the server that a connection uses."""

    @property
    def syncs(self) -> SharedSync: ...

    @property
    def read_budget(self) -> ReadBudget: ...

    @property
    def meter(self) -> ZooKeeperMetrics: ...

    def settle(self, client: ClientSession) -> None:
        """Note that the client has a session."""
        ...

    def weigh(self, client: ClientSession) -> None: ...


@attrs.frozen(kw_only=True)
class ClientAddress:
    """The peer of a connection."""

    host: str
    """Its address; empty if it has none."""
    port: int = 0
    subject: str | None = None
    """Subject of the certificate that it has shown; empty if it has shown none. None without TLS."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@attrs.define(eq=False)
class ClientSession:
    """One client's connection. It is the session of an `Admission`, and a `Watcher` of the tree."""

    house: ServerContext
    caller: ClientAddress
    connection: Connection = attrs.field(init=False)
    channel: Channel[Connection] = attrs.field(init=False)
    operations: RequestHandler = attrs.field(init=False)
    arrived_at: float = attrs.field(init=False)
    established_ms: int = attrs.field(init=False)
    session: int = attrs.field(default=0, init=False)
    timeout_ms: int = attrs.field(default=0, init=False)
    """Timeout of the session. 0 before there is one."""
    is_local: bool = attrs.field(default=False, init=False)
    """True if the session belongs to this connection alone, and is not in the log."""
    _counted: bool = attrs.field(default=False, init=False)
    """True if its session was counted as an attempt; a login gives that back."""
    _heard_at: float = attrs.field(default=0.0, init=False)
    """Time of the last bytes that `SessionExpiry` knows of, at first that of the grant: what has come before belongs to the handshake,
    and may be as old as that."""
    _heard_frames: int = attrs.field(default=0, init=False)
    _taken_bytes: int = attrs.field(default=0, init=False)
    """Bytes that the client had taken at the last tick."""
    _silent_seconds: float = attrs.field(default=0.0, init=False)
    _is_held_up: bool = attrs.field(default=False, init=False)
    """True if nothing was read last time: there was no room, or nothing may be answered before a touch is applied."""

    def __attrs_post_init__(self) -> None:
        house, settings = self.house, self.house.settings
        self.connection = Connection(
            settings.jute_maxbuffer_bytes,
            settings.outstanding_max,
            house.hooks.words.is_word,
            self._on_output,
            partial(house.read_budget.admits, self._go_on),
            self._may_take,
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
        """Serve the connection until it ends; return the reason."""
        try:
            return await self.channel.run(stream, self._on_event, self._may_read)
        finally:
            self._leave()

    @property
    def active_at(self) -> float:
        return self.channel.received_at

    @property
    def has_asked(self) -> bool:
        return self.connection.received_frames > 0

    @property
    def is_idle(self) -> bool:
        """Always False: a client with a session keeps it, and its watches, also while it sends nothing."""
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
        """Note that time has passed, and which clients are served now. A client that got its session in another mode must reconnect.

        The mode is compared for each client, as it may have changed twice since the last tick. Time is counted in ticks of this server: a
        process that was stopped for a minute has not listened for that minute, nor does it listen to a client whose requests it holds back.
        """
        if self.timeout_ms and standing is not (ServiceMode.READ_ONLY if self.is_local else ServiceMode.FULL):
            self.end(f"clients are served differently from now on: {standing.value}")
            return
        is_excused, frames = self._excuse_silence(), self.connection.received_frames
        if frames != self._heard_frames or is_excused or not self.timeout_ms:
            self._heard_frames, self._silent_seconds = frames, 0.0
            return
        self._silent_seconds += seconds
        if self._silent_seconds * 1000 > self.timeout_ms:
            self.end(f"nothing was heard for {self._silent_seconds:g} s")

    def _excuse_silence(self) -> bool:
        """True if nothing is read now, and that says nothing about the client. Its session counts as heard then.

        * Nothing may be answered, or the log owes answers: our doing. It excuses the silence of one timeout. After that the client
          has given this server up or is dead; its end would not be seen either while nothing is read.
        * Too many answers are unread: the client's doing. It is there while it takes some.
        """
        former, self._taken_bytes = self._taken_bytes, self.channel.traffic.sent_bytes
        if not self._is_held_up:
            return False
        now = self.house.clock.monotonic()
        if self.connection.is_unread:
            until = now if self._taken_bytes != former else -math.inf
        else:
            until = max(self._heard_at, self.channel.received_at) + self.timeout_ms / 1000
        if self._is_logged:
            self.house.database.expiry.heard(self.session, min(now, until))
        return now <= until

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

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        """Send a watch event. A client that does not read is closed: events could pile up without end."""
        connection = self.connection
        if connection.failure is not None:
            return
        connection.emit(replies.event(kind, path))
        if connection.outbox.waiting_bytes > 2 * UNSENT_BYTES_MAX:
            self.end("does not take what its watches tell")

    def lose(self, cause: Exception) -> None:
        """End the connection now."""
        error = cause if isinstance(cause, VirtualLogError) else UnavailableError(f"an answer is missing: {cause!r}")
        self.operations.is_over = True
        self.connection.fail(error)
        self.channel.close(error)

    def _on_ended(self, reason: Error) -> None:
        """React to the end of the session, or to its move to another connection. If this client has caused it, the answer follows in its
        turn.
        """
        if not self.operations.closing:
            self.end(f"the session is not served here any more: {reason.name}")

    def _go_on(self) -> None:
        """Resume what has waited for a touch, or for the budget of reads."""
        self.connection.pipeline.advance()
        self.channel.kick()  # there may be room now for more of the received requests

    def _on_output(self) -> None:
        self.channel.kick()

    def _may_read(self) -> bool:
        """Called before each read, and when something was sent. Requests that have arrived come first."""
        connection = self.connection
        if connection.failure is not None:
            return True
        connection.pipeline.advance()
        for event in connection.requests():
            self._on_event(event)
        self._is_held_up = not (connection.has_room and self._may_take())
        self.house.weigh(self)
        received_at = self.channel.received_at
        if received_at > self._heard_at and self._is_logged:
            self._heard_at = received_at
            self.house.database.expiry.heard(self.session, received_at)
        return not self._is_held_up or connection.failure is not None

    @property
    def _is_logged(self) -> bool:
        """True if there is a session, and it is in the log."""
        return self.session != 0 and not self.is_local

    def _may_take(self) -> bool:
        """True if requests may be answered. A server that has not heard from the log for a while holds them: the session may be over."""
        if not self._is_logged:
            return True
        return self.house.database.expiry.admits(self.session, self.house.clock.monotonic(), self._go_on)

    def _on_event(self, event: Event) -> None:
        """Handle an event. Raises nothing: an error here would end the server, with all of its connections."""
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

    @property
    def has_gone(self) -> bool:
        return self.operations.is_over

    def admit(self, asked: ConnectRequest, grant: SessionGrant) -> None:
        """Start a session: requests can be taken."""
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
        self.channel.kick()  # requests that have arrived meanwhile can be done now
        if not grant.is_local:
            self._heard_at = now = self.house.clock.monotonic()
            self.house.database.expiry.attach(
                grant.session, grant.generation, self._on_ended, proposed=grant.proposed_at, now=now
            )

    def _on_login(self) -> None:
        if self._counted:
            self._counted = False
            self.house.attempts.give_back(self.address, self.house.clock.monotonic())

    def refuse(self, asked: ConnectRequest, reason: Error) -> None:
        """Answer that there is no such session, and close."""
        self.connection.emit(handshake.refused(asked))
        self.connection.end(f"its session is refused: {reason.name}")

    def _leave(self) -> None:
        self.operations.is_over = True
        self.house.read_budget.leave(self._go_on)
        if self.connection.phase is not ConnectionPhase.ENDING:
            self.connection.stop()
        database = self.house.database
        database.watches.remove_all(self)
        if self._is_logged:
            database.expiry.detach(self.session, self.operations.origin.generation)
