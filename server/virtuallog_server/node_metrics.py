"""What a node as a whole tells about itself: who it is, and which of its roles are open."""

from __future__ import annotations

from collections.abc import Mapping

from virtuallog import metrics
from virtuallog.control import NodeStatus
from virtuallog.metrics import Family


def node_metrics(status: NodeStatus, roles: Mapping[str, bool]) -> list[Family]:
    """Of a node; `roles` says of each whether it is open."""
    return [
        metrics.gauge(
            "virtuallog_node_info",
            "Always 1; its labels say which node this is.",
            1,
            node=str(status.node),
            cluster=status.cluster.hex(),
            software=status.software,
        ),
        metrics.gauge(
            "virtuallog_node_boot", "Number of this start of the node; each is higher than the one before.", status.boot
        ),
        metrics.gauge(
            "virtuallog_node_problems", "What is wrong with it, as `virtuallog status` says.", len(status.failures)
        ),
        metrics.gauges("virtuallog_role_open", "1 if the node serves this role.", "role", roles),
    ]
