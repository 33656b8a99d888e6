"""Acts of database clients: change and read few znodes, many at once, with watches; connect, leave
and come back.

An act is some requests on one connection. Whether the outcome is known, the history says; clients go on in any case. Standard
watches are set below `PLAIN`; below `STAYING` and `BELOW` are those that stay, so that a path never has both.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog_database.tree.commands import Check, Create, Delete, Mode, SetData
from virtuallog_simulation.workload.database.connection import Connection
from virtuallog_simulation.workload.database.requests import (
    AddWatch,
    Close,
    Exists,
    GetChildren,
    GetData,
    Read,
    Request,
    SetWatches,
    Sync,
    Transaction,
)
from virtuallog_simulation.workload.database.session import DatabaseClient

PARENTS: Final = ("/a", "/b")
PLAIN: Final = tuple(f"{parent}/{name}" for parent in PARENTS for name in "xyz")
STAYING: Final = "/stays"
BELOW: Final = "/below"
UNDER: Final = tuple(f"{BELOW}/{name}" for name in "xy")
INNER: Final = tuple(f"{path}/c" for path in PLAIN)
"""Children of znodes that may be containers, which end with them."""
WRITTEN: Final = (*PLAIN, *PLAIN, *INNER, *PARENTS, STAYING, *UNDER)
"""Paths that are written."""
TIMED: Final = "t-"
"""Names of znodes that end with their time begin with it."""
TTLS_MS: Final = (1, 1000, 3000)
FOUNDED: Final = (*PARENTS, STAYING, BELOW)
SHAPES: Final = (
    "watches set again", "requests in flight together", "transactions", "sessions closed", "sessions left",
    "connections changed",
)  # fmt: skip
"""Names of shapes that are counted and demanded of a set of seeds."""
STAYING_PAUSE_SECONDS: Final = 1.0
PREFIX: Final = "zelos "
"""Prefix of the counters."""


@attrs.define(eq=False)
class DatabaseActor:
    """One client, through all its connections."""

    client: DatabaseClient
    random: random.Random
    acts: int
    pause_seconds: float
    """Mean, between two acts."""
    count: Callable[[str], None]
    """Called with each shape that was reached."""
    _written: int = attrs.field(default=0, init=False)
    _watching: dict[type, set[str]] = attrs.field(factory=dict, init=False)
    """Watches of the present connection, as far as this client has to know."""

    async def perform(self) -> None:
        """All acts, over as many connections as it takes; then the last session is left."""
        while self.acts:
            async with self.client.connection() as connection:
                await self._live(connection)

    async def stay(self, answered: Callable[[], None]) -> None:
        """Keep a session alive for ever, with a read now and then; no server may expire it.
        `answered` is called once, when a server has carried out a sync, which takes the log."""
        is_new = True
        while True:
            async with self.client.connection() as connection:
                while connection.is_open:
                    if is_new and await self._attempt(connection, Sync()):
                        is_new = False
                        answered()
                    await trio.sleep(STAYING_PAUSE_SECONDS)
                    await self._attempt(connection, GetData("/", watch=False))

    async def _live(self, connection: Connection) -> None:
        before, self._watching = self._watching, {}
        connection.on_event = lambda event: self._forget(event.path)
        if before and self.random.random() < 0.7:
            await self._come_back(connection, before)
        while self.acts and connection.is_open:
            self.acts -= 1
            await trio.sleep(self.random.expovariate(1 / self.pause_seconds))
            act = self.random.choices([act for _, act in ACTS], [weight for weight, _ in ACTS])[0]
            if not await act(self, connection):
                return

    async def _come_back(self, connection: Connection, before: dict[type, set[str]]) -> None:
        """Reconnect with the watches of the former connection."""
        data, exist, child = (tuple(sorted(before.get(kind, ()))) for kind in (GetData, Exists, GetChildren))
        request = SetWatches(self.client.seen, data, exist, child)
        self._watching = {GetData: set(data), Exists: set(exist), GetChildren: set(child)}
        await self._attempt(connection, request)
        self.count("watches set again")

    # -- acts: whether to go on with this connection ----------------------------------------------------------------

    async def write(self, connection: Connection) -> bool:
        await self._attempt(connection, self._write())
        return True

    async def read(self, connection: Connection) -> bool:
        await self._attempt(connection, self._read())
        return True

    async def burst(self, connection: Connection) -> bool:
        """Several at once: each read must see the writes before it."""
        requests = [
            self.random.choice((self._write, self._read, self._read))() for _ in range(self.random.randint(2, 7))
        ]
        await self._all(connection, requests)
        self.count("requests in flight together")
        return True

    async def strong_read(self, connection: Connection) -> bool:
        """Read linearizably: everything completed before is seen."""
        await self._all(connection, [Sync(), self._read()])
        return True

    async def transact(self, connection: Connection) -> bool:
        operations = tuple(self._part_of_multi() for _ in range(self.random.randint(1, 4)))
        await self._attempt(connection, Transaction(operations))
        self.count("transactions")
        return True

    async def use_up(self, connection: Connection) -> bool:
        """A container that had a child, and will be reaped."""
        path = self.random.choice(PLAIN)
        child = f"{path}/c"
        creates = Create(path, self._data(), mode=Mode.CONTAINER), Create(child, self._data())
        await self._all(connection, [Delete(path), *creates, Delete(child)])
        return True

    async def watch_for_good(self, connection: Connection) -> bool:
        recursive = self.random.random() < 0.6
        await self._attempt(connection, AddWatch(BELOW if recursive else STAYING, recursive))
        return True

    async def rest(self, connection: Connection) -> bool:
        """Long enough for servers to have to tell that they have heard of this session."""
        await trio.sleep(self.client.timeout_ms / 1000 * self.random.uniform(0.5, 1.5))
        return True

    async def close(self, connection: Connection) -> bool:
        """End the session."""
        await self._attempt(connection, Close())
        self._end()
        self.count("sessions closed")
        return False

    async def leave(self, connection: Connection) -> bool:
        """Let the session expire."""
        self._end()
        self.count("sessions left")
        return False

    async def move(self, connection: Connection) -> bool:
        """Move to another connection."""
        self.count("connections changed")
        return False

    def _end(self) -> None:
        self.client.forget()
        self._watching = {}

    # -- requests ---------------------------------------------------------------------------------------------------

    def _write(self) -> Create | Delete | SetData:
        dice = self.random.random()
        path = self.random.choice(WRITTEN)
        if dice < 0.45:
            return SetData(path, self._data(), self._version())
        if dice < 0.6:
            return Delete(path, self._version())
        return self._create(path)

    def _create(self, path: str) -> Create:
        if path in PLAIN:
            mode = self.random.choice((Mode.PERSISTENT, Mode.EPHEMERAL, Mode.CONTAINER, Mode.CONTAINER))
            if self.random.random() < 0.15:
                ttl_ms = self.random.choice(TTLS_MS)
                return Create(path[:-1] + TIMED, self._data(), mode=Mode.TTL_SEQUENTIAL, ttl_ms=ttl_ms)
            if self.random.random() < 0.3:
                return Create(path[:-1] + "s-", self._data(), mode=self.random.choice(SEQUENTIAL))
            return Create(path, self._data(), mode=mode)
        mode = self.random.choice((Mode.PERSISTENT, Mode.EPHEMERAL)) if path in UNDER else Mode.PERSISTENT
        return Create(path, self._data(), mode=mode)

    def _part_of_multi(self) -> Create | Delete | SetData | Check:
        if self.random.random() < 0.2:
            return Check(self.random.choice(WRITTEN), self._version())
        return self._write()

    def _read(self) -> Read:
        kind = self.random.choice((Exists, GetData, GetData, GetChildren))
        path = self.random.choice(PARENTS if kind is GetChildren else (*PLAIN, *PARENTS))
        return kind(path, watch=self.random.random() < 0.6)

    def _version(self) -> int:
        """Mostly any."""
        return self.random.choice((-1, -1, -1, 0, 1))

    def _data(self) -> bytes:
        """Data never used before."""
        self._written += 1
        return f"{self.client.name}.{self._written}".encode()

    # -- asking -----------------------------------------------------------------------------------------------------

    async def _all(self, connection: Connection, requests: Sequence[Request]) -> None:
        async with trio.open_nursery() as nursery:
            for request in requests:
                await nursery.start(partial(self._started, connection, request))

    async def _started(self, connection: Connection, request: Request, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await self._attempt(connection, request)

    async def _attempt(self, connection: Connection, request: Request) -> bool:
        """Perform an act; returns True if there was an answer. Errors are in the history."""
        if isinstance(request, Exists | GetData | GetChildren) and request.watch:
            self._watching.setdefault(type(request), set()).add(request.path)
        try:
            answer = await connection.ask(request)
            self.client.seen = max(self.client.seen, connection.seen)
        except UnavailableError:
            return False
        if isinstance(request, GetData | GetChildren) and answer.error:
            self._watching.get(type(request), set()).discard(request.path)
        return True

    def _forget(self, path: str) -> None:
        for paths in self._watching.values():
            paths.discard(path)


async def prepare(client: DatabaseClient) -> None:
    """Make what the others need."""
    made: set[str] = set()
    while len(made) < len(FOUNDED):
        async with client.connection() as connection:
            for path in FOUNDED:
                with suppress(UnavailableError):
                    await connection.ask(Create(path, b""))
                    made.add(path)


SEQUENTIAL: Final = (Mode.PERSISTENT_SEQUENTIAL, Mode.EPHEMERAL_SEQUENTIAL, Mode.EPHEMERAL_SEQUENTIAL)
Act: TypeAlias = Callable[[DatabaseActor, Connection], Awaitable[bool]]
ACTS: Final[Sequence[tuple[float, Act]]] = (
    (8, DatabaseActor.write),
    (8, DatabaseActor.read),
    (5, DatabaseActor.burst),
    (3, DatabaseActor.strong_read),
    (3, DatabaseActor.transact),
    (2, DatabaseActor.use_up),
    (2, DatabaseActor.watch_for_good),
    (1, DatabaseActor.rest),
    (0.7, DatabaseActor.close),
    (0.7, DatabaseActor.leave),
    (1.5, DatabaseActor.move),
)
