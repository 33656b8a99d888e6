"""Transports between the processes of a world: simulated calls, or the whole RPC stack over byte
streams.

    Calls      requests and replies travel as they are: what most seeds use, as it costs a third
    Streams    the product's own RpcServices and RpcServer, wired as `virtuallog_server.process.process` and `virtuallog.connect` do it,
               over `virtuallog.testing.sim.tcp_network`

A story that supports both says so with `draw`. Only kinds of loglets whose requests have a wire
form can take part in a run over streams.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

import attrs
import trio

from virtuallog.client.address_book import AddressBook
from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.address import split_address
from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Handler, Handlers, Request, Services
from virtuallog.contract.provider import LogletProvider, SupportsRetention
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.security.permissions import AppendPermission, Permissions, allow
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import SimulatedNetwork, WatchedServices
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_network import SimulatedConnection, SimulatedTcpNetwork, StreamQuality
from virtuallog_server.node.identity_fence import ANSWER_SECONDS

STREAMS_SHARE: Final = 0.12
"""Share of the seeds that run over streams, which takes two to three times as long."""
STREAMS: Final = "streams"
CALLS: Final = "calls"

FIRST_PORT: Final = 7000
ELSEWHERE: Final = 100
"""First number of machines that run a node for the second time. All nodes have smaller numbers."""


class Transport(Protocol):
    """Interface of a world's transport to its processes."""

    def attach(
        self, process: Process, clock: SimulatedClock, source: random.Random
    ) -> AbstractAsyncContextManager[Services]:
        """The Services port of a process, for as long as the context runs."""
        ...

    def listen(
        self,
        process: Process,
        handlers: Handlers,
        identity: Callable[[], Identity] | None = None,
        guard: AppendPermission = allow,
    ) -> None:
        """Deliver calls to the process to `handlers` from now on. The process must be attached;
        `identity` returns its identity, `guard` decides about appends of clients."""
        ...

    def learn(self, node: NodeId, register: Register) -> None:
        """The process on this node knows a newer register."""
        ...

    def expect(self, node: NodeId, cluster: bytes) -> None:
        """Make the process on this node accept only nodes of this cluster; an empty cluster id
        accepts all."""
        ...

    async def who_is_at(self, node: NodeId, addresses: tuple[str, ...]) -> Identity:
        """Identity of the process that answers this machine at these addresses. Raises
        UnavailableError if none answers, or if there are no addresses."""
        ...

    def watch_connections(self, process: Process, on_broken: Callable[[NodeId], None]) -> None:
        """Call `on_broken` in the process with each node to which a connection of it has ended."""
        ...

    def end(self, process: Process, *, power: bool) -> None:
        """The process has died, alone or with the power of its machine."""
        ...

    def start(self, node: NodeId) -> None:
        """The machine has power."""
        ...

    def carries(self, provider: LogletProvider) -> bool:
        """True if loglets of this kind can be used."""
        ...

    @property
    def connections(self) -> Sequence[SimulatedConnection]:
        """Connections that can be stalled or cut now, the oldest first."""
        ...


@attrs.frozen
class Calls:
    """Transport by simulated calls."""

    _network: SimulatedNetwork
    _interfaces: Sequence[Interface] = ()
    """Interfaces that say which role may call what."""
    owners: dict[NodeId, Principal] = attrs.field(factory=dict)
    """Owners of certificates, by the nodes of their processes. Any other caller may call
    everything."""
    _watchers: dict[NodeId, tuple[Process, Callable[[NodeId], None]]] = attrs.field(factory=dict, init=False)
    """The last process on each machine that watches its connections, and its callback."""

    @asynccontextmanager
    async def attach(self, process: Process, clock: SimulatedClock, source: random.Random) -> AsyncIterator[Services]:
        yield self._network.services(process, clock)

    def listen(
        self,
        process: Process,
        handlers: Handlers,
        identity: Callable[[], Identity] | None = None,
        guard: AppendPermission = allow,
    ) -> None:
        permissions, narrowed = Permissions.of(self._interfaces), dict[NodeId, Handlers]()

        def handlers_for(caller: NodeId) -> Handlers:
            owner = self.owners.get(caller)
            if owner is None:
                return handlers
            if caller not in narrowed:
                narrowed[caller] = permissions.narrow(handlers, owner, lambda _: None, guard)
            return narrowed[caller]

        self._network.listen(process, handlers, handlers_for)

    def learn(self, node: NodeId, register: Register) -> None:
        pass

    def expect(self, node: NodeId, cluster: bytes) -> None:
        pass

    async def who_is_at(self, node: NodeId, addresses: tuple[str, ...]) -> Identity:
        raise UnavailableError("calls go to machines, not to addresses")

    def watch_connections(self, process: Process, on_broken: Callable[[NodeId], None]) -> None:
        self._watchers[process.node] = process, on_broken

    def end(self, process: Process, *, power: bool) -> None:
        """Calls have no connections, but the host of a process that has died resets those to all others."""
        for watcher, on_broken in [] if power else self._watchers.values():
            if watcher.node != process.node:
                arrive = partial(watcher.run, partial(on_broken, node_on(process.node)))
                note = partial(self._network.note, source=process.node, target=watcher.node, message="reset")
                self._network.link(process.node, watcher.node).send(arrive, note)

    def start(self, node: NodeId) -> None:
        pass

    def carries(self, provider: LogletProvider) -> bool:
        return True

    @property
    def connections(self) -> Sequence[SimulatedConnection]:
        return ()


@attrs.define
class _Attached:
    """The RPC of one process."""

    nursery: trio.Nursery
    clock: SimulatedClock
    book: AddressBook
    services: RpcServices
    handlers: dict[type[Request[Any]], Handler]
    """Handlers of its own node, once it listens: a node calls itself through its own services."""
    identity: Callable[[], Identity]


@attrs.define
class Streams:
    """Transport by the RPC stack over byte streams."""

    network: SimulatedNetwork
    streams: SimulatedTcpNetwork
    interfaces: Sequence[Interface]
    """The wire form of all requests."""
    seeds: Sequence[NodeAddress]
    """Addresses at which processes look for the nodes before there is a register."""
    _attached: dict[NodeId, _Attached] = attrs.field(factory=dict, init=False)

    @asynccontextmanager
    async def attach(self, process: Process, clock: SimulatedClock, source: random.Random) -> AsyncIterator[Services]:
        book = AddressBook.of(self.seeds)
        handlers: dict[type[Request[Any]], Handler] = {}
        services = RpcServices(
            self.interfaces, book.find, lambda address: self.streams.connect(process, address), clock, source,
            node=node_on(process.node), handlers=handlers, identity=partial(self._identity, process),
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            await nursery.start(services.run)
            self._attached[process.node] = _Attached(
                nursery, clock, book, services, handlers, lambda: _nameless(process)
            )
            try:
                yield WatchedServices(self.network, process, services)
            finally:
                self.end(process, power=False)
            nursery.cancel_scope.cancel()

    def _identity(self, process: Process) -> Identity:
        """Identity as of now: a process gives it when it listens."""
        return self._attached[process.node].identity()

    def listen(
        self,
        process: Process,
        handlers: Handlers,
        identity: Callable[[], Identity] | None = None,
        guard: AppendPermission = allow,
    ) -> None:
        attached = self._attached[process.node]
        attached.handlers.update(handlers)
        attached.identity = identity or attached.identity
        server = RpcServer(attached.handlers, self.interfaces, attached.identity, attached.clock)
        attached.nursery.start_soon(server.serve, [self.streams.listen(process, address_of(process.node))])

    def learn(self, node: NodeId, register: Register) -> None:
        self._attached[node].book.learn(register)

    def expect(self, node: NodeId, cluster: bytes) -> None:
        self._attached[node].book.expect(cluster)

    async def who_is_at(self, node: NodeId, addresses: tuple[str, ...]) -> Identity:
        return await self._attached[node].services.who_is_at(addresses, ANSWER_SECONDS)

    def watch_connections(self, process: Process, on_broken: Callable[[NodeId], None]) -> None:
        self._attached[process.node].services.watch_connections(on_broken)

    def end(self, process: Process, *, power: bool) -> None:
        self.streams.end(process, power=power)

    def start(self, node: NodeId) -> None:
        self.streams.start(node)

    def carries(self, provider: LogletProvider) -> bool:
        # A kind that says what nodes keep for it sends them no messages of its own.
        return bool(provider.interfaces) or isinstance(provider, SupportsRetention)

    @property
    def connections(self) -> Sequence[SimulatedConnection]:
        return self.streams.connections


def elsewhere(node: NodeId) -> NodeId:
    """Another machine that is this node, with a directory of its own, while the first one runs."""
    return NodeId(ELSEWHERE + node)


def node_on(machine: NodeId) -> NodeId:
    """Number of the node on a machine."""
    return NodeId(machine - ELSEWHERE) if ELSEWHERE < machine < 2 * ELSEWHERE else machine


def address_of(node: NodeId) -> str:
    """Address at which the process on a machine listens."""
    return f"127.0.0.1:{FIRST_PORT + node}"


def node_at(address: str) -> NodeId:
    """The node that listens there."""
    _, port = split_address(address)
    return NodeId(int(port) - FIRST_PORT)


def seeds_of(nodes: Iterable[NodeId]) -> tuple[NodeAddress, ...]:
    """Seed addresses of nodes, as a cluster file lists them."""
    return tuple(NodeAddress(id=node, address=address_of(node)) for node in nodes)


def draw(
    network: SimulatedNetwork,
    source_for: Callable[[str], random.Random],
    wanted: str | None,
    interfaces: Sequence[Interface],
    nodes: Iterable[NodeId],
) -> Transport:
    """The transport of a run.

    Args:
        network: carries it all.
        source_for: a source of randomness for each purpose.
        wanted: `CALLS` or `STREAMS`; None: as the seed draws it.
        interfaces: the wire form of all requests.
        nodes: all nodes that may listen.
    """
    source = source_for("transport")
    drawn = STREAMS if source.random() < STREAMS_SHARE else CALLS
    quality = _draw_quality(source)
    if (wanted or drawn) == CALLS:
        return Calls(network, interfaces)
    return Streams(
        network, SimulatedTcpNetwork(network, source_for("streams"), node_at, quality), interfaces, seeds_of(nodes)
    )


def _draw_quality(source: random.Random) -> StreamQuality:
    """Draw the behaviour of streams in a run."""
    return StreamQuality(
        cut=source.choice((0.0, 0.02, 0.2)),
        read_bytes_max=source.choice((1 << 20, 1 << 20, 300)),
        buffer_bytes=source.choice((256 << 10, 16 << 10, 2000)),
        patience_seconds=source.choice((3.0, 10.0, 900.0)),
    )


def _nameless(process: Process) -> Identity:
    """Identity of a process that has no data directory."""
    return Identity(cluster=b"", node=process.node, store_id=b"", boot=process.boot, software="simulated")
