"""The database role of a node: a replica of the tree, open to ZooKeeper's clients and to other nodes.

    Role("database")  closed -> open -> closed for good, with a reason          (virtuallog_server.node.role)
        StoreDirectory + VirtualLog -> Host (virtuallog_database.replica.host) -> in each life: ZooKeeperServer, snapshots for others

A replica that cannot continue (a failed disk, a state that differs from that of others) closes only this role: the node still
orders and stores entries of the log, and its status says why. A log role that fails closes no database either: it reads and
appends through other nodes.

This module has no socket. Real listeners (`virtuallog_server.process.process`) or simulated streams pass each connection to
`serve_stream`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio
from trio.abc import Stream

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import RetryableError, UnavailableError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, Handler, Handlers, NodeEnvironment, Request
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log
from virtuallog_database.control.messages import DatabaseStatus, GetDatabaseStatus
from virtuallog_database.control.wire import INTERFACES
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import StoreDirectory
from virtuallog_database.replica.host import Host, HostSettings, HostState, ReplicaIncarnation
from virtuallog_database.snapshots.service import SnapshotService
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.database.admin_service import DatabaseAdminService
from virtuallog_server.database.ownership import Ownership
from virtuallog_server.database.status import mode_of, report, role_metrics
from virtuallog_server.database.tree_service import TreeService
from virtuallog_server.storage.identity import Identity
from virtuallog_server.zookeeper.admin.facts import ServerFacts
from virtuallog_server.zookeeper.service import ZooKeeperService

REGISTER_SECONDS: Final = 1.0
"""Pause between two attempts to read the register, each of which asks a majority."""

STORE = "database"
"""Name of the replica's store among those of the node's roles."""


@attrs.define(eq=False)
class DatabaseRole:
    """The database of one node, which a `virtuallog_server.node.role.NodeRole` opens and closes.

    Args:
        config: of the node; has `zookeeper`.
        identity: of the node's data directory. A wiped node is another replica.
        local_store: opens the replica's directory (`NodePorts.local_store`).
        settings: of the replica.
    """

    config: NodeConfig
    identity: Identity
    local_store: Callable[[str], Awaitable[StoreDirectory]]
    settings: HostSettings = attrs.field(factory=HostSettings)
    on_life: Callable[[ReplicaIncarnation], None] = attrs.field(default=lambda _: None, init=False)
    """Called with each life of the replica once it serves."""
    host: Host | None = attrs.field(default=None, init=False)
    """None unless the role is open."""
    service: ZooKeeperService | None = attrs.field(default=None, init=False)
    """The service for clients. None unless the replica serves, and the config has ports for clients."""
    ownership: Ownership | None = attrs.field(default=None, init=False)
    """None unless the role is open."""
    _is_serving: bool = attrs.field(default=False, init=False)
    _handlers: Handlers = attrs.field(factory=dict, init=False)
    """Handlers of the present life."""

    async def serve(self, environment: NodeEnvironment, virtual_log: VirtualLog) -> Handlers:
        """Open the role and return the handlers of requests by other nodes and operators. Its tasks run in the environment's
        nursery; a VirtualLogError of any of them closes the role. May be called again once they have ended.

        Raises:
            VirtualLogError: the replica's directory cannot be used.
        """
        if self.host is None:
            directory = await self.local_store(STORE)
            self.host = Host(
                log=virtual_log,
                directory=directory,
                environment=environment,
                identity=ReplicaIdentity(
                    node=self.identity.node, store=self.identity.store_id, boot=self.identity.boot
                ),
                cluster=await cluster_of(virtual_log),
                peers=partial(_others, virtual_log, self.identity.node),
                settings=self.settings,
            )  # fmt: skip
        self.host.environment = environment  # the same host in each life of the role: it counts those of the replica
        self.ownership = Ownership(virtual_log)
        environment.nursery.start_soon(self._run, self.host, self.ownership)
        handlers: dict[type[Request[Any]], Handler] = {
            method.request: self._in_life for interface in INTERFACES for method in interface.methods
        }
        return {**handlers, GetDatabaseStatus: self._get_status}

    @property
    def life(self) -> ReplicaIncarnation | None:
        """The replica and its tree. None while there are none, as during a restore."""
        return self.host.life if self.host is not None else None

    async def serve_stream(self, stream: Stream, host: str, port: int = 0, subject: str | None = None) -> None:
        """Serve one client until its connection ends (`ZooKeeperServer.serve_stream`).

        While the role does not serve, the stream is closed, and the client tries another server.
        """
        if self.service is None:
            await trio.aclose_forcefully(stream)
        else:
            await self.service.server.serve_stream(stream, host, port, subject)

    def facts(self) -> ServerFacts:
        """The facts for ZooKeeper's admin pages."""
        return ServerFacts(server=self.identity.node, serving=False) if self.service is None else self.service.facts()

    def status(self) -> DatabaseStatus:
        """The present status, from memory and the local store."""
        return report(self.host, self.service)

    def not_ready(self) -> Sequence[str]:
        """Reasons why it does not serve clients. Empty once it does, and while the role is not open, which the node reports."""
        if self.host is None or self._is_serving:
            return []
        reason = f": {self.host.waiting_for}" if self.host.waiting_for else ""
        return [f"the database is {self.host.state.value}{reason}"]

    def metrics(self) -> list[MetricFamily]:
        """Metrics of the database (`virtuallog.contract.metrics.MetricsSource`)."""
        return role_metrics(self.host, self.service)

    async def _run(self, host: Host, ownership: Ownership) -> None:
        await ownership.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ownership.run)
            await host.run(self._attend)

    @property
    def zookeeper(self) -> ZooKeeperSettings:
        """The section of the config."""
        assert self.config.zookeeper is not None
        return self.config.zookeeper

    async def _attend(self, life: ReplicaIncarnation) -> None:
        """Serve clients, peers and operators from this life."""
        view = life.replica.stack.find(ViewTrackingEngine)
        assert view is not None, "a server of the database takes part in the view"
        assert self.host is not None
        environment = life.environment
        snapshots = SnapshotService(
            life.snapshots, self.host.cluster, environment.nursery, view.hold_exactly, environment.clock
        )
        service = await self._serve_clients(life, view) if self.zookeeper.serves_clients else None
        self.service, self._is_serving = service, True
        trees = TreeService(life.database, service.server if service is not None else None)
        self._handlers = {
            **snapshots.handlers,
            **DatabaseAdminService(life, view, self.status).handlers,
            **trees.handlers,
        }
        self.on_life(life)
        try:
            await trio.sleep_forever()
        finally:
            self.service, self._is_serving, self._handlers = None, False, {}
            if service is not None:
                service.server.close_all("the replica of this server ends, or begins anew")

    async def _serve_clients(self, life: ReplicaIncarnation, view: ViewTrackingEngine) -> ZooKeeperService:
        environment = life.environment
        service = ZooKeeperService(
            life.database,
            self.zookeeper,
            environment.clock,
            environment.random,
            node=self.identity.node,
            address=self.config.address,
            mode=partial(mode_of, self.identity.node, view),
        )
        await environment.nursery.start(service.run)
        return service

    def _get_status(self, _: GetDatabaseStatus, done: Done) -> None:
        """Answer in every state, also while there is no life: operators ask then for the progress of a restore."""
        done(self.status())

    def _in_life(self, request: Any, done: Done) -> None:
        handler = self._handlers.get(type(request))
        if handler is None:
            state = self.host.state if self.host is not None else HostState.OPENING
            done(UnavailableError(f"the database of node {self.identity.node} is {state.value}"))
        else:
            handler(request, done)


async def cluster_of(virtual_log: VirtualLog) -> bytes:
    """The id of the cluster, once the register can be read. A silent majority is no reason to close a role for good."""
    view = virtual_log.view
    while True:
        try:
            return (await view.current()).cluster
        except RetryableError as error:
            log.info("the database waits for the register", reason=str(error))
            await view.environment.clock.sleep(REGISTER_SECONDS)


def _others(virtual_log: VirtualLog, node: NodeId) -> Sequence[NodeId]:
    register = virtual_log.view.cached
    return [other for other in sorted(register.nodes) if other != node] if register else []
