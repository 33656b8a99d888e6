"""Replicas of a database on a log in memory, with tables over them, and the rules that stored tables keep."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from tests.database.engines.world import Replicas, Running, replicas
from virtuallog_database.client.database_handle import DatabaseHandle
from virtuallog_database.engines.core import view
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.ports import StoreReader
from virtuallog_database.replica.database import Database
from virtuallog_database.table.client import Tables
from virtuallog_database.table.core import keys
from virtuallog_database.table.core.key_codec import successor
from virtuallog_database.table.core.keys import StoredRow
from virtuallog_database.table.schema import Index, Row, schema_of, table

ALL = 1 << 20
TAIL_SECONDS = 0.01
"""Duration of a tail check, and so of the beginning of a linearizable transaction."""


@table("accounts", key="id", indices={"by_owner": Index("owner"), "by_email": Index("email", is_unique=True)})
@attrs.frozen
class Account(Row):
    """A row with an index of each kind."""

    id: str
    owner: str = ""
    email: str | None = None
    balance: int = 0
    note: str = ""


@table("edges", key=("source", "target"), indices={"by_weight": Index(("weight", "source"))})
@attrs.frozen
class Edge(Row):
    """A row with a key of two columns."""

    source: int
    target: int
    weight: float = 0.0
    label: bytes = b""


@attrs.define
class TableWorld:
    """Replicas of a database, and tables over them."""

    replicas: Replicas
    running: dict[int, Running] = attrs.field(factory=dict)
    handles: dict[int, DatabaseHandle] = attrs.field(factory=dict)

    async def tables(self, node: int = 1) -> Tables:
        """Tables over a new replica."""
        await self._begin(await self.replicas.start(node), node)
        return Tables(self.handles[node])

    async def crash(self, node: int, chance: random.Random) -> None:
        """The process of a replica ends, and begins again on its disk. The log answers all others again."""
        running, provider = self.running[node], self.replicas.provider
        await running.crash(chance)
        provider.slow = provider.deaf = provider.blind = False
        await self._begin(await self.replicas.start(node, running.disk), node)

    async def _begin(self, running: Running, node: int) -> None:
        self.running[node] = running
        database = running.application
        assert isinstance(database, Database)
        database.rollout = running.replica.stack.find(RolloutEngine)
        if node not in self.handles:
            self.handles[node] = DatabaseHandle(clock=database.clock, random=database.random, node=node)
        self.handles[node].clock = database.clock
        self.handles[node].begin(database)
        while not view.members(database.variables._store):  # nothing can be enabled before
            await trio.sleep(0.1)

    def store(self, node: int = 1) -> StoreReader:
        return self.handles[node].database.tables._store


@asynccontextmanager
async def worlds() -> AsyncIterator[TableWorld]:
    async with replicas() as found:
        found.provider.tail_seconds = TAIL_SECONDS
        found.make_application = lambda environment: Database(clock=environment.clock, random=environment.random)
        yield TableWorld(found)


def stored(store: StoreReader, kind: type[Row]) -> dict[bytes, StoredRow]:
    """Rows of a table by their keys."""
    prefix = keys.row(schema_of(kind).use.name, b"")
    found = {key[len(prefix) :]: StoredRow.decode(value) for key, value in store.scan((prefix, successor(prefix)), ALL)}
    return {key: row for key, row in found.items() if row is not None}


def check_consistent(store: StoreReader, kind: type[Row]) -> None:
    """Versions, index entries and the entries beside the rows are those recomputed from the rows."""
    schema = schema_of(kind)
    name, wanted = schema.use.name, dict[bytes, bytes]()
    for key, found in stored(store, kind).items():
        row, made = schema.decode(key, found), list[bytes]()
        assert schema.key_of(row) == key
        for entry in schema.entries_of(row):
            index = schema.use.indices[entry.index]
            prefix = keys.index(name, index.name, is_unique=index.is_unique)
            made.append(prefix + keys.entry(entry.columns, key, is_unique=index.is_unique))
            assert made[-1] not in wanted
        wanted |= dict.fromkeys(made, key)
        wanted[keys.row(name, key)] = found.encode()
        wanted[keys.versions(name) + key] = keys.encode_number(found.version)
        if made:
            wanted[keys.row_entries(name, key)] = keys.encode_entries(made)
    length = bytes((len(name),)) + name
    have = {
        key: value
        for kind_of_key in (b"tv", b"td", b"tx", b"ti", b"tu")
        for key, value in store.scan((kind_of_key + length, successor(kind_of_key + length)), ALL)
    }
    assert have == wanted
