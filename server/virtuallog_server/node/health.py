"""The health of one node: its status, and what keeps it from serving."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

import attrs

from virtuallog.admin.control import Alive, NodeCondition, NodeStatus
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.register import Register, crowding
from virtuallog.contract.versions import FIRST, REPLICAS, Versions
from virtuallog.rpc.protocol.node import Identity as RpcIdentity
from virtuallog_server.config.node_config import ROLES, NodeConfig
from virtuallog_server.healing.core.under_replication import under_replication_problems
from virtuallog_server.healing.healer import Healer
from virtuallog_server.membership.cluster_state import placement_of
from virtuallog_server.node.formatter import Formatter
from virtuallog_server.node.identity_fence import IdentityFence
from virtuallog_server.node.ports import NodePorts
from virtuallog_server.node.register_follower import RegisterFollower
from virtuallog_server.node.role import NodeRole
from virtuallog_server.storage.identity import FormatPhase, Identity

if TYPE_CHECKING:
    from virtuallog_server.database.role import DatabaseRole


@attrs.define(eq=False, kw_only=True)
class NodeHealth:
    """Reads the parts of a node, and sums up their state for operators, peers and load balancers. Changes nothing."""

    identity: Identity
    config: NodeConfig
    roles: Sequence[NodeRole]
    """All roles of the node."""
    loglet_roles: Mapping[str, NodeRole]
    """The roles that serve loglets, by kind."""
    formatter: Formatter
    register_follower: RegisterFollower
    fence: IdentityFence
    database: DatabaseRole | None
    """None if the config does not make this node a server of the database."""
    log: Callable[[], VirtualLog | None]
    """The node's own client. None before the data directory is formatted."""
    healer: Callable[[], Healer | None]
    """None before the node has its log, and if its config turns healing off."""
    ports: NodePorts
    """Clock and disk of the node."""

    def status(self) -> NodeStatus:
        """The status that other nodes and commands ask for."""
        register = self.cached_register()
        encoded = register.encode() if register else b""
        identity = self.identity
        return NodeStatus(
            cluster=identity.cluster or b"",
            node=identity.node,
            store_id=identity.store_id,
            boot=identity.boot,
            roles=self._trusted_roles(),
            software=software_version(),
            register=encoded,
            failures=tuple(self._failures()),
            phase=identity.phase.value,
            healing=(*self._healing(), *crowding(len(encoded))),
            protocol=self.config.versions.last,
        )

    def alive(self) -> Alive:
        """The short answer to a failure detector."""
        register, identity = self.cached_register(), self.identity
        return Alive(
            node=identity.node,
            store_id=identity.store_id,
            boot=identity.boot,
            roles=self._trusted_roles(),
            version=register.version if register else 0,
        )

    def condition(self) -> NodeCondition:
        """Readiness, clock and disk, for operators."""
        free_bytes, size_bytes = self.ports.disk_space()
        return NodeCondition(
            not_ready=tuple(self.not_ready()),
            wall_ms=round(self.ports.clock.wall() * 1000),
            free_bytes=free_bytes,
            size_bytes=size_bytes,
        )

    @property
    def level(self) -> int:
        """The version of the protocol up to which this node may write for others (`virtuallog.contract.versions`)."""
        register = self.cached_register()
        return min(register.level, self.config.versions.last) if register else FIRST

    def not_ready(self) -> list[str]:
        """Reasons why this node does not serve. Empty once all its roles are open and it knows a register."""
        missing = [f"{role.name} is not open" for role in self.roles if not role.is_open]
        missing += self.database.not_ready() if self.database else []
        if self.cached_register() is None:
            missing.append("the register is not known")
        return missing

    @property
    def open_roles(self) -> frozenset[str]:
        """Names of the roles that answer."""
        return frozenset(role.name for role in self.roles if role.is_open)

    @property
    def refusals(self) -> Mapping[str, VirtualLogError]:
        """Roles that are closed for good, with the error that closed each."""
        return {role.name: role.cause for role in self.roles if role.cause is not None}

    @property
    def setbacks(self) -> Mapping[str, Sequence[RetryableError]]:
        """Roles that have begun anew in this process, with the latest errors that caused it."""
        found = {role.name: [*role.setbacks.latest] for role in self.roles}
        if self.database is not None and self.database.host is not None:
            found["database"] = [*found["database"], *self.database.host.setbacks.latest]
        return {name: errors for name, errors in found.items() if errors}

    def cached_register(self) -> Register | None:
        """The newest register that this node has read. None before the first."""
        log = self.log()
        return log.view.cached if log else None

    def _trusted_roles(self) -> tuple[str, ...]:
        """The roles that others may use.

        Empty before the node votes. No loglets once one of their roles has failed. Nothing that the register does not
        list: a node without listed roles is drained.
        """
        if self.identity.phase is not FormatPhase.FORMATTED:
            return ()
        if any(role.failure for role in self.loglet_roles.values()):
            return tuple(role for role in self.config.all_roles if role == "metastore")
        register = self.cached_register()
        entry = register.nodes.get(self.identity.node) if register else None
        listed = self._announced_roles()
        if register is None or entry is None:
            return listed
        # The node table may be older than the role `replica`. It is announced, so that it can be listed
        # (`virtuallog_server.node.protocol_upgrade`).
        waits = register.level < REPLICAS and entry.roles
        return tuple(role for role in listed if role in entry.roles or (waits and role == "replica"))

    def _announced_roles(self) -> tuple[str, ...]:
        """The roles of the config, as far as the protocol version in use has them."""
        is_older = self.config.versions.last < REPLICAS
        return tuple(role for role in self.config.all_roles if not (is_older and role == "replica"))

    def _healing(self) -> tuple[str, ...]:
        """Problems of other nodes, and of the nodes that keep the log."""
        log, healer = self.log(), self.healer()
        if log is None:
            return ()
        watched, register = log.watchdog.problem, log.view.cached
        less = under_replication_problems(register, placement_of(log)) if register else ()
        ownership = self.database.ownership if self.database else None
        open_to_clients = ownership.problem if ownership is not None else ""
        problems = [problem for problem in (watched, open_to_clients) if problem]
        return (*(healer.report() if healer else ()), *problems, *less)

    def _failures(self) -> list[str]:
        """Problems of this node, the most important first."""
        failures = [f"{role.name}: {role.failure}" for role in self.roles if role.failure]
        failures += [
            f"{role.name}: begins anew after: {role.setbacks.latest[-1]}"
            for role in self.roles
            if role.setbacks.latest and not role.is_open and not role.failure
        ]
        if self.formatter.waiting:
            failures.insert(0, f"identity: {self.formatter.waiting}")
        if self.register_follower.problem:
            failures.insert(0, self.register_follower.problem)
        if self.fence.problem:
            failures.insert(0, self.fence.problem)
        if lost := self._lost_roles():
            failures.append(
                f"roles: the register lists this node as {', '.join(sorted(lost))}, and its config has that no more"
            )
        return failures

    def _lost_roles(self) -> frozenset[str]:
        """Roles that loglets may count on, as the register lists them, and that the config no longer has."""
        register = self.cached_register()
        entry = register.nodes.get(self.identity.node) if register else None
        if entry is None or entry.store_id != self.identity.store_id:
            return frozenset()
        return entry.roles.intersection(ROLES).difference(self.config.all_roles)


def rpc_identity(identity: Identity, versions: Versions, nonce: bytes) -> RpcIdentity:
    """The node's answer to a peer that opens a connection."""
    return RpcIdentity(
        cluster=identity.cluster or b"",
        node=identity.node,
        store_id=identity.store_id,
        boot=identity.boot,
        software=software_version(),
        protocol_first=versions.first,
        protocol_last=versions.last,
        nonce=nonce,
    )


@cache
def software_version() -> str:
    """Version of the installed package."""
    return metadata.version("virtuallog")
