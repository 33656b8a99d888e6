"""Chooses replicas and first coordinator of a new log of replicas, and describes a closed one on other nodes.      Pure.

What the operator did not set stays as it was in the active segment, as far as its nodes live. A node that is down
keeps its place only when nobody can take it: a smaller log would survive fewer failures, and a majority of the chosen
replicas is alive in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from loglets.paxos.config import PaxosConfig, decode_untrusted, quorum_of
from virtuallog.api import Cluster, Member
from virtuallog.chain import SegmentId
from virtuallog.errors import InvalidSettingError
from virtuallog.types import NodeId

REPLICA: Final = "replica"
REPLICAS_DEFAULT: Final = 3
"""Survives one failure, and each further pair of replicas costs the coordinator two more copies of each value."""

_SETTINGS: Final = ("servers", "replicas", "coordinator")


def plan(cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> PaxosConfig:
    """See `LogletProvider.plan`."""
    for name in settings:
        if name not in _SETTINGS:
            raise InvalidSettingError(name, f"unknown; a paxos loglet has {', '.join(_SETTINGS)}")
    former = decode_untrusted(previous) if previous is not None else None
    replicas = _replicas(cluster, settings, former)
    coordinator = _coordinator(cluster, settings, replicas, former)
    return PaxosConfig(replicas=replicas, coordinator=coordinator, others=former.others if former else {})


def move(segment: SegmentId, config: PaxosConfig, servers: Sequence[NodeId]) -> PaxosConfig:
    """See `ReplicatedProvider.move`.

    Fewer replicas are refused: what a majority of five has may be on one of three.
    """
    chosen = tuple(sorted(set(servers)))
    if len(chosen) != len(servers) or len(chosen) % 2 == 0 or len(chosen) < len(config.replicas):
        reason = f"needs an odd number of different nodes, at least {len(config.replicas)}, not {list(servers)}"
        raise InvalidSettingError("servers", reason)
    coordinator = config.coordinator if config.coordinator in chosen else chosen[0]
    return attrs.evolve(config, replicas=chosen, coordinator=coordinator, loglet=config.loglet or segment)


def _replicas(cluster: Cluster, settings: Mapping[str, str], former: PaxosConfig | None) -> tuple[NodeId, ...]:
    if "servers" in settings:
        return _chosen_replicas(cluster, settings)
    candidates = [member for member in cluster.members if REPLICA in member.roles]
    count = _count(settings, former, len(candidates))
    return _default_replicas(candidates, former.replicas if former else (), count)


def _chosen_replicas(cluster: Cluster, settings: Mapping[str, str]) -> tuple[NodeId, ...]:
    if "replicas" in settings:
        raise InvalidSettingError("replicas", "says the same as servers: set one of the two")
    nodes = [_node("servers", part) for part in settings["servers"].split(",")]
    if len(set(nodes)) != len(nodes) or len(nodes) % 2 == 0:
        raise InvalidSettingError("servers", f"needs an odd number of different nodes, not {settings['servers']}")
    return tuple(sorted(_living("servers", cluster, node).node for node in nodes))


def _default_replicas(candidates: Sequence[Member], former: Sequence[NodeId], count: int) -> tuple[NodeId, ...]:
    """The living before the dead, the former replicas before others."""
    preferred = sorted(candidates, key=lambda member: (not member.alive, member.node not in former, member.node))
    chosen = preferred[:count]
    if sum(member.alive for member in chosen) < quorum_of(count):
        raise InvalidSettingError("servers", f"fewer than {quorum_of(count)} nodes with role {REPLICA} answer")
    return tuple(sorted(member.node for member in chosen))


def _count(settings: Mapping[str, str], former: PaxosConfig | None, candidates: int) -> int:
    if "replicas" not in settings:
        wanted = len(former.replicas) if former else REPLICAS_DEFAULT
        return max(1, min(wanted, candidates - (candidates % 2 == 0)))
    count = _number("replicas", settings["replicas"])
    if count < 1 or count % 2 == 0:
        raise InvalidSettingError("replicas", f"must be odd, not {count}")
    if count > candidates:
        raise InvalidSettingError("replicas", f"{count} of {candidates} nodes with role {REPLICA}")
    return count


def _coordinator(
    cluster: Cluster, settings: Mapping[str, str], replicas: Sequence[NodeId], former: PaxosConfig | None
) -> NodeId:
    """One of the replicas, as only their nodes have what a leader must know. The former one, then the planner's node, which
    answers for sure; then any that lives."""
    if "coordinator" in settings:
        chosen = _living("coordinator", cluster, _node("coordinator", settings["coordinator"])).node
        if chosen not in replicas:
            raise InvalidSettingError("coordinator", f"node {chosen} is none of the replicas {list(replicas)}")
        return chosen
    living = [member.node for member in cluster.members if member.alive and member.node in replicas]
    wishes = [former.coordinator] if former else []
    wishes += [cluster.planner, *sorted(living)]
    return next(node for node in wishes if node in living)


def _living(where: str, cluster: Cluster, node: NodeId) -> Member:
    member = next((member for member in cluster.members if member.node == node), None)
    if member is None:
        raise InvalidSettingError(where, f"there is no node {node}")
    if REPLICA not in member.roles:
        raise InvalidSettingError(where, f"node {node} does not have role {REPLICA}")
    if not member.alive:
        raise InvalidSettingError(where, f"node {node} does not answer")
    return member


def _node(where: str, text: str) -> NodeId:
    return NodeId(_number(where, text))


def _number(where: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidSettingError(where, f"'{text}' is not a number") from None
