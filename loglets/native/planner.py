"""Chooses servers and sequencer of a new NativeLoglet, and describes a closed one on other servers.              Pure.

What the operator did not set stays as it was in the active segment, as far as its nodes live. A node that is down
keeps its place only when nobody can take it: a smaller loglet would survive fewer failures, and a majority of the
chosen servers is alive in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from loglets.native.config import NativeConfig, decode_untrusted, majority_of
from virtuallog.api import Cluster, Member
from virtuallog.chain import SegmentId
from virtuallog.errors import InvalidSettingError
from virtuallog.types import NodeId

LOG_SERVER: Final = "log-server"
SEQUENCER: Final = "sequencer"
REPLICAS_DEFAULT: Final = 3
"""Survives one failure, and each further pair of servers costs the sequencer two more copies of each wave."""

_SETTINGS: Final = ("servers", "sequencer", "replicas")


def plan(cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> NativeConfig:
    """See `LogletProvider.plan`."""
    for name in settings:
        if name not in _SETTINGS:
            raise InvalidSettingError(name, f"unknown; a native loglet has {', '.join(_SETTINGS)}")
    former = decode_untrusted(previous) if previous is not None else None
    servers = _servers(cluster, settings, former)
    sequencer = _sequencer(cluster, settings)
    others = former.others if former else {}
    return NativeConfig(servers=servers, sequencer=sequencer.node, boot=sequencer.boot, others=others)


def move(segment: SegmentId, config: NativeConfig, servers: Sequence[NodeId]) -> NativeConfig:
    """See `ReplicatedProvider.move`.

    Fewer servers are refused: what a majority of five has may be on one of three.
    """
    chosen = tuple(sorted(set(servers)))
    if len(chosen) != len(servers) or len(chosen) % 2 == 0 or len(chosen) < len(config.servers):
        reason = f"needs an odd number of different nodes, at least {len(config.servers)}, not {list(servers)}"
        raise InvalidSettingError("servers", reason)
    return attrs.evolve(config, servers=chosen, loglet=config.loglet or segment)


def _servers(cluster: Cluster, settings: Mapping[str, str], former: NativeConfig | None) -> tuple[NodeId, ...]:
    if "servers" in settings:
        return _chosen_servers(cluster, settings)
    candidates = [member for member in cluster.members if LOG_SERVER in member.roles]
    count = _replicas(settings, former, len(candidates))
    return _default_servers(candidates, former.servers if former else (), count)


def _chosen_servers(cluster: Cluster, settings: Mapping[str, str]) -> tuple[NodeId, ...]:
    if "replicas" in settings:
        raise InvalidSettingError("replicas", "says the same as servers: set one of the two")
    nodes = [_node("servers", part) for part in settings["servers"].split(",")]
    if len(set(nodes)) != len(nodes) or len(nodes) % 2 == 0:
        raise InvalidSettingError("servers", f"needs an odd number of different nodes, not {settings['servers']}")
    return tuple(sorted(_living("servers", cluster, node, LOG_SERVER).node for node in nodes))


def _default_servers(candidates: Sequence[Member], former: Sequence[NodeId], count: int) -> tuple[NodeId, ...]:
    """The living before the dead, the former servers before others."""
    preferred = sorted(candidates, key=lambda member: (not member.alive, member.node not in former, member.node))
    chosen = preferred[:count]
    if sum(member.alive for member in chosen) < majority_of(count):
        raise InvalidSettingError("servers", f"fewer than {majority_of(count)} nodes with role {LOG_SERVER} answer")
    return tuple(sorted(member.node for member in chosen))


def _replicas(settings: Mapping[str, str], former: NativeConfig | None, candidates: int) -> int:
    if "replicas" not in settings:
        wanted = len(former.servers) if former else REPLICAS_DEFAULT
        return max(1, min(wanted, candidates - (candidates % 2 == 0)))
    count = _number("replicas", settings["replicas"])
    if count < 1 or count % 2 == 0:
        raise InvalidSettingError("replicas", f"must be odd, not {count}")
    if count > candidates:
        raise InvalidSettingError("replicas", f"{count} of {candidates} nodes with role {LOG_SERVER}")
    return count


def _sequencer(cluster: Cluster, settings: Mapping[str, str]) -> Member:
    if "sequencer" in settings:
        return _living("sequencer", cluster, _node("sequencer", settings["sequencer"]), SEQUENCER)
    able = [member for member in cluster.members if member.alive and SEQUENCER in member.roles]
    if not able:
        raise InvalidSettingError("sequencer", f"no node with role {SEQUENCER} answers")
    return min(able, key=lambda member: (member.node != cluster.planner, member.node))


def _living(where: str, cluster: Cluster, node: NodeId, role: str) -> Member:
    member = next((member for member in cluster.members if member.node == node), None)
    if member is None:
        raise InvalidSettingError(where, f"there is no node {node}")
    if role not in member.roles:
        raise InvalidSettingError(where, f"node {node} does not have role {role}")
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
