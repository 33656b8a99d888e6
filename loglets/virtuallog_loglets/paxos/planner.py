"""Choice of replicas and first coordinator of a new log, and the config of a closed one on other nodes.

The rules are those of `virtuallog.contract.placement`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract import placement
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import KIND, PaxosConfig, decode_untrusted

REPLICA: Final = "replica"

SETTINGS: Final = {
    "servers": "which nodes are replicas, such as 1,2,3: an odd number",
    "replicas": f"how many there are, if servers are not named; {placement.REPLICAS_DEFAULT} at first",
    "coordinator": "which replica begins to order; later they elect one",
}
"""Settings that an operator may give, with their help texts."""


def plan(cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> PaxosConfig:
    """Plan a new log; see `LogletProvider.plan`."""
    placement.check_names(KIND, settings, SETTINGS)
    former = decode_untrusted(previous) if previous is not None else None
    replicas = placement.choose_servers(cluster, settings, former.replicas if former else (), REPLICA)
    coordinator = _coordinator(cluster, settings, replicas, former)
    return PaxosConfig(replicas=replicas, coordinator=coordinator, others=former.others if former else {})


def move(segment: SegmentId, config: PaxosConfig, servers: Sequence[NodeId]) -> PaxosConfig:
    """Config of a closed log on other nodes; see `ReplicatedProvider.move`."""
    chosen = placement.check_move(config.replicas, servers)
    coordinator = config.coordinator if config.coordinator in chosen else chosen[0]
    return attrs.evolve(config, replicas=chosen, coordinator=coordinator, loglet=config.loglet or segment)


def _coordinator(
    cluster: Cluster, settings: Mapping[str, str], replicas: Sequence[NodeId], former: PaxosConfig | None
) -> NodeId:
    """First coordinator: one of the replicas, as only their nodes hold what a leader must know.

    Prefers the former coordinator, then the planner's node, which surely answers, then any living node.
    """
    if "coordinator" in settings:
        node = placement.parse_node("coordinator", settings["coordinator"])
        chosen = placement.living("coordinator", cluster, node, REPLICA).node
        if chosen not in replicas:
            raise InvalidSettingError("coordinator", f"node {chosen} is none of the replicas {list(replicas)}")
        return chosen
    able = [member.node for member in placement.able(cluster, REPLICA) if member.node in replicas]
    return former.coordinator if former and former.coordinator in able else able[0]
