"""A node's status as plain values: what `virtuallog status --json` prints and the console's /status answers."""

from __future__ import annotations

from typing import Any

from virtuallog.control import NodeStatus
from virtuallog.register import decode_untrusted


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
