"""Metrics of the raft replicas of a node, and of their write-ahead log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
from virtuallog_loglets.raft.core.transitions import RaftRole

if TYPE_CHECKING:
    from virtuallog_loglets.raft.drivers.replica_service import RaftService


def replica_families(service: RaftService) -> list[MetricFamily]:
    """Metric families at this moment."""
    replicas = [driver.replica for driver in service.drivers.values()]
    roles = {role.value: sum(replica.role is role for replica in replicas) for role in RaftRole}
    newest = replicas[-1:]
    return [
        metrics.gauges("virtuallog_raft_replicas", "Raft replicas here, by role.", "role", roles),
        metrics.gauge("virtuallog_raft_term", "Term of the newest replica.", sum(each.state.term for each in newest)),
        metrics.gauge(
            "virtuallog_raft_commit_index",
            "Commit index of the newest replica.",
            sum(each.state.commit for each in newest),
        ),
        metrics.gauge(
            "virtuallog_raft_last_index",
            "Last index of the newest replica.",
            sum(each.state.log.last_index for each in newest),
        ),
        *service.wal_metrics(),
    ]
