"""The database inside a program: without a network, in one process, in one directory.

    async with open_embedded("data") as client:
        await client.create("/greeting", b"hello")

It is a whole node (`virtuallog_server.node`), a cluster of one, with the log, the register and the replica that a node has; only nothing
listens. So what it leaves is what a server leaves: `virtuallog serve --id 1 --data DIR --zookeeper HOST:PORT` goes on with the directory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from trio.abc import Stream

from virtuallog.outlasting import outlasting
from virtuallog.plain_errors import plain_errors
from virtuallog_database.hosting import Life
from virtuallog_database.kv.client import Access, KeyValueClient
from virtuallog_server.assembly import assembled
from virtuallog_server.config import NodeConfig
from virtuallog_server.healing.policies import OFF
from virtuallog_server.node import Node
from virtuallog_server.zookeeper.settings import ZooKeeperSettings

NODE = 1


@asynccontextmanager
async def open_embedded(path: str | Path) -> AsyncIterator[KeyValueClient]:
    """The tree in the directory `path`, which is made if need be, for as long as the block runs, and while it ends: also a block
    that is cancelled can close its sessions.

    Raises:
        InvalidSettingError: another process uses the directory.
        CorruptionError, MalformedError, StorageError: the directory cannot be used, or not any more: then the block is cancelled.
    """
    async with outlasting(_open(Path(path))) as client:
        yield client


@asynccontextmanager
async def _open(path: Path) -> AsyncIterator[KeyValueClient]:
    config = NodeConfig(id=NODE, data=path, healing=OFF, zookeeper=ZooKeeperSettings(listen=""))
    with plain_errors():
        async with assembled(config, _refuse) as parts, trio.open_nursery() as nursery:
            await nursery.start(parts.services.run)
            role = parts.node.database
            assert role is not None
            served = trio.Event()
            access = Access(clock=parts.clock, random=parts.random, node=NODE)

            def begin(life: Life) -> None:
                access.begin(life.database)
                served.set()

            role.on_life = begin
            nursery.start_soon(parts.node.run)
            nursery.start_soon(_end_with_the_role, parts.node)
            await served.wait()
            yield KeyValueClient(access)
            nursery.cancel_scope.cancel()


async def _end_with_the_role(node: Node) -> None:
    raise await node.wait_refused("database")


async def _refuse(address: str) -> Stream:
    raise OSError(f"no network: {address} is not connected to")
