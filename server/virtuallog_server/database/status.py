"""Status and metrics of a server of the database."""

from __future__ import annotations

from typing import Any

from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.control.messages import DatabaseStatus, HoldStatus, MemberStatus
from virtuallog_database.engines.core import backup_state, enabled_engines, view
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.identity import node_of
from virtuallog_database.ports import StoreReader
from virtuallog_database.replica.host import Host, HostState
from virtuallog_server.zookeeper.admin.facts import Mode
from virtuallog_server.zookeeper.service import ZooKeeperService


def allowed_trim(state: StoreReader, tracking: ViewTrackingEngine) -> LogPosition:
    """Position up to which the log may be trimmed, as far as this replica knows."""
    return backup_state.allowed(state, tracking.trimmable())


def report(host: Host | None, service: ZooKeeperService | None) -> DatabaseStatus:
    """The present status of the replica, from memory and the local store."""
    life = host.life if host is not None else None
    values: dict[str, Any] = {"state": (host.state if host is not None else HostState.OPENING).value}
    if life is not None:
        state, tracking = life.store, life.replica.stack.find(ViewTrackingEngine)
        switches = enabled_engines.switches(state)
        values |= {
            "cursor": life.replica.cursor,
            "known_tail": max(life.replica.cursor, host.log.view.known_tail if host else 0),
            "zxid": life.database.tree.last_zxid,
            "snapshot": life.snapshots.newest,
            "allowed": allowed_trim(state, tracking) if tracking is not None else view.floor(state),
            "members": tuple(
                MemberStatus(name=name, durable=member.durable, heard=member.heard)
                for name, member in view.members(state).items()
            ),
            "holds": tuple(
                HoldStatus(name=name, position=hold.position, milliseconds=hold.milliseconds)
                for name, hold in view.holds(state).items()
            ),
            "engines": tuple(layer.name for layer in life.replica.stack.layers),
            "disabled": tuple(name for name, is_on in switches.items() if not is_on),
            "enabled": tuple(name for name, is_on in switches.items() if is_on),
        }
    if host is not None and host.waiting_for:
        values["waiting_for"] = host.waiting_for
    if service is not None:
        values["clients"] = len(service.server.traffic().connections)
    return DatabaseStatus(**values)


def role_metrics(host: Host | None, service: ZooKeeperService | None) -> list[MetricFamily]:
    """Metrics of the replica, its snapshots and its clients."""
    life = host.life if host is not None else None
    states = {each.value: float(host is not None and host.state is each) for each in HostState}
    families = [
        metrics.gauges("virtuallog_database_state", "1 for the state that the database is in.", "state", states)
    ]
    if host is not None:
        families += host.meter.metrics()
    if life is not None:
        families += [
            metrics.gauge(
                "virtuallog_database_snapshot_position",
                "Position of the newest durable snapshot.",
                life.snapshots.newest,
            ),
            *metrics.of([life.replica, life.database]),
        ]
    return [*families, *metrics.of([service.server] if service is not None else [])]


def mode_of(node: NodeId, tracking: ViewTrackingEngine) -> Mode:
    """The server's mode in ZooKeeper's terms. There is no leader; the first replica of the view is called so, since programs that
    watch an ensemble look for exactly one.
    """
    nodes = [node_of(replica) for replica in tracking.members()]
    if nodes in ([], [node]):
        return Mode.STANDALONE
    return Mode.LEADER if min(nodes) == node else Mode.FOLLOWER
