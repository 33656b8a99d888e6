"""Choice of replicas and first leader for a new raft loglet, and of the config of a moved one.

The rules are those of `virtuallog.contract.placement`. The planner's own node leads first if it is a replica: it is known to
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract import placement
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftConfig, decode_untrusted

REPLICA: Final = "replica"
"""Role that a node must have to be a replica."""

SETTINGS: Final = {
    "servers": "which nodes are replicas, such as 1,2,3: an odd number",
    "leader": "which of them leads first; by default the one that is asked",
    "replicas": f"how many replicas, if servers are not named; {placement.REPLICAS_DEFAULT} at first",
}
"""Settings that an operator may give, with help text."""


def plan(cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> RaftConfig:
    """See `LogletProvider.plan`."""
    placement.check_names("raft", settings, SETTINGS)
    former = decode_untrusted(previous) if previous is not None else None
    replicas = placement.choose_servers(cluster, settings, former.replicas if former else (), REPLICA)
    leader = _leader(cluster, settings, replicas)
    others = former.others if former else {}
    return RaftConfig(replicas=replicas, leader=leader.node, boot=leader.boot, others=others)


def move(segment: SegmentId, config: RaftConfig, servers: Sequence[NodeId]) -> RaftConfig:
    """See `ReplicatedProvider.move`."""
    chosen = placement.check_move(config.replicas, servers)
    return attrs.evolve(config, replicas=chosen, loglet=config.loglet or segment)


def _leader(cluster: Cluster, settings: Mapping[str, str], replicas: Sequence[NodeId]) -> Member:
    if "leader" in settings:
        node = placement.parse_node("leader", settings["leader"])
        if node not in replicas:
            raise InvalidSettingError("leader", f"node {node} is not among the replicas {list(replicas)}")
        return placement.living("leader", cluster, node, REPLICA)
    able = [member for member in placement.able(cluster, REPLICA) if member.node in replicas]
    if not able:
        raise InvalidSettingError("leader", "no replica answers")
    return able[0]
