"""A client of the database with one session at a time: it connects to any server, comes back after
a break, and starts anew when its session is gone.

    new session --connection breaks--> the same session, another server --refused--> new session ...

A broken connection proves nothing: the request has happened, or will, or never does.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.testing.checker.history import History
from virtuallog_simulation.workload.database.connection import Connection, Dial, connected
from virtuallog_simulation.workload.database.requests import Connect, Ping

NEW: Final = bytes(16)
"""The password of a session that does not exist yet."""
HANDSHAKE_SECONDS: Final = 3.0
"""A server that has not answered by then is left, as by ZooKeeper's clients."""
RETRY_SECONDS: Final = 0.2
_PINGS: Final = 3
"""Pings in one timeout, as ZooKeeper's clients send them."""
_SILENCE: Final = 2 / 3
"""Share of the timeout without an answer after which a client leaves."""


@attrs.define(eq=False)
class DatabaseClient:
    """A database client with one session. Used by one task."""

    name: str
    history: History
    random: random.Random
    servers: Sequence[Dial]
    timeout_ms: int
    number: Callable[[], int]
    """Gives each connection a number of its own."""
    session: int = 0
    """0: none."""
    password: bytes = NEW
    seen: int = 0
    """The newest state that the session was shown."""
    read_only: bool = False
    """Reads will do where there is nothing else."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection to some server, in the session if there is one, and pinged; tries until it has one.

        While inside, waiting callers get UnavailableError once the connection is gone.
        """
        while True:
            dial = self.random.choice(self.servers)
            asked = Connect(self.number(), self.session, self.seen, self.timeout_ms, self.password, self.read_only)
            try:
                async with connected(
                    asked.connection, dial, asked, self.password, self.history, self.name, HANDSHAKE_SECONDS
                ) as connection:
                    if not connection.granted.session:
                        self.forget()
                        continue
                    if not connection.granted.read_only:
                        self.session, self.password = connection.granted.session, connection.granted.password
                    try:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(_ping, connection)
                            yield connection
                            nursery.cancel_scope.cancel()
                    finally:
                        self.seen = max(self.seen, connection.seen)
                    return
            except UnavailableError:
                await trio.sleep(RETRY_SECONDS * self.random.uniform(0.5, 2))

    def forget(self) -> None:
        """The session is over, or left to expire: the next connection begins another one."""
        self.session, self.password, self.seen = 0, NEW, 0


async def _ping(connection: Connection) -> None:
    """Ping until the connection is gone; end one that has been silent for too long."""
    timeout = connection.granted.timeout_ms / 1000
    while connection.is_open:
        await trio.sleep(timeout / _PINGS)
        with trio.move_on_after(timeout * _SILENCE) as scope:
            try:
                await connection.ask(Ping())
            except UnavailableError:
                return
        if scope.cancelled_caught:
            connection.close()
