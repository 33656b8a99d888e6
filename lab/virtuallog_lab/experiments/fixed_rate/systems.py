"""Systems under load: three servers each on loopback, and a client that posts writes without waiting for answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog_lab.experiments.churn.client import connected as connected_to_ask
from virtuallog_lab.experiments.churn.client import make_znodes
from virtuallog_lab.experiments.contestants.debian import DebianContestant, debian_contestants
from virtuallog_lab.experiments.database.zookeeper_comparison import open_database
from virtuallog_lab.experiments.fixed_rate.etcd_writes import EtcdWrites
from virtuallog_lab.experiments.fixed_rate.open_loop import Answered, Post
from virtuallog_lab.experiments.fixed_rate.pipelined_connection import connected
from virtuallog_lab.experiments.fixed_rate.zookeeper_writes import ZooKeeperWrites
from virtuallog_lab.harness.trial import temporary_cluster

LOG: Final = "VirtualLog"
PAXOS_LOG: Final = "VirtualLog on paxos"
DATABASE: Final = "database"
ZOOKEEPER: Final = "ZooKeeper"
ETCD: Final = "etcd"
SYSTEMS: Final = (LOG, PAXOS_LOG, DATABASE, ZOOKEEPER, ETCD)
"""In the order in which they are measured and shown."""
KEYS: Final = 100
"""Znodes, or keys of etcd, that are written in turn. A log has none."""
PATIENCE_SECONDS: Final = 30.0
"""For the first answer of a server."""
PEER_ATTEMPTS: Final = 3
"""Attempts of a measurement of ZooKeeper or etcd, which on a busy machine may lose its leader and close all
connections. Our systems get one."""

Connect: TypeAlias = Callable[[str, int], AbstractAsyncContextManager[Post]]
"""Given an address, and the bytes of a value."""


@attrs.frozen
class RatedServers:
    """Servers that run."""

    pids: Sequence[int]
    connect: Callable[[int], AbstractAsyncContextManager[Post]]
    """A client, given the bytes of a value."""


@attrs.frozen
class RatedSystem:
    """A system that can be started, with nothing in it."""

    name: str
    open: Callable[[], AbstractAsyncContextManager[RatedServers]]
    attempts: int = 1
    """Attempts of a measurement."""


def own_systems() -> list[RatedSystem]:
    """A log of each kind, and the database."""
    return [
        RatedSystem(LOG, partial(_open_log, "native")),
        RatedSystem(PAXOS_LOG, partial(_open_log, "paxos")),
        RatedSystem(DATABASE, _open_database),
    ]


def peer_systems(scripts: Path) -> list[RatedSystem]:
    """ZooKeeper and etcd.

    Raises:
        PeerError: the folder is not that of the scripts that start them.
    """
    contestants = {contestant.name: contestant for contestant in debian_contestants(scripts)}
    return [
        RatedSystem(ZOOKEEPER, partial(_open_peer, contestants["zookeeper"], _connect_zookeeper), PEER_ATTEMPTS),
        RatedSystem(ETCD, partial(_open_peer, contestants["etcd"], _connect_etcd), PEER_ATTEMPTS),
    ]


@asynccontextmanager
async def _open_log(kind: str) -> AsyncIterator[RatedServers]:
    async with temporary_cluster(loglet=kind) as cluster:
        pids = [node.pid for node in cluster.running if node.pid is not None]
        yield RatedServers(pids, partial(_connect_log, cluster.file))


@asynccontextmanager
async def _open_database() -> AsyncIterator[RatedServers]:
    async with open_database() as (address, pids):
        yield RatedServers(pids, partial(_connect_zookeeper, address))


@asynccontextmanager
async def _open_peer(contestant: DebianContestant, connect_to: Connect) -> AsyncIterator[RatedServers]:
    async with contestant.open() as running:

        @asynccontextmanager
        async def connect_leader(size: int) -> AsyncIterator[Post]:
            async with connect_to(await running.leader(), size) as post:
                yield post

        yield RatedServers(running.pids, connect_leader)


@asynccontextmanager
async def _connect_log(file: ClusterFile, size: int) -> AsyncIterator[Post]:
    payload = bytes(size)
    async with connect(file) as log:
        with log.appender() as appender:

            def post(calls: Sequence[Answered]) -> None:
                for done in calls:
                    appender.post(payload, done)

            yield post


@asynccontextmanager
async def _connect_zookeeper(address: str, size: int) -> AsyncIterator[Post]:
    async with connected_to_ask(address, PATIENCE_SECONDS) as client:
        await make_znodes(client, KEYS)
    async with connected(address, ZooKeeperWrites(KEYS, size)) as post:
        yield post


@asynccontextmanager
async def _connect_etcd(address: str, size: int) -> AsyncIterator[Post]:
    async with connected(address, EtcdWrites(address, KEYS, size)) as post:
        yield post
