"""Status and metrics of a node as plain values: for `virtuallog status --json`, the console's /status and /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtuallog.admin.control import NodeStatus
from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.register import decode_untrusted


def node_metrics(status: NodeStatus, roles: Mapping[str, bool]) -> list[MetricFamily]:
    """Metrics of the node as a whole: its identity, and its roles. `roles` says of each if it is open."""
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
    """The status as plain values.

    Raises:
        MalformedError: the register in it cannot be read.
    """
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
