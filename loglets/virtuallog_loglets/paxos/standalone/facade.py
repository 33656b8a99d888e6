"""A log used by itself on a real machine: a directory, an address, the other replicas, and nothing else of virtuallog.

    async with open_log("data/1", node=1, quorum=2, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052", "3@127.0.0.1:5053"]) as log:
        writer = Writer(log)

Each call between replicas names the log and the replica that is meant, so one that got the address of another is refused.

A directory that was lost and is made anew must be known to be another one (docs/internals/protocols/paxos.md, "Incarnations"). There is no
register here that could count, so its number is the wall clock at its founding, in milliseconds. That assumes that a replica's clock is not
set back beyond the founding of the directory that it has lost.
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
from virtuallog.rpc import Identity, OpenNode, Peer, RpcServer, RpcServices, bound_address, tcp_connect, tcp_listen
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog.runtime.rocks_map import BULK, open_rocks_map
from virtuallog_loglets.paxos import wire
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.drivers.replica_service import LocalReplica, ReplicaService
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
    """What `1@127.0.0.1:5051` spells.

    Raises:
        InvalidSettingError: it does not look like that.
    """
    number, at, address = text.partition("@")
    if not at or not number.isdecimal() or int(number) < 1:
        raise InvalidSettingError("peer", f"'{text}' is not id@host:port")
    split_address(address)
    return LogMember(node=NodeId(int(number)), address=address)


def parse_members(texts: Iterable[str]) -> dict[NodeId, LogMember]:
    """Several of them, by number.

    Raises:
        InvalidSettingError: one does not look like that, or two have the same number.
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
    """Be a replica while the block runs. Recovery begins at once; readers and writers wait for it.

    Args:
        path: the directory of this replica, made if it is missing. One process uses it at a time.
        quorum: how many replicas decide. There must never be more than 2 * quorum - 1.
        node: the number of this replica among all, for ever.
        peers: the replicas, as `id@host:port`; this one may be among them.
        zookeeper: where more of them are found, and this one is registered.
        listen: where to be reached; None: as `peers` says of this one, or else any port of this machine alone. ZooKeeper is told
            what `peers` says, or else this.
        auto_initialize: see `Log.start`.
        name: of the log. Replicas of logs of other names refuse each other.
        metrics_prefix: see `Log.start`.
        tls: the certificate of this replica, as of a node of its number; None: others on this machine only.

    Raises:
        InvalidSettingError: the addresses or certificates cannot be used, or the quorum does not fit the peers.
        CorruptionError, StorageError: the directory cannot be used, or another process uses it.
        UnsupportedError: ZooKeeper is wanted and its client is not installed.
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
            handlers: dict[
                type[Request[Any]], Handler
            ] = {}  # filled below: a replica calls itself through its own services
            services = _services(network, own, handlers, credentials)
            await nursery.start(services.run)
            log = await Log.start(
                _environment(own.node, services, values, nursery),
                network,
                auto_initialize=auto_initialize,
                metrics_prefix=metrics_prefix,
            )
            handlers.update(log.handlers)
            start = attrs.evolve(own, boot=log.environment.random.getrandbits(48) + 1)
            nursery.start_soon(_serve, log, start, handlers, listeners, credentials)
            if zookeeper is not None:
                nursery.start_soon(_join, zookeeper, start, log)
            yield log
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_replica(path: Path | str) -> AsyncIterator[LocalReplica]:
    """The replica in a directory that no process uses, without the others: to look at it, or to initialise it.

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
    """Calls to the replicas of a log, from somebody who is none; and their numbers.

    Raises:
        InvalidSettingError: one does not look like `id@host:port`, two have the same number, or the certificate cannot be used.
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
    """Of one replica that has its store for itself."""
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
        fail=lambda error: None,  # `Log` looks after it
        joined=joined,
    )


async def _no_files(role: str) -> Storage:
    raise UnsupportedError(f"a log used by itself keeps no files for {role}")


async def _no_chain(segment: object) -> tuple[str, bytes]:
    raise UnavailableError(f"there is no log {segment} here, or it is not open yet")


class _NoServices:
    """The Services port of who is alone."""

    def post(self, node: NodeId, request: Request[Any], done: Done, timeout_seconds: float) -> None:
        raise AssertionError("nobody is asked without a network")

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
    """Answer the other replicas, until this log has ended."""
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
