"""A cluster of the product's own nodes (`virtuallog_server.node.node.Node`) on simulated machines, and clients of its log."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_cluster
from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.placement import Cluster as Members
from virtuallog.contract.provider import LogletProvider, RetainedLoglets, compose, replicated
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.plugins import all_interfaces
from virtuallog.reconfiguration.retention import retained_loglets
from virtuallog.runtime.toml import parse
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.control.wire import INTERFACES
from virtuallog_loglets.archive.restored_origin import Origin
from virtuallog_metastore import PaxosProvider
from virtuallog_server.config.config_file import spell_config
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.healing.policy_registry import DEFAULT
from virtuallog_server.node.node import DATABASE, Node
from virtuallog_server.node.ports import NodePorts
from virtuallog_server.storage.identity import FormatPhase, Identity
from virtuallog_simulation.world.machine import Disks, Machine, MachinePorts
from virtuallog_simulation.world.observed_provider import ObservedMetaStoreProvider, all_observed
from virtuallog_simulation.world.transport import address_of, node_on, seeds_of
from virtuallog_simulation.world.world import World

FIRST_NODE: Final = NodeId(1)
FIRST_CLIENT: Final = 1000
"""Clients are numbered from here on; nodes from 1."""

SERVER_PATIENCE_SECONDS: Final = 1.5
REBUILD_PATIENCE_SECONDS: Final = 2.0
"""Time before others replace a failed node; short, as runs and their faults are."""

ProviderMaker: TypeAlias = Callable[[], LogletProvider]
"""A provider object serves at most one node, so each process makes its own."""


@attrs.frozen(kw_only=True)
class ClusterPlan:
    """Nodes, members and kinds of loglets of a cluster."""

    nodes: int
    members: int
    """The first so many nodes decide the register."""
    kinds: tuple[ProviderMaker, ...]
    """Loglet kinds; the first one is the kind of the first loglet."""


@attrs.frozen(eq=False)
class Client:
    """A client process."""

    name: str
    """Name of the process in the history."""
    log: VirtualLog
    random: random.Random


@attrs.define(eq=False)
class Cluster:
    """Simulated machines that run the product's nodes. `start` begins the first life of every
    machine."""

    world: World
    plan: ClusterPlan
    settings: VirtualLogSettings = attrs.field(factory=VirtualLogSettings)
    healing: str = DEFAULT
    """The policy of its nodes."""
    zookeeper: ZooKeeperSettings | None = None
    """Settings with which nodes serve ZooKeeper clients of a database; None if they do not."""
    protocol: Callable[[NodeId], int] = lambda node: 0
    """The newest version of the protocol that a node speaks, as its first config file says; 0: that of this program. An upgrade
    changes the file (`write_file`)."""
    origin: Origin | None = None
    """Origin of a restored cluster; None if it was not restored."""
    on_node: Callable[[Node, MachinePorts, trio.Nursery], None] = lambda node, ports, nursery: None
    """Called with each node before it runs, with its ports and a nursery that ends with the node."""
    kinds: Sequence[ProviderMaker] = attrs.field(init=False)
    """Kinds of the plan that can be used; over byte streams only those with a wire form."""
    machines: dict[NodeId, Machine] = attrs.field(factory=dict, init=False)
    products: dict[NodeId, Node] = attrs.field(factory=dict, init=False)
    """The present life of each node, or the last one of a node that is down: what checkers look into."""
    files: dict[NodeId, str] = attrs.field(factory=dict, init=False)
    """The config file of each node (`virtuallog_server.config.config_file`): what a life is started with. Written at the first start."""
    started: dict[NodeId, NodeConfig] = attrs.field(factory=dict, init=False)
    """Config from which the file of each node was written."""
    began: dict[NodeId, float] = attrs.field(factory=dict, init=False)
    """Time at which the present life of each node began."""
    had_roles: dict[tuple[NodeId, bytes], frozenset[str]] = attrs.field(factory=dict, init=False)
    """Roles that have answered in any life, by node and data directory, as recorded by
    `note_roles`."""
    served: dict[NodeId, Mapping[str, LogletProvider]] = attrs.field(factory=dict, init=False)
    """The loglet providers of that life."""
    _clients: int = attrs.field(default=0, init=False)

    @property
    def nodes(self) -> Sequence[NodeId]:
        return [NodeId(number) for number in range(1, self.plan.nodes + 1)]

    @property
    def kind_names(self) -> Sequence[str]:
        return [make().kind for make in self.kinds]

    @property
    def replicated_kinds(self) -> Sequence[str]:
        """Kinds of loglets that live on its nodes."""
        made = [make() for make in self.kinds]
        return [provider.kind for provider in made if replicated(provider) is not None]

    @property
    def members(self) -> Sequence[NodeId]:
        return self.nodes[: self.plan.members]

    def __attrs_post_init__(self) -> None:
        made = [make() for make in self.plan.kinds]
        interfaces = all_interfaces({provider.kind: provider for provider in made}, PaxosProvider())
        self.world.draw_transport([*interfaces, *INTERFACES], self.nodes)
        carries = self.world.transport.carries
        self.kinds = [make for make, provider in zip(self.plan.kinds, made, strict=True) if carries(provider)]

    def start(self) -> None:
        for node in self.nodes:
            self.add(node)

    def add(self, node: NodeId, disks: Disks | None = None) -> None:
        """Start a machine, with empty disks if none are given. One that is not among the first ones stays out until the register
        expects it."""
        self.write_file(node, self._config(node))
        self.machines[node] = machine = Machine(self.world, node, self._program)
        if disks is not None:
            machine.swap(disks)
        machine.on_start, machine.on_end = partial(self._forget_life, node), partial(self._note_end, node)
        machine.start()

    def write_file(self, node: NodeId, config: NodeConfig) -> None:
        """Put this into the config file of a node, as `up` does, or an operator. The next life is started with it."""
        self.started[node], self.files[node] = config, spell_config(config)

    def _note_end(self, node: NodeId) -> None:
        self.note_refusals(node)
        self.note_roles(node)

    def note_roles(self, node: NodeId) -> None:
        """Remember which roles of a node answer: a later life on the same directory has to bring them back."""
        product = self.products.get(node)
        if product is not None and product.identity.phase is FormatPhase.FORMATTED:
            place = (node, product.identity.store_id)
            self.had_roles[place] = self.had_roles.get(place, frozenset()) | product.open_roles

    def note_refusals(self, node: NodeId) -> None:
        """Let the machine judge the parts of its node that have stopped for good, or begun anew, in the present life."""
        product, machine = self.products.get(node), self.machines[node]
        if product is None or not machine.running:
            return
        for role, cause in product.refusals.items():
            if role == DATABASE and self.started[node].zookeeper is None:
                continue  # its operator has taken the section away: it says so, and that is judged there
            machine.stopped(role, cause)
        for role, setbacks in product.setbacks.items():
            for setback in setbacks:
                machine.began_anew(role, setback)

    def _forget_life(self, node: NodeId) -> None:
        """Forget the state of a former life, which must not be taken for that of the present one."""
        self.served.pop(node, None)
        self.products.pop(node, None)

    @asynccontextmanager
    async def client(
        self,
        name: str,
        lifetime_seconds: float | None = None,
        node: NodeId | None = None,
        members: Sequence[NodeId] | None = None,
    ) -> AsyncIterator[Client]:
        """A client process with a VirtualLog; it dies when the context ends, or after `lifetime_seconds`.

        Without a `node` it gets the next free number, which depends on what else has happened. `members` are the nodes that it
        asks for the register first; None: the first members.
        """
        if node is None:
            self._clients += 1
            node = NodeId(FIRST_CLIENT + self._clients)
        who = f"{name} {node}"
        async with self.world.client(node, lifetime_seconds) as bare:
            learn = partial(self.world.transport.learn, node)
            environment = attrs.evolve(bare, learned=lambda value: learn(decode_untrusted(value)))
            providers = self._observed(self._make_providers(), who)
            metastore = self._metastore(who).open(self.members if members is None else members, environment)

            async def planner(register: Register) -> Members:
                return await fetch_cluster(environment.services, register, environment.random.choice(self.nodes))

            log = VirtualLog(
                metastore, providers, environment,
                planner=planner, settings=self.settings, on_register=partial(self.world.transport.learn, node),
            )  # fmt: skip
            yield Client(who, log, environment.random)

    def retained_loglets(self, segment: Segment) -> RetainedLoglets | None:
        """Loglets that the nodes retain for a segment."""
        made = self._make_providers()
        compose(made)
        return retained_loglets(segment, made)

    async def wait_ready(self) -> None:
        """Return once a node has bootstrapped the register."""
        async with self.client("bootstrap") as client:
            while not await _bootstrapped(client.log):
                await trio.sleep(0.1)

    async def wait_serving(self) -> None:
        """Return once the register is bootstrapped and every node serves its roles, so that each
        may be planned onto."""
        async with self.client("bootstrap") as client:
            while not (await _bootstrapped(client.log) and await _serving(client.log)):
                await trio.sleep(0.1)

    async def _program(self, ports: MachinePorts) -> None:
        """Program of a machine: the same as `virtuallog serve`, on simulated ports."""
        process = ports.process
        who = f"node {process.node}.{process.boot}"
        self.began[process.node] = self.world.now()
        identity = await Identity.open(await ports.storage("identity"), node_on(process.node))
        self.world.transport.expect(process.node, identity.cluster or b"")
        node_ports = NodePorts(
            services=ports.services,
            clock=ports.clock,
            random=self.world.random(f"{who} {process.boot}"),
            storage=ports.storage,
            key_values=ports.key_values,
            local_store=ports.local_store,
            origin=self._find_origin,
            stores_present=ports.stores_present,
            nonce=f"{process.node}.{process.boot}".encode(),
            who_is_at=ports.who_is_at,
            watch_connections=ports.watch_connections,
        )
        made = self.served[process.node] = self._make_providers()
        product = self.products[process.node] = Node(
            node_ports,
            self._read_file(process.node),
            identity,
            providers=self._observed(made, who),
            metastore=self._metastore(who),
            on_register=ports.learn,
        )
        async with trio.open_nursery() as nursery:
            self.on_node(product, ports, nursery)
            await nursery.start(product.run)
            ports.listen(product.handlers, product.rpc_identity, product.guard)

    async def _find_origin(self) -> Origin | None:
        return self.origin

    def _read_file(self, node: NodeId) -> NodeConfig:
        """Read the config file as `serve --config` does."""
        text, started = self.files[node], self.started[node]
        config = attrs.evolve(parse(NodeConfig, text, Path("node.toml")), data=started.data)
        if config != started:
            message = f"node {node} was started with {started}, and its file says {config}"
            self.world.violations.append(Violation("a restart is what was started", message))
        return config

    def _config(self, machine: NodeId) -> NodeConfig:
        return NodeConfig(
            id=node_on(machine),
            data=Path("/simulated"),
            listen=address_of(machine),
            peers=seeds_of(sorted({*self.nodes, node_on(machine)})),
            metastore=tuple(self.members),
            loglet=self.kinds[0]().kind,
            healing=self.healing,
            server_patience_seconds=SERVER_PATIENCE_SECONDS,
            rebuild_patience_seconds=REBUILD_PATIENCE_SECONDS,
            zookeeper=self.zookeeper,
            protocol=self.protocol(node_on(machine)),
        )

    def _make_providers(self) -> Mapping[str, LogletProvider]:
        return {provider.kind: provider for provider in (make() for make in self.kinds)}

    def _observed(self, providers: Mapping[str, LogletProvider], who: str) -> Mapping[str, LogletProvider]:
        return all_observed(providers, self.world.history, who)

    def _metastore(self, who: str) -> ObservedMetaStoreProvider:
        return ObservedMetaStoreProvider(PaxosProvider(), self.world.history, who)


async def _bootstrapped(log: VirtualLog) -> bool:
    try:
        version, _ = await log.view.metastore.get()
    except UnavailableError:
        return False
    return version > 0


async def _serving(log: VirtualLog) -> bool:
    """True if all nodes of the register serve."""
    try:
        register = await log.view.refresh()
    except UnavailableError:
        return False
    environment = log.view.environment
    return all(member.alive for member in (await fetch_cluster(environment.services, register, FIRST_NODE)).members)
