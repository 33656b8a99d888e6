"""One node: the roles its config lists, composed from ports alone.

A node is the serving side of every loglet kind, an acceptor of the MetaStore if it is a member, and a client of the
log like any other: its own VirtualLog carries out what operators ask of it and finishes changes that somebody left
half done. The simulator runs this very class on simulated ports.

    construct -> handlers can be served, and say "not ready"
    run       -> format the data directory (virtuallog_server.node.formatter) -> open the roles -> bootstrap (virtuallog_server.node.bootstrap)
              -> follow the register for ever (virtuallog_server.node.register_follower)

Order matters twice: no acceptor opens before the data directory is formatted, since it votes. The roles of loglets open just
before a new directory counts as formatted: a store that is missing in one that does counts as lost.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_cluster
from virtuallog.admin.control import Alive, NodeStatus
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
    UnsupportedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.metastore import MetaStore, MetaStoreProvider
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Clock, DurableMap, Environment, Handlers, NodeEnvironment, Services, Storage
from virtuallog.contract.provider import LogletProvider, compose
from virtuallog.contract.register import Register, crowding, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import FIRST, REPLICAS
from virtuallog.reconfiguration.retention import find_retained
from virtuallog.rpc.protocol.node import Identity as RpcIdentity
from virtuallog_database.control.wire import INTERFACES
from virtuallog_database.ports import StoreDirectory
from virtuallog_loglets.archive.origin import Origin
from virtuallog_server.config.node_config import ROLES, NodeConfig
from virtuallog_server.healing.core.under_replication import under_replication_problems
from virtuallog_server.healing.healer import Healer
from virtuallog_server.healing.policy_registry import load_policy
from virtuallog_server.healing.rebuild import RateLimit
from virtuallog_server.membership.cluster_state import placement_of
from virtuallog_server.membership.service import MembershipService
from virtuallog_server.node.append_guard import AppendGuard
from virtuallog_server.node.bootstrap import Claim, bootstrap, claim_nothing
from virtuallog_server.node.control_service import ControlService
from virtuallog_server.node.formatter import Formatter
from virtuallog_server.node.garbage_collection import GarbageCollector
from virtuallog_server.node.identity_fence import (
    AddressProbe,
    FencedServices,
    IdentityFence,
    no_address_probe,
    own_addresses,
)
from virtuallog_server.node.protocol_upgrade import ProtocolUpgrade
from virtuallog_server.node.register_follower import RegisterFollower
from virtuallog_server.node.role import NodeRole, Serve
from virtuallog_server.node.status import node_metrics, plain_status
from virtuallog_server.storage.identity import FormatPhase, Identity
from virtuallog_server.storage.stores import REPLICAS as DATABASES
from virtuallog_server.storage.stores import Stores

if TYPE_CHECKING:
    from virtuallog_server.database.role import DatabaseRole


DATABASE: Final = "database"
LOST_DATABASE: Final = (
    "this node was a server of the database, and its config has no [zookeeper] any more: put that section back, and start it again. "
    "If it shall be none: delete stores/database in its data directory, start it again, and eject its replica"
)


async def _no_local_store(role: str) -> StoreDirectory:
    raise UnsupportedError(f"this node has no place for the state of a {role}")


async def _no_origin() -> Origin | None:
    return None


@attrs.frozen(kw_only=True)
class NodePorts:
    """The world of one node."""

    services: Services
    clock: Clock
    random: random.Random
    storage: Callable[[str], Awaitable[Storage]]
    """The directory of the role of this name. A role that begins anew asks for it again, once the tasks of its former life have ended."""
    key_values: Callable[[str], Awaitable[DurableMap]]
    """The small durable map of the role of this name; the same holds."""
    local_store: Callable[[str], Awaitable[StoreDirectory]] = _no_local_store
    """Where the role of this name keeps a replica of a database and its snapshots; asked for only if the config has `[zookeeper]`."""
    origin: Callable[[], Awaitable[Origin | None]] = _no_origin
    """What a new cluster goes on from; None: a new log begins at 0. Asked for at the first start only."""
    claim_origin: Claim = claim_nothing
    """Makes it this cluster's, before that is proposed."""
    stores_present: Collection[tuple[str, str]] = ()
    """Stores of which anything was there when this process began, by folder and role (`virtuallog_server.storage.stores`)."""
    nonce: bytes = b""
    """Random, of this process."""
    who_is_at: AddressProbe = no_address_probe
    """Asks at an address who is there, also for the own node."""


class Node:
    """See above.

    Args:
        ports: exclusively this node's.
        config: checked by its class.
        identity: of the data directory behind the ports.
        providers: every loglet kind that this node can serve, by name.
        metastore: what decides the register.
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
        self._loglet_roles = {
            kind: NodeRole(kind, provider.interfaces, partial(self._serve_stored, provider.serve))
            for kind, provider in providers.items()
        }
        self.database: Final = self._make_database() if config.zookeeper else None
        """None if the config does not make this node a server of the database. If it has been one, the role is closed, with the reason."""
        has_database = self.database is not None or (DATABASES, DATABASE) in ports.stores_present
        databases = [NodeRole(DATABASE, INTERFACES, self._serve_database)] if has_database else []
        without_votes = [*self._loglet_roles.values(), *databases]
        acceptor = NodeRole("metastore", metastore.interfaces, partial(self._serve_stored, self._serve_metastore))
        self._roles = [acceptor, *without_votes]
        self._founding = [acceptor, *self._loglet_roles.values()]
        """Roles whose stores a new directory has before it counts as formatted."""
        self._admitted = trio.Event()
        """The directory is formatted: roles may answer."""
        self._stores: Stores
        self._following = RegisterFollower(
            identity, config.versions, providers, self._loglet_roles, self._learn, without_votes
        )
        self._pace = RateLimit(ports.clock)
        self._control = ControlService(
            self.status, self._alive, self._require_log, lambda: self._nursery, self._pace, lambda: self.level
        )
        self._membership = MembershipService(
            self._require_log,
            self._survey,
            lambda: self._nursery,
            self._pace,
            lambda: self.level,
            self._fence.check_can_add,
        )
        self._policy = load_policy(config.healing, config.healing_settings)
        self._healer: Healer | None = None
        self._nursery: trio.Nursery
        self._log: VirtualLog | None = None
        self._has_log = trio.Event()
        self.guard: Final = AppendGuard(lambda: self._log, lambda: self._nursery)
        """For whoever knows that it serves a client."""

    @property
    def handlers(self) -> Handlers:
        """Of every request this node knows; complete and ready to be served from construction on."""
        handlers = {**self._control.handlers, **self._membership.handlers}
        for role in self._roles:
            assert not handlers.keys() & role.handlers.keys()
            handlers.update(role.handlers)
        return handlers

    @property
    def virtual_log(self) -> VirtualLog | None:
        """The node's own client; None before its data directory is formatted."""
        return self._log

    @property
    def open_roles(self) -> frozenset[str]:
        """The roles that answer."""
        return frozenset(role.name for role in self._roles if role.is_open)

    @property
    def refusals(self) -> Mapping[str, VirtualLogError]:
        """The roles that are closed for good, with what has closed them."""
        return {role.name: role.cause for role in self._roles if role.cause is not None}

    @property
    def setbacks(self) -> Mapping[str, Sequence[RetryableError]]:
        """The roles that have begun anew in this process, with the latest errors that each has begun anew after."""
        found = {role.name: [*role.setbacks.latest] for role in self._roles}
        if self.database is not None and self.database.host is not None:
            found["database"] = [*found["database"], *self.database.host.setbacks.latest]
        return {name: errors for name, errors in found.items() if errors}

    def is_open(self, name: str) -> bool:
        """Whether the role of this name answers."""
        return any(role.is_open for role in self._roles if role.name == name)

    async def wait_refused(self, name: str) -> VirtualLogError:
        """Return once the role of this name is closed for good: what has closed it."""
        (role,) = (role for role in self._roles if role.name == name)
        await role.refused.wait()
        assert role.cause is not None, "what is no VirtualLogError ends the node"
        return role.cause

    def status(self) -> NodeStatus:
        register = self._log.view.cached if self._log else None
        encoded = register.encode() if register else b""
        identity = self.identity
        return NodeStatus(
            cluster=identity.cluster or b"",
            node=identity.node,
            store_id=identity.store_id,
            boot=identity.boot,
            roles=self._trusted_roles(),
            software=_software(),
            register=encoded,
            failures=tuple(self._failures()),
            phase=identity.phase.value,
            healing=(*self._healing(), *crowding(len(encoded))),
            protocol=self.config.versions.last,
        )

    def _alive(self) -> Alive:
        register, identity = self._log.view.cached if self._log else None, self.identity
        return Alive(
            node=identity.node,
            store_id=identity.store_id,
            boot=identity.boot,
            roles=self._trusted_roles(),
            version=register.version if register else 0,
        )

    @property
    def level(self) -> int:
        """The version of the protocol up to which this node may write for others (`virtuallog.contract.versions`)."""
        register = self._cached_register()
        return min(register.level, self.config.versions.last) if register else FIRST

    def plain_status(self) -> dict[str, Any]:
        """`status` as plain values."""
        database = attrs.asdict(self.database.status()) if self.database else None
        return {**plain_status(self.status()), "database": database}

    def not_ready(self) -> list[str]:
        """What keeps this node from serving; nothing once all its roles are open and it knows a register."""
        missing = [f"{role.name} is not open" for role in self._roles if not role.is_open]
        missing += self.database.not_ready() if self.database else []
        if self._log is None or self._log.view.cached is None:
            missing.append("the register is not known")
        return missing

    def metrics(self) -> list[MetricFamily]:
        """Of the node and its parts. See `virtuallog.contract.metrics.MetricsSource`."""
        parts = [self._metastore, *self._providers.values(), self._log, self._healer, self.database]
        return [*node_metrics(self.status(), {role.name: role.is_open for role in self._roles}), *metrics.of(parts)]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be a node until cancelled. Serve `handlers` once `task_status` says started.

        Raises (within exception groups):
            WrongRecipientError: the data directory belongs to another cluster, or another one than that of the origin began.
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
            self._stores = await Stores.open(
                self.config.node, self.identity.storage, self.config.data, self._ports.stores_present,
                is_new=self.identity.fresh,
            )  # fmt: skip
            await self._formatter.run(metastore, partial(self._found, client, metastore))
            self._log = virtual_log = await self._open(client, metastore)
            self._has_log.set()
            nursery.start_soon(self._fence.run, self._ports.clock, self._close_everything)
            nursery.start_soon(virtual_log.watchdog.run)
            nursery.start_soon(ProtocolUpgrade(self.config.versions, virtual_log.view).run)
            nursery.start_soon(GarbageCollector(self.config.node, virtual_log).run)
            if self._policy is not None:
                self._healer = Healer(
                    self.config.node, virtual_log, self._policy, self._pace, self._alive, lambda: self.level
                )
                nursery.start_soon(self._healer.run)
            await self._following.run(virtual_log.view, self._ports.clock)

    def _seats(self) -> Sequence[NodeId]:
        """The nodes to ask for the register at first. The first members may all be gone when a node starts again, or takes the
        place of one: then any other node knows who came after them, perhaps this one by itself."""
        return sorted({*self.config.members, *(NodeId(peer.id) for peer in self.config.all_peers)})

    def _node_environment(self, client: Environment, metastore: MetaStore) -> NodeEnvironment:
        """What each role is given; only once the data directory has its store id."""
        ports = self._ports
        return NodeEnvironment(
            services=self._services,
            clock=ports.clock,
            random=ports.random,
            nursery=client.nursery,
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
        """Found the stores of the roles, or have these fail, for the first time in this directory.

        Until that is over the directory does not count as formatted, and nobody proposes a first register. So nobody can have
        asked for anything in a store that is not founded by then: whoever dies before begins anew. The roles open once it
        counts: none of them votes before.
        """
        environment = self._node_environment(client, metastore)
        for role in self._founding:
            client.nursery.start_soon(role.run, environment, self._admitted)
        for role in self._founding:
            await role.settled.wait()

    async def _open(self, client: Environment, metastore: MetaStore) -> VirtualLog:
        """Start the roles and make sure that there is a register."""
        ports, config = self._ports, self.config
        environment = self._node_environment(client, metastore)
        self._admitted.set()
        for role in self._roles:
            if not role.settled.is_set():
                client.nursery.start_soon(role.run, environment)
        client.nursery.start_soon(self._complete_stores)
        if self.identity.joined == 0:  # else the cluster had a register before it had this directory
            # Once the directory knows its cluster nobody needs the origin any more: it may be gone.
            origin = await ports.origin() if self.identity.cluster is None else None
            claim = claim_nothing if origin is None else ports.claim_origin
            await bootstrap(
                config, metastore, self._providers, ports.services, ports.clock, ports.random, origin, claim
            )
        return VirtualLog(metastore, self._providers, client, planner=self._survey)

    async def segment_config(self, segment_id: Any) -> tuple[str, bytes]:
        """Kind and config of a segment, or of a loglet that nodes keep for one (`virtuallog.reconfiguration.retention`), from a register that is new
        enough to know it.

        Raises:
            SealedError: no such segment is in the chain: dropped, or never decided.
            UnavailableError: the register cannot be read.
        """
        assert isinstance(segment_id, SegmentId)
        view = self._require_log().view
        found = find_retained(view.cached.chain, segment_id, self._providers) if view.cached else None
        if found is None:
            found = find_retained((await view.refresh()).chain, segment_id, self._providers)
        if found is None:
            raise SealedError(f"segment {segment_id} is not in the chain", refused=True)
        return found

    async def _serve_stored(self, serve: Serve, environment: NodeEnvironment) -> Handlers:
        """Serve a role whose stores are checked before it opens them, and marked once it has founded them."""
        opening = self._stores.opening(self._ports.storage, self._ports.key_values)
        stored = attrs.evolve(
            environment, storage=opening.storage, key_values=opening.key_values, is_lost=opening.is_lost
        )
        handlers = await serve(stored)
        await opening.founded()
        return handlers

    async def _complete_stores(self) -> None:
        """Once each role has said what a directory of a former version has: what it lacks later was never there."""
        for role in self._founding:
            await role.settled.wait()
        await self._stores.complete()

    async def _open_replica(self, role: str) -> StoreDirectory:
        """Where the role keeps a replica of a database. One that is lost is restored from others."""
        await self._stores.check(DATABASES, role)
        directory = await self._ports.local_store(role)
        await self._stores.mark_founded(DATABASES, role)
        return directory

    async def _serve_metastore(self, environment: NodeEnvironment) -> Handlers:
        # A directory that joined later is no first member, whatever its config lists: it founds nothing.
        members = self.config.members if self.identity.joined == 0 else ()
        return await self._metastore.serve(members, environment)

    def _make_database(self) -> DatabaseRole:
        # A node without one need not import all that it stands on.
        from virtuallog_server.database.engine_settings import host_settings
        from virtuallog_server.database.role import DatabaseRole

        assert self.config.zookeeper is not None
        settings = host_settings(self.config.zookeeper, self.config.origin)
        return DatabaseRole(self.config, self.identity, self._open_replica, settings)

    async def _serve_database(self, environment: NodeEnvironment) -> Handlers:
        if self.database is None:
            raise StorageError(LOST_DATABASE)
        await self._has_log.wait()
        return await self.database.serve(environment, self._require_log())

    def _is_seated(self, version: int, value: bytes) -> bool:
        """See `NodeEnvironment.is_seated`. The first members vote for the first version, which nobody is named in yet."""
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
        """A register is decided, the newest or not."""
        self._fence.learn(register)
        self._on_register(register)

    def _close_everything(self, error: VirtualLogError) -> None:
        """Another process is this node, on this very directory: no role of it may answer here, the acceptor included."""
        for role in self._roles:
            if role.cause is None:
                role.fail(error)

    def _cached_register(self) -> Register | None:
        return self._log.view.cached if self._log else None

    def _require_log(self) -> VirtualLog:
        if self._log is None:
            raise UnavailableError(
                f"node {self.config.id} is not part of a cluster yet: {self._formatter.waiting or 'starting'}"
            )
        return self._log

    def _trusted_roles(self) -> tuple[str, ...]:
        """What others may use this node for: nothing before it votes, no loglets once one of their roles has failed, and
        nothing that the register does not list: then it is drained."""
        if self.identity.phase is not FormatPhase.FORMATTED:
            return ()
        if any(role.failure for role in self._loglet_roles.values()):
            return tuple(role for role in self.config.all_roles if role == "metastore")
        register = self._log.view.cached if self._log else None
        entry = register.nodes.get(self.identity.node) if register else None
        listed = self._announced_roles()
        if register is None or entry is None:
            return listed
        # The table may be older than this role: it is announced, so that it can be listed (`virtuallog_server.node.protocol_upgrade`).
        waits = register.level < REPLICAS and entry.roles
        return tuple(role for role in listed if role in entry.roles or (waits and role == "replica"))

    def _announced_roles(self) -> tuple[str, ...]:
        """What the config says, as far as the version of the protocol that is spoken has it."""
        is_older = self.config.versions.last < REPLICAS
        return tuple(role for role in self.config.all_roles if not (is_older and role == "replica"))

    def _healing(self) -> tuple[str, ...]:
        """What is wrong with other nodes, or with where the log is kept."""
        if self._log is None:
            return ()
        watched, register = self._log.watchdog.problem, self._log.view.cached
        less = under_replication_problems(register, placement_of(self._log)) if register else ()
        ownership = self.database.ownership if self.database else None
        open_to_clients = ownership.problem if ownership is not None else ""
        problems = [problem for problem in (watched, open_to_clients) if problem]
        return (*(self._healer.report() if self._healer else ()), *problems, *less)

    def _failures(self) -> list[str]:
        failures = [f"{role.name}: {role.failure}" for role in self._roles if role.failure]
        failures += [
            f"{role.name}: begins anew after: {role.setbacks.latest[-1]}"
            for role in self._roles
            if role.setbacks.latest and not role.is_open and not role.failure
        ]
        if self._formatter.waiting:
            failures.insert(0, f"identity: {self._formatter.waiting}")
        if self._following.problem:
            failures.insert(0, self._following.problem)
        if self._fence.problem:
            failures.insert(0, self._fence.problem)
        if lost := self._lost_roles():
            failures.append(
                f"roles: the register lists this node as {', '.join(sorted(lost))}, and its config has that no more"
            )
        return failures

    def _lost_roles(self) -> frozenset[str]:
        """What loglets may count on this node for, and its config does not let it be."""
        register = self._cached_register()
        entry = register.nodes.get(self.identity.node) if register else None
        if entry is None or entry.store_id != self.identity.store_id:
            return frozenset()
        return entry.roles.intersection(ROLES).difference(self.config.all_roles)


def rpc_identity(node: Node) -> RpcIdentity:
    """Who the node is, to those who open a connection."""
    identity = node.identity
    return RpcIdentity(
        cluster=identity.cluster or b"",
        node=identity.node,
        store_id=identity.store_id,
        boot=identity.boot,
        software=_software(),
        protocol_first=node.config.versions.first,
        protocol_last=node.config.versions.last,
        nonce=node.nonce,
    )


@cache
def _software() -> str:
    return metadata.version("virtuallog")


async def _newest_version(metastore: MetaStore) -> int:
    version, _ = await metastore.get()
    return version


def _fail_outside_a_role(error: BaseException) -> None:
    raise AssertionError("a role was given an environment that is not its own") from error
