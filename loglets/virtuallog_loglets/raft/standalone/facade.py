"""A Raft log used by itself on a real machine: directories, addresses and the network.

    await initialize("data/1", address="127.0.0.1:5051", founds=True)      once: a log of one voter
    async with open_log("data/1") as log: ...

Other stores are initialized without founding, opened, and added by an operator (docs/howto/raft-log.md).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import trio
from trio.abc import Listener

from virtuallog.contract.address import refuse_open_address, split_address
from virtuallog.contract.errors import InvalidSettingError, UnavailableError, UnsupportedError
from virtuallog.contract.ports import (
    Done,
    DurableMap,
    Environment,
    NodeEnvironment,
    Request,
    Services,
    Storage,
)
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import tcp_connect, tcp_listen
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.disk import DiskStorage
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog_loglets.raft.provider import RAFT_WAL
from virtuallog_loglets.raft.standalone import store as stores
from virtuallog_loglets.raft.standalone.client import LogClient, RaftLogEntry
from virtuallog_loglets.raft.standalone.log import ReplicatedLog, format_store
from virtuallog_loglets.raft.standalone.member_book import MemberBook, cluster_of, parse_peer, store_bytes
from virtuallog_loglets.raft.standalone.store import StoreIdentity
from virtuallog_loglets.raft.standalone.store_gate import INTERFACES, StoreGate
from virtuallog_loglets.wal import WalSettings

__all__ = ["LogClient", "RaftLogEntry", "ReplicatedLog", "StoreIdentity", "initialize", "open_client", "open_log"]


async def initialize(
    path: Path | str, *, address: str, founds: bool, name: str = "log", wal_settings: WalSettings = RAFT_WAL
) -> StoreIdentity:
    """Format the store in a directory, which no process uses: draw its number, and found a log or none.

    Args:
        path: directory of the store, made if it is missing.
        address: host:port at which the other members reach it.
        founds: True to found the log, with this store as its only voter: once. False for every other store.
        name: name of the log. Stores of logs with other names refuse each other.
        wal_settings: settings of the write-ahead log.

    Raises:
        InvalidSettingError: the directory has been used before, or the address has another form.
        DiskFullError, StorageError: the directory cannot be used.
    """
    split_address(address)
    identity = StoreIdentity(store=stores.draw(random.SystemRandom()), log=name, address=address)
    with unwrapped_errors(), ExitStack() as disks:
        async with trio.open_nursery() as nursery:
            environment = _environment(identity.store, _NoServices(), Path(path), disks, nursery)
            await format_store(environment, identity, wal_settings, founds=founds)
            nursery.cancel_scope.cancel()
    return identity


async def read_store(path: Path | str) -> StoreIdentity:
    """Identity of the store in a directory that no process uses.

    Raises:
        InvalidSettingError: it is not formatted, or another process uses it.
        MalformedError, CorruptionError, StorageError: it cannot be used.
    """
    await _check_formatted(path)
    with DiskStorage(Path(path, stores.DIRECTORY)) as storage:
        return await _identity(storage, path)


@asynccontextmanager
async def open_log(
    path: Path | str,
    *,
    listen: str | None = None,
    tls: TlsFiles | None = None,
    wal_settings: WalSettings = RAFT_WAL,
) -> AsyncIterator[ReplicatedLog]:
    """Run the replica of a store while the block runs.

    Args:
        path: directory of the store. One process uses it at a time.
        listen: host:port to listen on; None for the address of the store.
        tls: certificate of this store, as of a node of its number. If None, it serves this machine only.
        wal_settings: settings of the write-ahead log.

    Raises:
        InvalidSettingError: the directory is not formatted, another process uses it, or an address or a certificate cannot
            be used.
        MalformedError: the store has a later format.
        CorruptionError, StorageError: the store cannot be used.
    """
    with unwrapped_errors(), ExitStack() as disks:
        await _check_formatted(path)
        identity = await _identity(disks.enter_context(DiskStorage(Path(path, stores.DIRECTORY))), path)
        address = listen or identity.address
        credentials = _credentials(tls, identity.store)
        if credentials is None:
            refuse_open_address(address)
        async with _listening(address) as listeners, trio.open_nursery() as nursery:
            book, clock = MemberBook(cluster_of(identity.log)), SystemClock()
            gate = StoreGate(identity.store)
            handlers = gate.handlers()
            services = RpcServices(
                INTERFACES, book.find, tcp_connect(credentials), clock, random.Random(), node=identity.store,
                handlers=handlers,
            )  # fmt: skip
            await nursery.start(services.run)
            found = Identity(
                cluster=book.cluster,
                node=NodeId(0),
                store_id=store_bytes(identity.store),
                boot=0,
                software=metadata.version("virtuallog"),
            )
            server = RpcServer(handlers, INTERFACES, lambda: found, clock, credentials=credentials)
            serving = trio.CancelScope()
            nursery.start_soon(_serve, server, listeners, serving)
            environment = _environment(identity.store, services, Path(path), disks, nursery)
            log = await ReplicatedLog.start(environment, identity, wal_settings, book.learn)
            book.members = lambda: log.driver.replica.state.log.configuration.members
            gate.live = log.handlers
            nursery.start_soon(_cancel_when_ended, log, serving)
            yield log
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_client(peers: Iterable[str], name: str = "log", tls: TlsFiles | None = None) -> AsyncIterator[LogClient]:
    """Client of a log, for a process that is no replica. It has asked the peers who the members are.

    Args:
        peers: some stores of the log, as `store@host:port`, or as `host:port` for any store there.
        name: name of the log.
        tls: certificate of this client. With it the peers are to be named with their stores.

    Raises:
        InvalidSettingError: a peer or a certificate cannot be used.
        WrongRecipientError: another store, or one of another log, is there, and no peer is a member.
        UnavailableError: no peer is a member of the log and answers.
    """
    credentials = Credentials.open(tls) if tls else None
    book, clock, source = MemberBook(cluster_of(name)), SystemClock(), random.SystemRandom()
    parsed = [parse_peer(text) for text in peers]
    for store, address in parsed:
        if store is not None:
            book.learn(store, address)
    asked = book.learn_seeds(address for store, address in parsed if store is None)
    asked += tuple(store for store, _ in parsed if store is not None)
    services = RpcServices(INTERFACES, book.find, tcp_connect(credentials), clock, source)
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(services.run)
            environment = Environment(services=services, clock=clock, random=source, nursery=nursery)
            client = LogClient(environment, book.learn, asked)
            await client.discover()
            yield client
            nursery.cancel_scope.cancel()


def _environment(
    store: NodeId, services: Services, path: Path, disks: ExitStack, nursery: trio.Nursery
) -> NodeEnvironment:
    """Environment of a replica that has its directory for itself."""

    async def storage(role: str) -> Storage:
        return disks.enter_context(DiskStorage(path / role))

    return NodeEnvironment(
        services=services,
        clock=SystemClock(),
        random=random.SystemRandom(),
        nursery=nursery,
        node=store,
        boot=0,
        storage=storage,
        key_values=_no_values,
        segment_config=_no_chain,
        fail=lambda error: None,  # `ReplicatedLog` sets its own
    )


async def _check_formatted(path: Path | str) -> None:
    """Check that there is a directory of a store. Opening its storage would make one.

    Raises:
        InvalidSettingError: there is none.
    """
    if not await trio.Path(path, stores.DIRECTORY).is_dir():
        raise InvalidSettingError(str(path), "it holds no store of a Raft log: initialize it first")


async def _identity(storage: Storage, path: Path | str) -> StoreIdentity:
    identity = await stores.read_identity(storage)
    if identity is None:
        raise InvalidSettingError(str(path), "it holds no store of a Raft log: initialize it first")
    return identity


async def _no_values(role: str) -> DurableMap:
    raise UnsupportedError(f"a Raft log used by itself keeps no values for {role}")


async def _no_chain(segment: object) -> tuple[str, bytes]:
    raise UnavailableError(f"there is no log {segment} here, or it is not open yet")


class _NoServices:
    """Services port of a store that is being formatted."""

    def post(self, node: NodeId, request: Request[Any], done: Done, timeout_seconds: float) -> None:
        raise AssertionError("a store that is being formatted sends no requests")

    async def call(self, node: NodeId, request: Request[Any], timeout_seconds: float) -> Any:
        raise UnavailableError(f"there is no way to store {node}")


def _credentials(tls: TlsFiles | None, store: NodeId) -> Credentials | None:
    credentials = Credentials.open(tls) if tls else None
    if tls and credentials and credentials.owner.node != store:
        raise InvalidSettingError(str(tls.certificate), f"is of {credentials.owner}, not of node {store}")
    return credentials


@asynccontextmanager
async def _listening(address: str) -> AsyncIterator[Sequence[Listener[Any]]]:
    try:
        listeners = await tcp_listen(address)
    except OSError as error:
        raise InvalidSettingError(f"listen {address}", f"{error.strerror or error}") from error
    try:
        yield listeners
    finally:
        for listener in listeners:
            await trio.aclose_forcefully(listener)


async def _serve(server: RpcServer, listeners: Sequence[Listener[Any]], serving: trio.CancelScope) -> None:
    with serving:
        await server.serve(listeners)


async def _cancel_when_ended(log: ReplicatedLog, serving: trio.CancelScope) -> None:
    """Serve no other store once the log has ended: a replica without a disk must not look alive."""
    await log.ended()
    serving.cancel()
