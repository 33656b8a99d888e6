"""A replica of a cluster's database in your own process: reads without a network, watches, and
writes through the log.

    async with open_replica("cluster/cluster.toml", "replica") as client:
        data, stat = await client.get("/config")            from this process' own store
        async with client.watch("/", recursive=True) as changes: ...

The replica is passive (Zelos-Passive, SOSP'21, figure 6): the servers of the database do not know
it, and the log is not kept for it. If the log begins later than its store ends, it starts from a
server's snapshot. (Where a cluster uses TLS, only nodes get snapshots, so there it needs a node's
certificate.) ACLs are not enforced here: a process that reads the log reads the whole tree.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.runtime.nurseries import shielded_context, unwrapped_errors
from virtuallog_database.client import DatabaseClient, DatabaseHandle
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import StoreDirectory
from virtuallog_database.replica.host import Host, HostSettings, ReplicaIncarnation
from virtuallog_database.replica.replica import ReplicaSettings
from virtuallog_database.rocks import open_store_directory
from virtuallog_database.snapshots.wire import SNAPSHOTS

_NODE: Final = NodeId(126)
"""Node number in session ids: the highest that fits, and one that no node of a usual cluster has."""
_STORE_BYTES: Final = 16


@asynccontextmanager
async def open_replica(cluster: str | Path | ClusterFile, path: str | Path) -> AsyncIterator[DatabaseClient]:
    """Run a replica in the directory `path` while the block runs. It has caught up with the log
    when the block begins. It still runs while the block ends, so that a cancelled block can close
    its sessions.

    Args:
        cluster: a `cluster.toml`, or its content.
        path: directory of the store, which the next call resumes. Created if missing; for one
            process at a time.

    Raises:
        UnavailableError, UntrustedError, InvalidSettingError: as `virtuallog.connect`.
        CorruptionError, StorageError: the directory cannot be used, or failed later: then the block
            is cancelled.
    """
    async with shielded_context(_open(cluster, Path(path))) as client:
        yield client


@asynccontextmanager
async def _open(cluster: str | Path | ClusterFile, path: Path) -> AsyncIterator[DatabaseClient]:
    async with connect(cluster, more=[SNAPSHOTS]) as log:
        directory = await open_store_directory(path)
        try:
            with unwrapped_errors():
                async with trio.open_nursery() as nursery:
                    environment = attrs.evolve(log.view.environment, nursery=nursery)
                    host = await _host(log, directory, environment)
                    handle = DatabaseHandle(clock=environment.clock, random=environment.random, node=_NODE)
                    await nursery.start(_run, host, handle)
                    yield DatabaseClient(handle)
                    nursery.cancel_scope.cancel()
        finally:
            await directory.close()


async def _run(host: Host, handle: DatabaseHandle, *, task_status: trio.TaskStatus[None]) -> None:
    has_begun = False

    async def attend(life: ReplicaIncarnation) -> None:
        nonlocal has_begun
        handle.begin(life.database)
        if not has_begun:
            has_begun = True
            task_status.started()

    await host.run(attend)


async def _host(log: VirtualLog, directory: StoreDirectory, environment: Environment) -> Host:
    register = await log.view.current()
    # Random each time: no server has to recognize this replica, and no two incarnations may be the
    # same.
    identity = ReplicaIdentity(node=_NODE, store=environment.random.randbytes(_STORE_BYTES), boot=0)
    return Host(
        log=log,
        directory=directory,
        environment=environment,
        identity=identity,
        cluster=register.cluster,
        peers=lambda: sorted((log.view.cached or register).nodes),
        settings=HostSettings(replica=ReplicaSettings(passive=True)),
    )
