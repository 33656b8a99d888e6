"""Setup of a connection's session: from the connect request to a place in the log, or to a refusal.

    no client is served now, or only those that accept reads   closed without an answer
    the client has seen more than this server has applied      the same: reads of one client never go back, on any server
    no session yet                                             CreateSession, with an id and a password drawn here
    a session, and the password is another one here            refused: no password ever changes
    a session                                                  Attach: resumed here; refused if it is over or the password is wrong
    the log cannot be reached, and the client accepts reads    a local session: of this connection alone

The former connection of a session is ended once the password has proved right, never for a claim: ids of sessions are public.

A local session ends with its connection, and a client that asks for it by its id is told so. A client that shows the password of a
session of the log keeps its id, to return to it elsewhere; without the password it gets nothing of that session. The password of a
session that is not known here cannot be checked: the client is closed, as its session may live elsewhere.

An Attach of a session that is not known here costs an entry of the log for a mere claim, and so does CreateSession if a login must
follow: `HandshakeQuota` bounds both for each address.

Nothing waits here: the log answers by a callback, and requests behind the handshake stay in the stream until then.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final, Protocol

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock, Done
from virtuallog_database.replica.database import Database
from virtuallog_database.replica.session_ids import draw_local_id, draw_password, draw_session_id, is_local
from virtuallog_database.tree.commands import PASSWORD_BYTES, Attach, CreateSession, Origin
from virtuallog_database.tree.results import Attached, Error, Result
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.session.handshake_quota import HandshakeQuota
from virtuallog_server.zookeeper.session.serving_context import ServiceMode, SessionHooks
from virtuallog_server.zookeeper.wire.handshake import ConnectRequest

DRAWS_MAX: Final = 3
"""Draws of a session id, 56 random bits each. A second draw practically never happens, unless the random source is broken."""


class SetupContext(Protocol):
    """The parts of the server that a setup uses."""

    @property
    def database(self) -> Database: ...

    @property
    def settings(self) -> ZooKeeperSettings: ...

    @property
    def hooks(self) -> SessionHooks: ...

    @property
    def random(self) -> Random: ...

    @property
    def node(self) -> int: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def attempts(self) -> HandshakeQuota: ...


@attrs.frozen(kw_only=True)
class SessionGrant:
    """A session that this connection gets."""

    session: int
    password: bytes
    timeout_ms: int
    generation: int = 0
    proposed_at: float = 0.0
    """Time at which its command was proposed, in seconds of the server's monotonic clock."""
    is_local: bool = False
    """True if it belongs to this connection alone, and is not in the log."""
    counted: bool = False
    """True if an attempt was counted for it, which a login gives back."""


class SessionRequester(Protocol):
    """A connection that wants a session. One of `admit`, `refuse` and `lose` is called once; none after it has ended."""

    @property
    def address(self) -> str:
        """The peer's address, without a port."""
        ...

    def admit(self, asked: ConnectRequest, grant: SessionGrant) -> None: ...

    def refuse(self, asked: ConnectRequest, reason: Error) -> None:
        """Answer that there is no such session."""
        ...

    def lose(self, cause: Exception) -> None:
        """End without an answer: the outcome is unknown."""
        ...

    def end(self, reason: str) -> None:
        """End without an answer: the client is not served."""
        ...

    @property
    def has_gone(self) -> bool: ...


@attrs.define(eq=False)
class SessionSetup:
    """The setup of one connection."""

    _host: SetupContext
    _newcomer: SessionRequester
    _asked: ConnectRequest
    _counted: bool = attrs.field(default=False, init=False)
    """True if it was counted as an attempt."""
    _proposed_at: float = attrs.field(default=0.0, init=False)

    def begin(self) -> None:
        """Decide on the connect request, and act."""
        host, asked = self._host, self._asked
        standing, applied = host.hooks.standing(), host.database.tree.last_zxid
        if standing is ServiceMode.NONE or (standing is ServiceMode.READ_ONLY and not asked.read_only):
            self._newcomer.end("no client is served now")
        elif asked.last_zxid > applied:
            self._newcomer.end(f"it has seen zxid {asked.last_zxid:#x}, and {applied:#x} is the last here")
        elif asked.session:
            self._claim(asked.session, read_only=standing is ServiceMode.READ_ONLY)
        elif standing is ServiceMode.READ_ONLY:
            self._admit_local(draw_local_id(host.random), draw_password(host.random))
        elif self._may_try(counts=host.hooks.sasl_required):
            self._create(DRAWS_MAX)

    def _claim(self, session: int, *, read_only: bool) -> None:
        """Handle a client's claim to a session."""
        known = self._host.database.tree.session(session)
        is_right = known is not None and known.has_password(self._asked.password)
        is_none = len(self._asked.password) != PASSWORD_BYTES  # else a claim could make an entry of a megabyte
        if is_local(session) or is_none or (known is not None and not is_right):
            self._newcomer.refuse(self._asked, Error.SESSION_EXPIRED)
        elif not read_only:
            if self._may_try(counts=not is_right):
                self._attach(session)
        elif is_right:
            self._admit_local(session, self._asked.password)
        else:
            self._newcomer.end("its session is not known here, and the log cannot be asked")

    def _may_try(self, *, counts: bool) -> bool:
        """True if an entry may be spent. If not, the client is closed, and tries again later."""
        address, host = self._newcomer.address, self._host
        if counts and not host.attempts.take(address, host.clock.monotonic()):
            self._newcomer.end(f"too many attempts from {address} without a password or a login that was right")
            return False
        self._counted = counts
        return True

    def _attach(self, session: int) -> None:
        password = self._asked.password
        self._submit(Attach(session, password, self._timeout_ms), partial(self._attached, password))

    def _create(self, draws: int) -> None:
        host = self._host
        session, password = draw_session_id(host.node, host.random), draw_password(host.random)

        def done(outcome: Result | VirtualLogError) -> None:
            if isinstance(outcome, Result) and outcome.error is Error.NODE_EXISTS and draws > 1:
                self._create(draws - 1)
            else:
                self._attached(password, outcome)

        self._submit(CreateSession(session, password, self._timeout_ms), done)

    def _submit(self, operation: Attach | CreateSession, done: Done) -> None:
        self._proposed_at = self._host.clock.monotonic()
        self._host.database.proposals.submit(operation, Origin(), done)

    def _attached(self, password: bytes, outcome: Result | Exception) -> None:
        if isinstance(outcome, Result) and not outcome.error and self._counted and self._asked.session:
            self._host.attempts.give_back(self._newcomer.address, self._host.clock.monotonic())
        if self._newcomer.has_gone:
            return  # a new session that no client has ever heard of: it expires
        if isinstance(outcome, Exception):
            self._newcomer.lose(outcome)
        elif outcome.error:
            self._newcomer.refuse(self._asked, outcome.error)
        else:
            attached: Attached = outcome.value
            grant = SessionGrant(
                session=attached.session,
                password=password,
                timeout_ms=attached.timeout_ms,
                generation=attached.generation,
                proposed_at=self._proposed_at,
                counted=self._counted and not self._asked.session,
            )
            self._newcomer.admit(self._asked, grant)

    def _admit_local(self, session: int, password: bytes) -> None:
        grant = SessionGrant(session=session, password=password, timeout_ms=self._timeout_ms, is_local=True)
        self._newcomer.admit(self._asked, grant)

    @property
    def _timeout_ms(self) -> int:
        settings = self._host.settings
        return max(settings.timeout_min_ms, min(self._asked.timeout_ms, settings.timeout_max_ms))
