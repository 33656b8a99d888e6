"""What would break if a node went, and where what it has can go.                                                 Pure.

Everything is decided on one picture: a register, who answers, and where the loglets are. A drain never leaves fewer copies
of anything, nor fewer members of the MetaStore, than there were: who has too few nodes adds one first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from server.healing.policy import PlacedSegment
from virtuallog.chain import Segment
from virtuallog.node_table import lost_copies
from virtuallog.register import Register
from virtuallog.types import NodeId


@attrs.frozen(kw_only=True)
class Picture:
    """See above."""

    register: Register
    living: Mapping[NodeId, frozenset[str]]
    """Nodes that answer, on the data directory that the register names, and what they may be used for."""
    placed: Sequence[PlacedSegment]
    """The segments whose loglets are copies on nodes, in order; of other kinds nothing has to move."""

    @property
    def closed(self) -> Sequence[PlacedSegment]:
        return [placed for placed in self.placed if placed.segment.stop is not None]

    @property
    def active(self) -> PlacedSegment | None:
        """None also if the open segment is of a kind without copies on nodes."""
        return next((placed for placed in self.placed if placed.segment.stop is None), None)

    def uses(self, node: NodeId) -> Sequence[PlacedSegment]:
        """The segments that rest on the node."""
        return [placed for placed in self.placed if rests_on(placed, node)]

    def bare_groups(self, placed: PlacedSegment, without: Collection[NodeId] = ()) -> Sequence[tuple[NodeId, ...]]:
        """Groups of its servers of which none lives that has what it should have; any at all: it cannot be copied as a whole."""
        lost = lost_copies(self.register, placed.segment, placed.placement.servers)
        holders = self.living.keys() - lost - set(without)
        return [group for group in placed.placement.groups if not holders.intersection(group)]

    def spares(self, placed: PlacedSegment, without: Collection[NodeId] = ()) -> Sequence[NodeId]:
        """Living nodes that could take a copy, those that have least first."""
        able = [
            node
            for node, roles in self.living.items()
            if placed.placement.role in roles and node not in placed.placement.servers and node not in without
        ]
        return sorted(able, key=lambda node: (len(self.uses(node)), node))


def rests_on(placed: PlacedSegment, node: NodeId) -> bool:
    """Whether the node has copies of the segment, or orders what is appended to it."""
    is_open = placed.segment.stop is None
    return node in placed.placement.servers or (is_open and node in placed.placement.orders)


def drain_problems(picture: Picture, node: NodeId) -> list[str]:
    """Why the node cannot be drained; none: it can."""
    problems = [_closed_problem(picture, placed, node) for placed in picture.closed if rests_on(placed, node)]
    problems += [_active_problem(picture, picture.active, node)] if picture.active else []
    problems += [_members_problem(picture, node)]
    return [problem for problem in problems if problem]


def _closed_problem(picture: Picture, placed: PlacedSegment, node: NodeId) -> str:
    name, copies = spell(placed.segment), len(placed.placement.servers)
    if picture.bare_groups(placed):
        return f"{name}: no node that answers has a copy"
    if not picture.spares(placed, without=[node]):
        return f"{name}: {copies - 1} of {copies} copies would be left, and no spare node lives"
    return ""


def _active_problem(picture: Picture, active: PlacedSegment, node: NodeId) -> str:
    others = [other for other, roles in picture.living.items() if active.placement.role in roles and other != node]
    wanted = len(active.placement.servers)
    if rests_on(active, node) and len(others) < wanted:
        return f"the open segment: {wanted} servers are wanted, and without node {node} {len(others)} live"
    return ""


def _members_problem(picture: Picture, node: NodeId) -> str:
    members = picture.register.members
    if node in members and members_without(picture, node) is None:
        left = len(members) - 1
        return f"the MetaStore: {left} of {len(members)} members would be left, and no other node lives"
    return ""


def members_without(picture: Picture, node: NodeId) -> tuple[NodeId, ...] | None:
    """As many members of the MetaStore as there are, another one in the place of this; None: nobody can take it."""
    members = picture.register.members
    if node not in members:
        return members
    free = sorted(other for other in picture.living if other not in members and other != node)
    return tuple(sorted({*members, free[0]} - {node})) if free else None


def servers_without(
    picture: Picture, placed: PlacedSegment, node: NodeId, unfit: Collection[NodeId] = ()
) -> tuple[NodeId, ...] | None:
    """The servers of a closed segment with a spare node, but none of the `unfit`, in the place of this one; None: there is
    none."""
    spares = picture.spares(placed, without=[node, *unfit])
    return tuple(sorted({*placed.placement.servers, spares[0]} - {node})) if spares else None


def seat_problems(picture: Picture, node: NodeId) -> list[str]:
    """Why the register cannot do without the vote of a node: it could not be changed any more, not even for a new one."""
    members = picture.register.members
    left = [member for member in members if member in picture.living and member != node]
    if node not in members or 2 * len(left) > len(members):
        return []
    return [f"the MetaStore: without node {node} {len(left)} of its {len(members)} members answer"]


def copies_problems(picture: Picture, node: NodeId) -> list[str]:
    """What would be lost with the data directory of a node."""
    return [
        f"{spell(placed.segment)}: no other node that answers has a copy"
        for placed in picture.placed
        if any(node in group for group in picture.bare_groups(placed, without=[node]))
    ]


def lost_on(picture: Picture, node: NodeId) -> Sequence[PlacedSegment]:
    """The segments of which the node should have a copy and, on its present data directory, has none."""
    return [
        placed
        for placed in picture.placed
        if node in lost_copies(picture.register, placed.segment, placed.placement.servers)
    ]


def spell(segment: Segment) -> str:
    """A segment, for people."""
    return f"segment {segment.id} ({segment.start} to {'now' if segment.stop is None else segment.stop})"
