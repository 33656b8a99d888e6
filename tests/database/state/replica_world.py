"""Replicas of a database on a log in memory, with storages of variables over them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from tests.database.engines.world import Replicas, Running, replicas
from virtuallog_database.client.database_handle import DatabaseHandle
from virtuallog_database.engines.core import view
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.replica.database import Database
from virtuallog_database.state.storages.virtual_log import VirtualLogStorage


@attrs.define
class World:
    """Replicas of a database, and storages over them."""

    replicas: Replicas
    running: dict[int, Running] = attrs.field(factory=dict)
    handles: dict[int, DatabaseHandle] = attrs.field(factory=dict)

    async def storage(self, node: int = 1) -> VirtualLogStorage:
        """Storage over a new replica."""
        running = self.running[node] = await self.replicas.start(node)
        database = running.application
        assert isinstance(database, Database)
        database.rollout = running.replica.stack.find(RolloutEngine)
        handle = self.handles[node] = DatabaseHandle(clock=database.clock, random=database.random, node=node)
        handle.begin(database)
        while not view.members(database.variables._store):  # nothing can be enabled before
            await trio.sleep(0.1)
        return VirtualLogStorage(handle)

    def records(self, node: int, name: bytes) -> list[bytes]:
        """Keys of all records that the replica has under a name."""
        return [key for key, _ in self.handles[node].database.variables.records(name)]


@asynccontextmanager
async def worlds() -> AsyncIterator[World]:
    async with replicas() as found:
        found.make_application = lambda environment: Database(clock=environment.clock, random=environment.random)
        yield World(found)
