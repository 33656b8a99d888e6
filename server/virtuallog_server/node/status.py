"""A node's status as plain values: what `virtuallog status --json` prints and the console's /status answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtuallog.admin.control import NodeStatus
from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.register import decode_untrusted

# FOLDED from virtuallog_server.node_metrics: What a node as a whole tells about itself: who it is, and which of its roles are open.


def node_metrics(status: NodeStatus, roles: Mapping[str, bool]) -> list[MetricFamily]:
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


def plain_status(status: NodeStatus) -> dict[str, Any]:
    """Raises MalformedError if the node's register is none."""
    register = decode_untrusted(status.register) if status.register else None
    return {
        "node": status.node,
        "state": status.phase if status.phase != "formatted" else "running",
        "boot": status.boot,
        "store_id": status.store_id.hex(),
        "cluster": status.cluster.hex(),
        "software": status.software,
        "roles": list(status.roles),
        "version": register.version if register else 0,
        "protocol": status.protocol,
        "level": register.level if register else 0,
        "failures": list(status.failures),
        "healing": list(status.healing),
    }
