"""Choice of nodes for a new loglet, shared by the planners of kinds with copies on nodes.

A setting that the operator left out stays as it was in the active segment, as far as its nodes
live. A node that is down keeps its place only if no other node can take it: a smaller loglet would
survive fewer failures, and a majority of the chosen servers is alive in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import NodeId


@attrs.frozen(kw_only=True)
class Member:
    """A node as the planner of a loglet sees it."""

    node: NodeId
    boot: int
    roles: frozenset[str]
    alive: bool
    """True if the node answered just now."""
    votes: bool = True
    """True unless the node has an acceptor of the register that is closed. Only voters may have a
    seat in the MetaStore."""


@attrs.frozen(kw_only=True)
class Cluster:
    """The nodes that a planner may choose from."""

    members: tuple[Member, ...]
    planner: NodeId
    """The node that plans; a sensible home for a sequencer."""


@attrs.frozen
class SequencerId:
    """The process that orders the appends to a loglet, or to a part of it."""

    node: NodeId
    boot: int
    """Boot number of the intended process; another one orders nothing. 0 if any may."""


@attrs.frozen(kw_only=True)
class Placement:
    """The nodes that a loglet rests on."""

    groups: tuple[tuple[NodeId, ...], ...]
    """Groups of nodes with copies of its entries; one group per part of the loglet.

    A majority of each group must live, or the loglet can neither take appends nor be sealed. One
    group unless the loglet consists of parts. A node may be in several.
    """
    role: str
    """Role that a node must have to be one of them."""
    sequencers: tuple[SequencerId, ...] = ()
    """Sequencers that must all live for appends. Empty if any server may order."""

    @property
    def servers(self) -> tuple[NodeId, ...]:
        """Every node that has copies, in order."""
        return tuple(sorted({node for group in self.groups for node in group}))

    @property
    def orders(self) -> frozenset[NodeId]:
        """The nodes of the sequencers."""
        return frozenset(sequencer.node for sequencer in self.sequencers)


REPLICAS_DEFAULT: Final = 3
"""Survives one failure. Each further pair of servers costs the sequencer two more copies of each
entry."""


def majority_of(servers: int) -> int:
    """Size of a majority of `servers`: any two majorities share a server."""
    return servers // 2 + 1


def check_names(kind: str, settings: Mapping[str, str], known: Collection[str]) -> None:
    """Check that a kind knows each of the settings.

    Raises:
        InvalidSettingError: one is unknown.
    """
    for name in settings:
        if name not in known:
            raise InvalidSettingError(name, f"unknown; a {kind} loglet has {', '.join(known)}")


def choose_servers(
    cluster: Cluster, settings: Mapping[str, str], former: Sequence[NodeId], role: str
) -> tuple[NodeId, ...]:
    """Choose an odd number of nodes with the role, in order.

    The settings `servers` or `replicas` decide; without them there are as many as before.

    Raises:
        InvalidSettingError: a bad setting, or fewer than a majority of them would answer.
    """
    if "servers" in settings:
        if "replicas" in settings:
            raise InvalidSettingError("replicas", "says the same as servers: set one of the two")
        return parse_servers(cluster, "servers", settings["servers"], role)
    candidates = [member for member in cluster.members if role in member.roles]
    count = _replicas(settings, former, len(candidates), role)
    return default_servers(candidates, former, count, role)


def parse_servers(cluster: Cluster, where: str, text: str, role: str) -> tuple[NodeId, ...]:
    """Parse a setting that lists living nodes, such as `1,2,3`; return them in order.

    Raises:
        InvalidSettingError: an even number, a duplicate, an unknown node, one without the role, or
            one that does not answer.
    """
    nodes = [parse_node(where, part) for part in text.split(",")]
    if len(set(nodes)) != len(nodes) or len(nodes) % 2 == 0:
        raise InvalidSettingError(where, f"needs an odd number of different nodes, not {text}")
    return tuple(sorted(living(where, cluster, node, role).node for node in nodes))


def default_servers(
    candidates: Sequence[Member], former: Collection[NodeId], count: int, role: str
) -> tuple[NodeId, ...]:
    """Choose the living before the dead, the former servers before others.

    Raises:
        InvalidSettingError: less than a majority of them lives.
    """
    preferred = sorted(candidates, key=lambda member: (not member.alive, member.node not in former, member.node))
    chosen = preferred[:count]
    if sum(member.alive for member in chosen) < majority_of(count):
        raise InvalidSettingError("servers", f"fewer than {majority_of(count)} nodes with role {role} answer")
    return tuple(sorted(member.node for member in chosen))


def check_move(former: Sequence[NodeId], servers: Sequence[NodeId]) -> tuple[NodeId, ...]:
    """Check the servers that a closed loglet is moved to; return them in order
    (`ReplicatedProvider.move`).

    Fewer servers than before are refused: an entry on a majority of five may be on just one of
    three.

    Raises:
        InvalidSettingError: an even number, one twice, or fewer than before.
    """
    chosen = tuple(sorted(set(servers)))
    if len(chosen) != len(servers) or len(chosen) % 2 == 0 or len(chosen) < len(former):
        reason = f"needs an odd number of different nodes, at least {len(former)}, not {list(servers)}"
        raise InvalidSettingError("servers", reason)
    return chosen


def able(cluster: Cluster, role: str) -> Sequence[Member]:
    """Return the living nodes with a role. The planner's node comes first, as it surely answers."""
    found = [member for member in cluster.members if member.alive and role in member.roles]
    return sorted(found, key=lambda member: (member.node != cluster.planner, member.node))


def living(where: str, cluster: Cluster, node: NodeId, role: str) -> Member:
    """Return the living node that the setting `where` names.

    Raises:
        InvalidSettingError: there is no such node, it does not have the role, or it does not
            answer.
    """
    member = next((member for member in cluster.members if member.node == node), None)
    if member is None:
        raise InvalidSettingError(where, f"there is no node {node}")
    if role not in member.roles:
        raise InvalidSettingError(where, f"node {node} does not have role {role}")
    if not member.alive:
        raise InvalidSettingError(where, f"node {node} does not answer")
    return member


def parse_node(where: str, text: str) -> NodeId:
    """Parse a node number in the setting `where`.

    Raises:
        InvalidSettingError: not a number.
    """
    return NodeId(parse_number(where, text))


def parse_number(where: str, text: str) -> int:
    """Parse an integer in the setting `where`.

    Raises:
        InvalidSettingError: not a number.
    """
    try:
        return int(text)
    except ValueError:
        raise InvalidSettingError(where, f"'{text}' is not a number") from None


def _replicas(settings: Mapping[str, str], former: Sequence[NodeId], candidates: int, role: str) -> int:
    if "replicas" not in settings:
        wanted = len(former) or REPLICAS_DEFAULT
        return max(1, min(wanted, candidates - (candidates % 2 == 0)))
    count = parse_number("replicas", settings["replicas"])
    if count < 1 or count % 2 == 0:
        raise InvalidSettingError("replicas", f"must be odd, not {count}")
    if count > candidates:
        raise InvalidSettingError("replicas", f"{count} of {candidates} nodes with role {role}")
    return count
