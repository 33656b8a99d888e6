"""How a connection gets its session: from the connect request to a place in the log, or to a refusal.

    nobody is served now, or only those content with reads   closed without a word
    the client has seen more than this server has applied    the same: reads of one client never go back, whichever server it asks
    no session yet                                           CreateSession, with an id and a password drawn here
    a session                                                Attach: goes on here; refused if it is over or the password is wrong
    the log cannot be reached, and reads will do             a session of this connection alone

Nothing waits here: the log answers by a callback, and requests behind the handshake stay in the stream until then.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final, Protocol

import attrs

from database.kv.commands import Attach, CreateSession, Origin
from database.kv.database import Database
from database.kv.results import Attached, Error, Result
from database.kv.session_ids import draw_password, draw_session_id
from server.zookeeper.handshake import ConnectRequest
from server.zookeeper.hooks import Hooks, Standing
from server.zookeeper.settings import ZooKeeperSettings
from virtuallog.errors import VirtualLogError

DRAWS_MAX: Final = 3
"""Of session ids, 56 random bits each: a second draw happens once in the life of a universe, unless chance is broken."""


class Host(Protocol):
    """What is needed of the server."""

    @property
    def database(self) -> Database: ...

    @property
    def settings(self) -> ZooKeeperSettings: ...

    @property
    def hooks(self) -> Hooks: ...

    @property
    def random(self) -> Random: ...

    @property
    def node(self) -> int: ...

    def evict(self, session: int) -> None:
        """Somebody asks for this session: no connection of this server has it any more."""
        ...


@attrs.frozen(kw_only=True)
class Grant:
    """A session that goes on at this connection."""

    session: int
    password: bytes
    timeout_ms: int
    generation: int = 0
    is_local: bool = False
    """Of this connection alone, and not in the log."""


class Newcomer(Protocol):
    """Who wants a session. One of the first three is called once; none after it has gone."""

    def admit(self, asked: ConnectRequest, grant: Grant) -> None: ...

    def refuse(self, asked: ConnectRequest, reason: Error) -> None:
        """There is no such session for it."""
        ...

    def lose(self, cause: Exception) -> None:
        """Nobody knows."""
        ...

    def end(self, reason: str) -> None:
        """It is not served."""
        ...

    @property
    def has_gone(self) -> bool: ...


@attrs.frozen(eq=False)
class Attaching:
    """One handshake."""

    _host: Host
    _newcomer: Newcomer
    _asked: ConnectRequest

    def begin(self) -> None:
        """Find out what to do, and do it."""
        host, asked = self._host, self._asked
        standing, applied = host.hooks.standing(), host.database.tree.last_zxid
        if asked.session:  # at once, even if the password proves wrong
            host.evict(asked.session)
        if standing is Standing.NONE or (standing is Standing.READ_ONLY and not asked.read_only):
            self._newcomer.end("nobody is served now")
        elif asked.last_zxid > applied:
            self._newcomer.end(f"it has seen zxid {asked.last_zxid:#x}, and {applied:#x} is the last here")
        elif standing is Standing.READ_ONLY:
            self._newcomer.admit(asked, self._local())
        elif asked.session:
            attach = Attach(asked.session, asked.password, self._timeout_ms)
            host.database.submit(attach, Origin(), partial(self._attached, asked.password))
        else:
            self._create(DRAWS_MAX)

    def _create(self, draws: int) -> None:
        host = self._host
        session, password = draw_session_id(host.node, host.random), draw_password(host.random)

        def done(outcome: Result | VirtualLogError) -> None:
            if isinstance(outcome, Result) and outcome.error is Error.NODE_EXISTS and draws > 1:
                self._create(draws - 1)
            else:
                self._attached(password, outcome)

        host.database.submit(CreateSession(session, password, self._timeout_ms), Origin(), done)

    def _attached(self, password: bytes, outcome: Result | Exception) -> None:
        if self._newcomer.has_gone:
            return  # a new session that nobody has ever heard of: it expires
        if isinstance(outcome, Exception):
            self._newcomer.lose(outcome)
        elif outcome.error:
            self._newcomer.refuse(self._asked, outcome.error)
        else:
            attached: Attached = outcome.value
            grant = Grant(
                session=attached.session,
                password=password,
                timeout_ms=attached.timeout_ms,
                generation=attached.generation,
            )
            self._newcomer.admit(self._asked, grant)

    def _local(self) -> Grant:
        """A client that had a session of the log keeps its id, to return to it elsewhere; nothing here can be done in its
        name, so its password is not asked for."""
        host, asked = self._host, self._asked
        return Grant(
            session=asked.session or draw_session_id(host.node, host.random),
            password=asked.password if asked.session else draw_password(host.random),
            timeout_ms=self._timeout_ms,
            is_local=True,
        )

    @property
    def _timeout_ms(self) -> int:
        settings = self._host.settings
        return max(settings.timeout_min_ms, min(self._asked.timeout_ms, settings.timeout_max_ms))
