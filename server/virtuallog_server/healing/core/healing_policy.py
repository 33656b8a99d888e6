"""Healing policies: decisions about failed nodes. A policy may be replaced.

A policy sees the conditions of the nodes and the place of each segment. It says what should be done, or why nothing is. Every
node asks it again and again. `healer.py` carries its decisions out, and ensures that few nodes do so at the same time.

A policy of your own is a class with these methods, named in the config of each node: `healing = "package.module:Class"`,
or by an entry point of the group `virtuallog.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.placement import Placement, SequencerId
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.core.failure_detector import Condition


@attrs.frozen(kw_only=True)
class HealingSettings:
    """The patience of a policy. docs/reference/sample.toml explains the fields, for nodes that are configured by a file."""

    server_patience_seconds: float = 8.0
    """Seconds for which a server of the open segment must have failed before a spare node takes its place."""
    rebuild_patience_seconds: float = 60.0
    """The same for closed segments, whose entries have to be copied."""


@attrs.frozen
class PlacedSegment:
    """A segment, and the nodes that hold it."""

    segment: Segment
    placement: Placement
    lost: frozenset[NodeId] = frozenset()
    """Servers that have nothing of it: another data directory took their place later."""
    failures: int = 0
    """Failed repairs of it by the node that asks, since the last success with any segment."""
    unfit: frozenset[NodeId] = frozenset()
    """Nodes with a copy that cannot be completed, as a rebuild has found."""


@attrs.frozen(kw_only=True)
class Nothing:
    """Do nothing: all is well, or nothing can be done."""

    reason: str = ""
    """The problem, and why nothing is done. Empty if all is well."""


@attrs.frozen(kw_only=True)
class Extend:
    """Close this segment and continue on a loglet of the same kind, planned over the living nodes."""

    segment: SegmentId
    reason: str
    urgent: bool
    """True if appends fail until it is done."""


@attrs.frozen(kw_only=True)
class Rebuild:
    """Move this closed segment to these servers."""

    segment: SegmentId
    servers: tuple[NodeId, ...]
    reason: str


Decision: TypeAlias = Nothing | Extend | Rebuild


class Policy(Protocol):
    """A healing policy."""

    def decide(self, nodes: Mapping[NodeId, Condition], segments: Sequence[PlacedSegment]) -> Decision:
        """Decide what should be done now.

        Args:
            nodes: every node of the cluster.
            segments: those of the chain whose kind can be healed, in order. The last of the chain is among them, if it is
                open, as the last one here.

        Must not raise, and must return the same decision for the same arguments.
        """
        ...


@attrs.frozen
class ReplaceFailed:
    """The default policy.

    * A sequencer that has failed or started again is replaced at once, even if it is one of many: nothing else makes the log take
      appends. The log continues only if a majority of each group of servers lives.
    * Never fewer copies: without a spare node a dead server stays in the set, and alone it is no reason to act.
    * A dead server of the active segment is replaced when a spare node lives, after a while: it may be restarting.
    * A dead server of a closed segment is replaced when a spare node lives, after a longer while: that moves data.
    * A server that lives with a new data directory gets its copies again, at once. One that has lost them and is dead keeps
      no place in a rebuild, as nothing can be copied to it.
    * A segment whose repair has failed has its turn after those without failures; only a sequencer never waits.
    * A working log is left alone. A node that is back does not get its copies back.
    """

    settings: HealingSettings

    def decide(self, nodes: Mapping[NodeId, Condition], segments: Sequence[PlacedSegment]) -> Decision:
        ordered = sorted(segments, key=lambda placed: (placed.failures, -placed.segment.start))  # the open one first
        decisions = [self._heal(nodes, placed, segments) for placed in ordered]
        actions = [decision for decision in decisions if not isinstance(decision, Nothing)]
        if actions:
            return next((action for action in actions if isinstance(action, Extend) and action.urgent), actions[0])
        problems = [decision.reason for decision in decisions if isinstance(decision, Nothing) and decision.reason]
        return Nothing(reason="; ".join(dict.fromkeys(problems)))

    def _heal(
        self, nodes: Mapping[NodeId, Condition], placed: PlacedSegment, segments: Sequence[PlacedSegment]
    ) -> Decision:
        if placed.segment.stop is None:
            return self._heal_sequencer(nodes, placed) or self._heal_open(nodes, placed)
        return self._heal_closed(nodes, placed, segments)

    def _heal_sequencer(self, nodes: Mapping[NodeId, Condition], placed: PlacedSegment) -> Decision | None:
        problems = [_problem(nodes, sequencer) for sequencer in placed.placement.sequencers]
        reason = "; ".join(dict.fromkeys(problem for problem in problems if problem))
        return _extend(nodes, placed, reason, urgent=True) if reason else None

    def _heal_open(self, nodes: Mapping[NodeId, Condition], placed: PlacedSegment) -> Decision:
        if lost := [server for server in sorted(placed.lost) if _lives(nodes, server)]:
            return _extend(nodes, placed, f"{_spelt(placed)} {_listed(lost)} has a new disk", urgent=False)
        dead = _dead(nodes, placed.placement.servers, self.settings.server_patience_seconds)
        if not dead:
            return Nothing()
        reason = f"{_spelt(placed)} {_listed(dead)} has failed"
        if not _spares(nodes, placed):
            return Nothing(reason=f"{reason}, no spare node")
        return _extend(nodes, placed, reason, urgent=False)

    def _heal_closed(
        self, nodes: Mapping[NodeId, Condition], placed: PlacedSegment, segments: Sequence[PlacedSegment]
    ) -> Decision:
        returned = [server for server in sorted(placed.lost) if _lives(nodes, server)]
        dead = _dead(nodes, placed.placement.servers, self.settings.rebuild_patience_seconds)
        if returned:
            reason = f"node {_listed(returned)}, which had copies of closed segments, has a new disk"
        elif dead:
            reason = f"node {_listed(dead)}, which has copies of closed segments, has failed"
        else:
            return Nothing()
        spares = sorted(_spares(nodes, placed), key=lambda node: (_load(segments, node), node))
        # A dead server that has its copy may keep its place; one that would have to receive it may not.
        replaced = sorted(dead, key=lambda server: server not in placed.lost)
        chosen = dict(zip(replaced, spares, strict=False))
        if not chosen and not returned:
            return Nothing(reason=f"{reason}, no spare node")
        servers = tuple(sorted(chosen.get(server, server) for server in placed.placement.servers))
        if absent := [server for server in servers if server in placed.lost and not _lives(nodes, server)]:
            return Nothing(reason=f"{reason}, and node {_listed(absent)}, which lost its copies, does not answer")
        return Rebuild(segment=placed.segment.id, servers=servers, reason=reason)


def _problem(nodes: Mapping[NodeId, Condition], sequencer: SequencerId) -> str:
    condition = nodes.get(sequencer.node, Condition(alive=False))
    restarted = condition.alive and sequencer.boot and condition.boot and condition.boot != sequencer.boot
    if condition.alive and not restarted:
        return ""
    return f"the sequencer's node {sequencer.node} {'has started again' if restarted else 'has failed'}"


def _extend(nodes: Mapping[NodeId, Condition], placed: PlacedSegment, reason: str, *, urgent: bool) -> Decision:
    for group in placed.placement.groups:
        if 2 * sum(_lives(nodes, server) for server in group) <= len(group):
            # This node may be the one that is cut off. Without a majority nothing can be sealed, here or there.
            return Nothing(reason=f"{reason}, and no majority of nodes {_listed(group)} answers")
    return Extend(segment=placed.segment.id, reason=reason, urgent=urgent)


def _lives(nodes: Mapping[NodeId, Condition], node: NodeId) -> bool:
    return node in nodes and nodes[node].alive


def _dead(nodes: Mapping[NodeId, Condition], servers: Sequence[NodeId], patience_seconds: float) -> list[NodeId]:
    """Servers that have been silent for this long. One that answers with an empty disk does not bring the old one back, so no patience
    helps.
    """
    return [
        server
        for server in servers
        if not (condition := nodes.get(server, Condition(alive=False, lost=True))).alive
        and (condition.lost or condition.failed_seconds >= patience_seconds)
    ]


def _spares(nodes: Mapping[NodeId, Condition], placed: PlacedSegment) -> list[NodeId]:
    """Living nodes that have the role of a server, are none of this segment's yet, and may become one."""
    placement = placed.placement
    return [
        node
        for node, condition in nodes.items()
        if condition.alive and placement.role in condition.roles
        if node not in placement.servers and node not in placed.unfit
    ]


def _load(segments: Sequence[PlacedSegment], node: NodeId) -> int:
    return sum(node in placed.placement.servers for placed in segments)


def _spelt(placed: PlacedSegment) -> str:
    """The role of a server, in messages."""
    return placed.placement.role.replace("-", " ")


def _listed(nodes: Sequence[NodeId]) -> str:
    return ", ".join(str(node) for node in nodes)
