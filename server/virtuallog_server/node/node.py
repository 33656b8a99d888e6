"""One node: the roles that its config lists, composed from ports alone.

A node is the serving side of every loglet kind and an acceptor of the MetaStore if it is a member. It is also a client of the
log like any other: its own VirtualLog carries out the requests of operators, and finishes changes that others left half
done. The simulator runs this very class on simulated ports.

    construct -> handlers can be served, and answer "not ready"
    run       -> format the data directory (virtuallog_server.node.formatter) -> open the roles -> bootstrap (virtuallog_server.node.bootstrap)
              -> follow the register for ever (virtuallog_server.node.register_follower)

Order matters twice. No acceptor opens before the data directory is formatted, since it votes. The roles of loglets open just
before a new directory counts as formatted: a store that is missing from a formatted directory counts as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_cluster
from virtuallog.admin.control import NodeStatus
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract import metrics
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    MalformedError,
    RetryableError,
    SealedError,
    StorageError,
    UnavailableError,
    UnknownKindError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.metastore import MetaStore, MetaStoreProvider
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.provider import LogletProvider, compose
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.retention import find_retained
from virtuallog.rpc.protocol.node import Identity as RpcIdentity
from virtuallog_database.control.wire import INTERFACES
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.healing.healer import Healer
from virtuallog_server.healing.policy_registry import load_policy
from virtuallog_server.healing.rebuild import RateLimit
from virtuallog_server.membership.service import MembershipService
from virtuallog_server.node.append_guard import AppendGuard
from virtuallog_server.node.bootstrap import bootstrap, claim_nothing
from virtuallog_server.node.control_service import ControlService
from virtuallog_server.node.formatter import Formatter
from virtuallog_server.node.garbage_collection import GarbageCollector
from virtuallog_server.node.health import NodeHealth, rpc_identity
from virtuallog_server.node.identity_fence import (
    FencedServices,
    IdentityFence,
    own_addresses,
)
from virtuallog_server.node.ports import NodePorts
from virtuallog_server.node.protocol_upgrade import ProtocolUpgrade
from virtuallog_server.node.register_follower import RegisterFollower
from virtuallog_server.node.role import NodeRole
from virtuallog_server.node.role_stores import RoleStores
from virtuallog_server.node.status import node_metrics, plain_status
from virtuallog_server.storage.identity import Identity
from virtuallog_server.storage.stores import REPLICAS

if TYPE_CHECKING:
    from virtuallog_server.database.role import DatabaseRole


DATABASE: Final = "database"
LOST_DATABASE: Final = (
    "this node was a server of the database, and its config has no [zookeeper] any more: put that section back, and start it again. "
    "If it shall be none: delete stores/database in its data directory, start it again, and eject its replica"
)


class Node:
    """One node. `handlers` may be served from construction on; `run` brings them to life.

    Args:
        ports: used by this node only.
        config: checked by its class.
        identity: the identity in the data directory behind the ports.
        providers: every loglet kind that this node can serve, by name.
        metastore: the store that decides the register.
        on_register: called with each newer register, to learn addresses from; must not block.
    """

    def __init__(
        self,
        ports: NodePorts,
        config: NodeConfig,
        identity: Identity,
        *,
        providers: Mapping[str, LogletProvider],
        metastore: MetaStoreProvider,
        on_register: Callable[[Register], None] = lambda register: None,
    ) -> None:
        if config.loglet not in providers:
            raise UnknownKindError(config.loglet, ", ".join(sorted(providers)))
        self.config: Final = config
        self.identity: Final = identity
        compose(providers)
        self.nonce: Final = ports.nonce
        self._ports = ports
        self._providers = providers
        self._metastore = metastore
        self._on_register = on_register
        own = own_addresses(config.listen, [(peer.id, peer.address) for peer in config.all_peers], config.id)
        self._fence = IdentityFence(identity, own, ports.nonce, ports.who_is_at)
        self._services = FencedServices(ports.services, self._fence)
        self._formatter = Formatter(
            identity, [NodeId(peer.id) for peer in config.all_peers], ports.services, ports.clock, ports.random
        )
        self._stores = RoleStores(ports)
        self._loglet_roles = {
            kind: NodeRole(kind, provider.interfaces, partial(self._stores.serve, provider.serve))
            for kind, provider in providers.items()
        }
        self.database: Final = self._make_database() if config.zookeeper else None
        """None if the config does not make this node a server of the database.

        If the data directory shows that it was one, the role is closed, with the reason.
        """
        has_database = self.database is not None or (REPLICAS, DATABASE) in ports.stores_present
        databases = [NodeRole(DATABASE, INTERFACES, self._serve_database)] if has_database else []
        without_votes = [*self._loglet_roles.values(), *databases]
        acceptor = NodeRole("metastore", metastore.interfaces, partial(self._stores.serve, self._serve_metastore))
        self._roles = [acceptor, *without_votes]
        self._founding = [acceptor, *self._loglet_roles.values()]
        """Roles that found their stores before a new directory counts as formatted."""
        self._admitted = trio.Event()
        """The directory is formatted: roles may answer."""
        self._register_follower = RegisterFollower(
            identity, config.versions, providers, self._loglet_roles, self._learn, without_votes
        )
        self._pace = RateLimit(ports.clock)
        self._policy = load_policy(config.healing, config.healing_settings)
        self._healer: Healer | None = None
        self._nursery: trio.Nursery
        self._log: VirtualLog | None = None
        self._has_log = trio.Event()
        self._health = NodeHealth(
            identity=identity,
            config=config,
            roles=self._roles,
            loglet_roles=self._loglet_roles,
            formatter=self._formatter,
            register_follower=self._register_follower,
            fence=self._fence,
            database=self.database,
            log=lambda: self._log,
            healer=lambda: self._healer,
            ports=ports,
        )
        self._control = ControlService(
            self.status,
            self._health.alive,
            self._health.condition,
            self._require_log,
            lambda: self._nursery,
            self._pace,
            lambda: self.level,
        )
        self._membership = MembershipService(
            self._require_log,
            self._survey,
            lambda: self._nursery,
            self._pace,
            lambda: self.level,
            self._fence.check_can_add,
        )
        self.guard: Final = AppendGuard(lambda: self._log, lambda: self._nursery)
        """Checks the appends of clients; the RPC server asks it once it knows that a peer is a client."""

    @property
    def handlers(self) -> Handlers:
        """A handler for every request of a node. Complete, and ready to be served, from construction on."""
        handlers = {**self._control.handlers, **self._membership.handlers}
        for role in self._roles:
            assert not handlers.keys() & role.handlers.keys()
            handlers.update(role.handlers)
        return handlers

    @property
    def virtual_log(self) -> VirtualLog | None:
        """The node's own client. None before its data directory is formatted."""
        return self._log

    @property
    def open_roles(self) -> frozenset[str]:
        """Names of the roles that answer."""
        return self._health.open_roles

    @property
    def refusals(self) -> Mapping[str, VirtualLogError]:
        """Roles that are closed for good, with the error that closed each."""
        return self._health.refusals

    @property
    def setbacks(self) -> Mapping[str, Sequence[RetryableError]]:
        """Roles that have begun anew in this process, with the latest errors that caused it."""
        return self._health.setbacks

    def is_open(self, name: str) -> bool:
        """True if the role of this name answers."""
        return any(role.is_open for role in self._roles if role.name == name)

    async def wait_refused(self, name: str) -> VirtualLogError:
        """Wait until the role of this name is closed for good; return the error that closed it."""
        (role,) = (role for role in self._roles if role.name == name)
        await role.refused.wait()
        assert role.cause is not None, "any other error ends the node"
        return role.cause

    @property
    def level(self) -> int:
        """The version of the protocol up to which this node may write for others (`virtuallog.contract.versions`)."""
        return self._health.level

    def rpc_identity(self) -> RpcIdentity:
        """The node's answer to a peer that opens a connection."""
        return rpc_identity(self.identity, self.config.versions, self.nonce)

    def status(self) -> NodeStatus:
        """The status that other nodes and commands ask for."""
        return self._health.status()

    def plain_status(self) -> dict[str, Any]:
        """`status` as plain values, with that of the database."""
        database = attrs.asdict(self.database.status()) if self.database else None
        return {**plain_status(self.status()), "database": database}

    def not_ready(self) -> list[str]:
        """Reasons why this node does not serve. Empty once all its roles are open and it knows a register."""
        return self._health.not_ready()

    def metrics(self) -> list[MetricFamily]:
        """Metrics of the node and its parts (`virtuallog.contract.metrics.MetricsSource`)."""
        parts = [self._metastore, *self._providers.values(), self._log, self._healer, self.database]
        return [*node_metrics(self.status(), {role.name: role.is_open for role in self._roles}), *metrics.of(parts)]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the node until cancelled. Serve `handlers` once `task_status` says started.

        Raises (within exception groups):
            WrongRecipientError: the data directory belongs to another cluster, or the cluster did not begin at its origin.
            InvalidSettingError: the first loglet cannot be planned.
            StorageError: the identity file cannot be written.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            nursery.start_soon(self._services.later.run)
            client = Environment(
                services=self._services,
                clock=self._ports.clock,
                random=self._ports.random,
                nursery=nursery,
                learned=lambda value: self._learn(decode_untrusted(value)),
                near=self.config.node,
                check_resident=self._fence.check,
            )
            metastore = self._metastore.open(self._seats(), client)
            await self._stores.open(self.config, self.identity)
            await self._formatter.run(metastore, partial(self._found, client, metastore))
            self._log = virtual_log = await self._open(client, metastore)
            self._has_log.set()
            nursery.start_soon(self._fence.run, self._ports.clock, self._close_everything)
            nursery.start_soon(virtual_log.watchdog.run)
            nursery.start_soon(ProtocolUpgrade(self.config.versions, virtual_log.view).run)
            nursery.start_soon(GarbageCollector(self.config.node, virtual_log).run)
            if self._policy is not None:
                self._healer = Healer(
                    self.config.node, virtual_log, self._policy, self._pace, self._health.alive, lambda: self.level
                )
                self._ports.watch_connections(self._healer.disconnected)
                nursery.start_soon(self._healer.run)
            await self._register_follower.run(virtual_log.view, self._ports.clock)

    def _seats(self) -> Sequence[NodeId]:
        """The nodes to ask for the register at first: all that the config lists.

        The first members may all be gone when a node starts again or is added. Any other node, perhaps this one, knows the
        members after them.
        """
        return sorted({*self.config.members, *(NodeId(peer.id) for peer in self.config.all_peers)})

    def _node_environment(self, client: Environment, metastore: MetaStore) -> NodeEnvironment:
        """The environment of each role. Call it only once the data directory has its store id."""
        ports = self._ports
        return NodeEnvironment(
            services=self._services,
            clock=ports.clock,
            random=ports.random,
            nursery=client.nursery,
            learned=client.learned,
            node=self.config.node,
            boot=self.identity.boot,
            storage=ports.storage,
            key_values=ports.key_values,
            segment_config=self.segment_config,
            fail=_fail_outside_a_role,
            is_seated=self._is_seated,
            joined=self.identity.joined,
            register_version=partial(_newest_version, metastore),
        )

    async def _found(self, client: Environment, metastore: MetaStore) -> None:
        """Let each role found its stores, or fail, for the first time in this directory.

        Until then the directory does not count as formatted, and no node proposes a first register. So no peer can have asked
        for anything in a store that is not founded by then: a node that dies before begins anew. The roles open once the
        directory counts as formatted, and none votes before.
        """
        environment = self._node_environment(client, metastore)
        for role in self._founding:
            client.nursery.start_soon(role.run, environment, self._admitted)
        for role in self._founding:
            await role.settled.wait()

    async def _open(self, client: Environment, metastore: MetaStore) -> VirtualLog:
        """Start the roles, and decide the first register if there is none."""
        ports, config = self._ports, self.config
        environment = self._node_environment(client, metastore)
        self._admitted.set()
        for role in self._roles:
            if not role.settled.is_set():
                client.nursery.start_soon(role.run, environment)
        client.nursery.start_soon(self._stores.complete, self._founding)
        if self.identity.joined == 0:  # else the cluster had a register before it had this directory
            # A directory that knows its cluster needs no origin any more: the origin may be gone.
            origin = await ports.origin() if self.identity.cluster is None else None
            claim = claim_nothing if origin is None else ports.claim_origin
            await bootstrap(
                config, metastore, self._providers, ports.services, ports.clock, ports.random, origin, claim
            )
        return VirtualLog(metastore, self._providers, client, planner=self._survey)

    async def segment_config(self, segment_id: Any) -> tuple[str, bytes]:
        """Kind and config of a segment, from a register that is new enough to know it.

        Also of a loglet that nodes keep for a segment (`virtuallog.reconfiguration.retention`).

        Raises:
            SealedError: the chain has no such segment: it was dropped, or never decided.
            UnavailableError: the register cannot be read.
        """
        assert isinstance(segment_id, SegmentId)
        view = self._require_log().view
        found = find_retained(view.cached.chain, segment_id, self._providers) if view.cached else None
        for look in (
            view.find_newer,
            view.refresh,
        ):  # appends wait for the first one; only the second one can refuse them
            if found is None:
                found = find_retained((await look()).chain, segment_id, self._providers)
        if found is None:
            raise SealedError(f"segment {segment_id} is not in the chain", refused=True)
        return found

    async def _serve_metastore(self, environment: NodeEnvironment) -> Handlers:
        # A directory that joined later is no first member, even if its config lists it so: it founds nothing.
        members = self.config.members if self.identity.joined == 0 else ()
        return await self._metastore.serve(members, environment)

    def _make_database(self) -> DatabaseRole:
        # Late imports: a node without a database does not load its engines.
        from virtuallog_server.database.engine_settings import host_settings
        from virtuallog_server.database.role import DatabaseRole

        assert self.config.zookeeper is not None
        settings = host_settings(self.config.zookeeper, self.config.origin)
        return DatabaseRole(self.config, self.identity, self._stores.open_replica, settings)

    async def _serve_database(self, environment: NodeEnvironment) -> Handlers:
        if self.database is None:
            raise StorageError(LOST_DATABASE)
        await self._has_log.wait()
        return await self.database.serve(environment, self._require_log())

    def _is_seated(self, version: int, value: bytes) -> bool:
        """True if this version of the register lists this node on this data directory (`NodeEnvironment.is_seated`).

        The first version names no node yet: the first members vote for it.
        """
        identity = self.identity
        if not value:
            return identity.joined == 0
        register = decode_untrusted(value)
        if register.version != version:
            raise MalformedError(f"a register of version {register.version}, said to be decided as version {version}")
        if identity.cluster not in {None, register.cluster}:
            raise WrongRecipientError("cluster", (identity.cluster or b"").hex(), register.cluster.hex())
        entry = register.nodes.get(identity.node)
        return entry is not None and entry.store_id == identity.store_id

    async def _survey(self, register: Register) -> Cluster:
        suspects = self._healer.detector.suspects if self._healer else ()
        return await fetch_cluster(self._ports.services, register, self.config.node, suspects)

    def _learn(self, register: Register) -> None:
        """Take note of a decided register, which need not be the newest.

        The chain in it is used at once: the first append to a new sequencer on this node then costs no read of the register.
        """
        self._fence.learn(register)
        self._on_register(register)
        if self._log is not None:
            self._log.view.adopt(register)

    def _close_everything(self, error: VirtualLogError) -> None:
        """Close all roles, the acceptor included: another process runs this node on this very directory."""
        for role in self._roles:
            if role.cause is None:
                role.fail(error)

    def _require_log(self) -> VirtualLog:
        if self._log is None:
            raise UnavailableError(
                f"node {self.config.id} is not part of a cluster yet: {self._formatter.waiting or 'starting'}"
            )
        return self._log


async def _newest_version(metastore: MetaStore) -> int:
    version, _ = await metastore.get()
    return version


def _fail_outside_a_role(error: BaseException) -> None:
    raise AssertionError("a role was given an environment that is not its own") from error
