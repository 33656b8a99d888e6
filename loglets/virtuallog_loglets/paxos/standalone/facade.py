"""A log used by itself on a real machine: a directory, an address and the other replicas, without a virtual log.

    async with open_log("data/1", node=1, quorum=2, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052", "3@127.0.0.1:5053"]) as log:
        writer = LogWriter(log)

Each call between replicas names the log and the replica that is meant. A call that reaches another replica is refused.

A new directory in the place of a lost one must be known to be another (docs/internals/protocols/paxos.md, "Incarnations"). No
register counts here, so the number of a store is the wall clock at its founding, in milliseconds. This assumes that a
replica's clock is not set back beyond the founding of the lost directory.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from trio.abc import Listener

from virtuallog.contract.address import refuse_open_address, split_address
from virtuallog.contract.errors import InvalidSettingError, UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Done, DurableMap, Handler, Handlers, NodeEnvironment, Request, Services, Storage
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import Identity, OpenNode
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import bound_address, tcp_connect, tcp_listen
from virtuallog.runtime import log as log_output
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog.runtime.rocks_map import BULK, open_rocks_map
from virtuallog_loglets.paxos import wire
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.drivers.replica_service import ReplicaService
from virtuallog_loglets.paxos.drivers.store_incarnation import STORE
from virtuallog_loglets.paxos.messages import Status
from virtuallog_loglets.paxos.standalone.log import SEGMENT, Log
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork
from virtuallog_loglets.paxos.standalone.reader import LogReader
from virtuallog_loglets.paxos.standalone.writer import LogWriter
from virtuallog_loglets.paxos.standalone.zookeeper_network import ZooKeeperMembership, join_network

__all__ = ["Log", "LogReader", "LogWriter", "ZooKeeperMembership", "open_log", "open_replica", "open_services"]

ANYWHERE: Final = "127.0.0.1:0"
INTERFACES: Final = (wire.REPLICA,)
_HOUR_MS: Final = 3_600_000


def parse_member(text: str) -> LogMember:
    """Parse `id@host:port`, such as `1@127.0.0.1:5051`.

    Raises:
        InvalidSettingError: `text` has another form.
    """
    number, at, address = text.partition("@")
    if not at or not number.isdecimal() or int(number) < 1:
        raise InvalidSettingError("peer", f"'{text}' is not id@host:port")
    split_address(address)
    return LogMember(node=NodeId(int(number)), address=address)


def parse_members(texts: Iterable[str]) -> dict[NodeId, LogMember]:
    """Parse several members; returns them by number.

    Raises:
        InvalidSettingError: one has another form, or two have the same number.
    """
    members: dict[NodeId, LogMember] = {}
    for member in map(parse_member, texts):
        if member.node in members:
            raise InvalidSettingError("peers", f"two of them have the number {member.node}")
        members[member.node] = member
    return members


@asynccontextmanager
async def open_log(
    path: Path | str,
    *,
    quorum: int,
    node: int = 1,
    peers: Iterable[str] = (),
    zookeeper: ZooKeeperMembership | None = None,
    listen: str | None = None,
    auto_initialize: bool = False,
    name: str = "log",
    metrics_prefix: str = "",
    tls: TlsFiles | None = None,
) -> AsyncIterator[Log]:
    """Run a replica while the block runs. Recovery begins at once; readers and writers wait for it.

    Args:
        path: directory of this replica, made if it is missing. One process uses it at a time.
        quorum: number of replicas that decide. There must never be more than 2 * quorum - 1 replicas.
        node: number of this replica, for ever.
        peers: the replicas, as `id@host:port`; this one may be among them.
        zookeeper: where more replicas are found, and this one is registered; None if `peers` are all.
        listen: `host:port` to listen on. If None, the address of this replica in `peers`, or else any port of the loopback
            interface. ZooKeeper gets the address in `peers`, or else this one.
        auto_initialize: see `Log.start`.
        name: name of the log. Replicas of logs with other names refuse each other.
        metrics_prefix: see `Log.start`.
        tls: certificate of this replica, as of a node of its number. If None, it serves this machine only.

    Raises:
        InvalidSettingError: an address or a certificate cannot be used, or the quorum does not fit the peers.
        CorruptionError, StorageError: the directory cannot be used, or another process uses it.
        UnsupportedError: `zookeeper` is given and kazoo is not installed.
    """
    listed = parse_members(peers)
    address = listen or (listed[NodeId(node)].address if node in listed else ANYWHERE)
    credentials = _credentials(tls, NodeId(node))
    if credentials is None:
        refuse_open_address(address)
    with unwrapped_errors():
        async with (
            _listening(address) as listeners,
            open_rocks_map(Path(path) / STORE, BULK) as values,
            trio.open_nursery() as nursery,
        ):
            own = listed.get(NodeId(node)) or LogMember(node=NodeId(node), address=bound_address(listeners[0]))
            network = LogNetwork(_cluster(name), quorum, tuple({**listed, own.node: own}.values()))
            # Filled below: a replica calls itself through its own services.
            handlers: dict[type[Request[Any]], Handler] = {}
            services = _services(network, own, handlers, credentials)
            await nursery.start(services.run)
            log = await Log.start(
                _environment(own.node, services, values, nursery),
                network,
                auto_initialize=auto_initialize,
                metrics_prefix=metrics_prefix,
            )
            if not log.has_room:
                log_output.warning("the disk of a replica is nearly full: it takes no entries", path=str(path))
            handlers.update(log.handlers)
            start = attrs.evolve(own, boot=log.environment.random.getrandbits(48) + 1)
            nursery.start_soon(_serve, log, start, handlers, listeners, credentials)
            if zookeeper is not None:
                nursery.start_soon(_join, zookeeper, start, log)
            yield log
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_replica(path: Path | str) -> AsyncIterator[LocalReplica]:
    """Open the replica in a directory that no process uses, without its peers: to inspect or to initialise it.

    Raises:
        CorruptionError, StorageError: the directory cannot be used, or another process uses it.
    """
    with unwrapped_errors():
        async with open_rocks_map(Path(path) / STORE, BULK) as values, trio.open_nursery() as nursery:
            service = await ReplicaService.start(_environment(NodeId(1), _NoServices(), values, nursery))
            yield service.add(SEGMENT, lambda: Ensemble(members=(), quorum=1), Status.EMPTY)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_services(
    peers: Iterable[str], name: str = "log", tls: TlsFiles | None = None
) -> AsyncIterator[tuple[Services, list[NodeId]]]:
    """Services that call the replicas of a log, for a caller that is no replica; and the numbers of the replicas.

    Raises:
        InvalidSettingError: a peer is not `id@host:port`, two have the same number, or the certificate cannot be used.
    """
    credentials = Credentials.open(tls) if tls else None
    book = {
        node: Peer((member.address,), OpenNode(cluster=_cluster(name), node=node))
        for node, member in parse_members(peers).items()
    }
    services = RpcServices(INTERFACES, book.__getitem__, tcp_connect(credentials), SystemClock(), random.Random())
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(services.run)
            yield services, sorted(book)
            nursery.cancel_scope.cancel()


def _environment(node: NodeId, services: Services, values: DurableMap, nursery: trio.Nursery) -> NodeEnvironment:
    """Environment of a replica that has its store for itself."""
    clock = SystemClock()

    async def key_values(_: str) -> DurableMap:
        return values

    # The two numbers of a founding, in this order, must grow from one founding to the next.
    joined, boot = divmod(int(clock.wall() * 1000), _HOUR_MS)
    return NodeEnvironment(
        services=services,
        clock=clock,
        random=random.Random(),
        nursery=nursery,
        node=node,
        boot=boot,
        storage=_no_files,
        key_values=key_values,
        segment_config=_no_chain,
        fail=lambda error: None,  # `Log` sets its own
        joined=joined,
    )


async def _no_files(role: str) -> Storage:
    raise UnsupportedError(f"a log used by itself keeps no files for {role}")


async def _no_chain(segment: object) -> tuple[str, bytes]:
    raise UnavailableError(f"there is no log {segment} here, or it is not open yet")


class _NoServices:
    """Services port of a replica without peers."""

    def post(self, node: NodeId, request: Request[Any], done: Done, timeout_seconds: float) -> None:
        raise AssertionError("a replica without a network sends no requests")

    async def call(self, node: NodeId, request: Request[Any], timeout_seconds: float) -> Any:
        raise UnavailableError(f"there is no way to node {node}")


def _credentials(tls: TlsFiles | None, node: NodeId) -> Credentials | None:
    credentials = Credentials.open(tls) if tls else None
    if tls and credentials and credentials.owner.node != node:
        raise InvalidSettingError(str(tls.certificate), f"is of {credentials.owner}, not of node {node}")
    return credentials


def _services(network: LogNetwork, own: LogMember, handlers: Handlers, credentials: Credentials | None) -> RpcServices:
    connect = tcp_connect(credentials)
    return RpcServices(
        INTERFACES, network.find, connect, SystemClock(), random.Random(), node=own.node, handlers=handlers
    )


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


async def _serve(
    log: Log, own: LogMember, handlers: Handlers, listeners: Sequence[Listener[Any]], credentials: Credentials | None
) -> None:
    """Serve the other replicas until this log has ended."""
    identity = Identity(
        cluster=log.network.cluster,
        node=own.node,
        store_id=bytes(16),
        boot=own.boot,
        software=metadata.version("virtuallog"),
    )
    server = RpcServer(handlers, INTERFACES, lambda: identity, log.environment.clock, credentials=credentials)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, listeners)
        await log.ended()
        nursery.cancel_scope.cancel()


async def _join(zookeeper: ZooKeeperMembership, own: LogMember, log: Log) -> None:
    try:
        await join_network(zookeeper, own, log.network, log.environment.clock)
    except VirtualLogError as error:
        log.fail(error)


def _cluster(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()
