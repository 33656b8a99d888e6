"""Safety of a node's removal: what would break without it, and where its data can go.

Everything is decided on one state: a register, the nodes that answer, and the places of the loglets. A drain never leaves fewer
copies, nor fewer members of the MetaStore, than before: with too few nodes an operator adds one first.

A change is put on a register that may be newer than the state. So a state can be taken over to another register
(`ClusterState.on`), and is judged there again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Placement, majority_of
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.metastore_members import drained_members, eligible_members
from virtuallog.reconfiguration.core.node_table import WithdrawRoles, lost_copies
from virtuallog_database.identity import node_of, replica_name
from virtuallog_server.healing.core.healing_policy import PlacedSegment


@attrs.frozen(kw_only=True)
class ClusterState:
    """The state of a cluster at one moment."""

    register: Register
    living: Mapping[NodeId, frozenset[str]]
    """Nodes that answer, on the data directory that the register names, with the roles that they may be used for."""
    placed: Sequence[PlacedSegment]
    """The segments whose loglets are copies on nodes, in order. Other kinds need no moves."""
    closed_acceptors: frozenset[NodeId] = frozenset()
    """Nodes that have no vote for the register, though they may answer."""
    unknown: Sequence[Segment] = ()
    """Segments whose kind or config the observing node does not know: they may rest on any node."""
    partial: Mapping[SegmentId, frozenset[NodeId]] = attrs.field(factory=dict)
    """Segment -> servers that could report a whole copy, and have not."""
    replicas: Collection[str] = ()
    """Names of the replicas in the view of the database, each with all of its state. Empty if there is no database, or no server
    of one was asked.
    """

    def on(self, register: Register, placed: Sequence[PlacedSegment]) -> ClusterState:
        """The same nodes in another register. A node with a different directory there counts as not observed."""
        same = {
            node: roles
            for node, roles in self.living.items()
            if node in register.nodes and register.nodes[node].store_id == self.register.nodes[node].store_id
        }
        return attrs.evolve(self, register=register, living=same, placed=placed)

    @property
    def closed(self) -> Sequence[PlacedSegment]:
        return [placed for placed in self.placed if placed.segment.stop is not None]

    @property
    def active(self) -> PlacedSegment | None:
        """The open segment. None if there is none, or its kind has no copies on nodes."""
        return next((placed for placed in self.placed if placed.segment.stop is None), None)

    def uses(self, node: NodeId) -> Sequence[PlacedSegment]:
        """The segments that rest on the node."""
        return [placed for placed in self.placed if depends_on(placed, node)]

    def holders(self, placed: PlacedSegment) -> frozenset[NodeId]:
        """Living servers whose copy counts as whole. It may have holes: offsets that other servers have."""
        lost = lost_copies(self.register, placed.segment, placed.placement.servers)
        return frozenset(self.living.keys() & set(placed.placement.servers)) - lost - self._partial(placed)

    def _partial(self, placed: PlacedSegment) -> frozenset[NodeId]:
        return self.partial.get(placed.segment.id, frozenset())

    def bare_groups(self, placed: PlacedSegment) -> Sequence[tuple[NodeId, ...]]:
        """Groups of servers without any holder. If there is one, the segment cannot be copied as a whole."""
        holders = self.holders(placed)
        return [group for group in placed.placement.groups if not holders.intersection(group)]

    def thin_groups(self, placed: PlacedSegment, without: NodeId) -> Sequence[tuple[NodeId, ...]]:
        """Groups that would lose something with the copy of a node.

        An entry is acknowledged by a majority M of the N servers of its group, and the others may never get it. So all is
        left on the other holders only if these meet every majority: if there are N - M + 1 of them at least.
        """
        left = self.holders(placed) - {without}
        gone = lost_copies(self.register, placed.segment, [without])
        groups = [] if gone else [group for group in placed.placement.groups if without in group]
        return [group for group in groups if len(left.intersection(group)) < sufficient_copies(group)]

    @property
    def seatable(self) -> list[NodeId]:
        """Nodes that could take a seat in the MetaStore, in order."""
        return sorted((self.living.keys() & eligible_members(self.register)) - self.closed_acceptors)

    def spares(self, placed: PlacedSegment, without: Collection[NodeId] = ()) -> Sequence[NodeId]:
        """Living nodes that could take a copy, those with the fewest segments first."""
        able = [
            node
            for node, roles in self.living.items()
            if placed.placement.role in roles and node not in placed.placement.servers and node not in without
        ]
        return sorted(able, key=lambda node: (len(self.uses(node)), node))


def depends_on(placed: PlacedSegment, node: NodeId) -> bool:
    """True if the node has copies of the segment, or orders its appends."""
    is_open = placed.segment.stop is None
    return node in placed.placement.servers or (is_open and node in placed.placement.orders)


def sufficient_copies(group: Collection[NodeId]) -> int:
    """Number of servers of a group that together have everything, whichever they are: N - M + 1, with M a majority of N."""
    return len(group) - majority_of(len(group)) + 1


def drain_problems(
    state: ClusterState, node: NodeId, placement: Callable[[Segment], Placement | None] = lambda _: None
) -> list[str]:
    """Reasons why the node cannot be drained. Empty if it can."""
    problems = [
        f"{spell(segment)}: the node asked cannot read where its {segment.kind} loglet is" for segment in state.unknown
    ]
    problems += [_closed_problem(state, placed, node) for placed in state.closed if depends_on(placed, node)]
    problems += [_active_problem(state, state.active, node)] if state.active else []
    problems += [_members_problem(state, node)]
    found = [problem for problem in problems if problem]
    return found or _table_problems(state, node, placement)


def _table_problems(state: ClusterState, node: NodeId, placement: Callable[[Segment], Placement | None]) -> list[str]:
    """Problems that the first amendment of a drain would raise."""
    try:
        WithdrawRoles(node=node, placement=placement).amend(state.register)
    except InvalidSettingError as error:
        return [str(error)]
    return []


def _closed_problem(state: ClusterState, placed: PlacedSegment, node: NodeId) -> str:
    name, copies = spell(placed.segment), len(placed.placement.servers)
    if state.bare_groups(placed):
        return f"{name}: no node that answers has a copy"
    if not state.spares(placed, without=[node]):
        return f"{name}: {copies - 1} of {copies} copies would be left, and no spare node lives"
    return ""


def _active_problem(state: ClusterState, active: PlacedSegment, node: NodeId) -> str:
    others = [other for other, roles in state.living.items() if active.placement.role in roles and other != node]
    wanted = len(active.placement.servers)
    if depends_on(active, node) and len(others) < wanted:
        return f"the open segment: {wanted} servers are wanted, and without node {node} {len(others)} live"
    return ""


def _members_problem(state: ClusterState, node: NodeId) -> str:
    """The problem with the MetaStore's seats, or "". Drained nodes leave their seats to others as well."""
    members = state.register.members
    leaving = {*drained_members(state.register), *({node} & set(members))}
    free = [other for other in state.seatable if other != node]
    if leaving and len(free) < len(leaving):
        left, which = len(members) - len(leaving) + len(free), "no" if not free else f"only {len(free)}"
        return f"the MetaStore: {left} of {len(members)} members would be left, and {which} other node can take a seat"
    return ""


def servers_without(
    state: ClusterState, placed: PlacedSegment, node: NodeId, unfit: Collection[NodeId] = ()
) -> tuple[NodeId, ...] | None:
    """The servers of a closed segment, with a spare node that is not `unfit` in place of this one. None if there is no such node."""
    spares = state.spares(placed, without=[node, *unfit])
    return tuple(sorted({*placed.placement.servers, spares[0]} - {node})) if spares else None


def seat_problems(state: ClusterState, node: NodeId) -> list[str]:
    """Reasons why the register needs the vote of a node: without it no change is possible, not even to a new directory."""
    members, voting = state.register.members, state.living.keys() - state.closed_acceptors
    left = [member for member in members if member in voting and member != node]
    if node not in members or 2 * len(left) > len(members):
        return []
    return [f"the MetaStore: without node {node} {len(left)} of its {len(members)} members answer"]


def copies_problems(state: ClusterState, node: NodeId) -> list[str]:
    """Problems: data that could be lost with the data directory of a node."""
    problems = [
        f"{spell(segment)}: the node asked cannot read where its {segment.kind} loglet is" for segment in state.unknown
    ]
    for placed in state.placed:
        for group in state.thin_groups(placed, node):
            left, wanted = len((state.holders(placed) - {node}).intersection(group)), sufficient_copies(group)
            problems.append(
                f"{spell(placed.segment)}: no other node that answers has a copy"
                if not left
                else f"{spell(placed.segment)}: {left} whole copies would be left, and {wanted} are needed to have all of it"
            )
    return problems


def database_problems(state: ClusterState, node: NodeId) -> list[str]:
    """Reasons why the database needs the data directory of a node: replicas have trimmed the log below their own state."""
    register = state.register
    left = [
        name
        for name in state.replicas
        if (entry := register.nodes.get(node_of(name))) is not None
        and entry.roles
        and node_of(name) != node
        and name == replica_name(node_of(name), entry.store_id)
    ]
    if left or not any(node_of(name) == node for name in state.replicas):
        return []
    return [f"the database: no other node in use has a replica of it; node {node} has the last one"]


def missing_copies_on(state: ClusterState, node: NodeId) -> Sequence[PlacedSegment]:
    """The segments of which the node should have a copy and, on its present data directory, has none."""
    return [
        placed
        for placed in state.placed
        if node in lost_copies(state.register, placed.segment, placed.placement.servers)
    ]


def spell(segment: Segment) -> str:
    """A segment in messages."""
    return f"segment {segment.id} ({segment.start} to {'now' if segment.stop is None else segment.stop})"
