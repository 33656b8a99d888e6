"""The database inside a program: without a network, in one process, in one directory.

    async with open_embedded("data") as client:
        await client.create("/greeting", b"hello")

It is a whole node (`virtuallog_server.node.node`), a cluster of one, with log, register and replica; only nothing listens. So it
leaves the same files as a server: `virtuallog serve --id 1 --data DIR --zookeeper HOST:PORT` continues with the directory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from trio.abc import Stream

from virtuallog.runtime.nurseries import shielded_context, unwrapped_errors
from virtuallog_database.client import DatabaseClient, DatabaseHandle
from virtuallog_database.replica.host import ReplicaIncarnation
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.healing.policy_registry import OFF
from virtuallog_server.node.node import Node
from virtuallog_server.process.assembly import assemble_node

NODE = 1


@asynccontextmanager
async def open_embedded(path: str | Path) -> AsyncIterator[DatabaseClient]:
    """Open the tree in the directory `path`, which is created if it is missing, for the length of the block. It stays open while the
    block ends: a cancelled block can still close its sessions.

    Raises:
        InvalidSettingError: another process uses the directory.
        CorruptionError, MalformedError, StorageError: the directory cannot be used, or not any more: then the block is cancelled.
    """
    async with shielded_context(_open(Path(path))) as client:
        yield client


@asynccontextmanager
async def _open(path: Path) -> AsyncIterator[DatabaseClient]:
    config = NodeConfig(id=NODE, data=path, healing=OFF, zookeeper=ZooKeeperSettings(listen=""))
    with unwrapped_errors():
        async with assemble_node(config, _refuse) as parts, trio.open_nursery() as nursery:
            await nursery.start(parts.services.run)
            role = parts.node.database
            assert role is not None
            served = trio.Event()
            access = DatabaseHandle(clock=parts.clock, random=parts.random, node=NODE)

            def begin(life: ReplicaIncarnation) -> None:
                access.begin(life.database)
                served.set()

            role.on_life = begin
            nursery.start_soon(parts.node.run)
            nursery.start_soon(_end_with_the_role, parts.node)
            await served.wait()
            yield DatabaseClient(access)
            nursery.cancel_scope.cancel()


async def _end_with_the_role(node: Node) -> None:
    raise await node.wait_refused("database")


async def _refuse(address: str) -> Stream:
    raise OSError(f"no network: {address} is not connected to")
