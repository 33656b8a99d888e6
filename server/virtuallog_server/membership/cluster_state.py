"""Snapshots of the cluster, on which changes of nodes are decided: the register, the living nodes, the places of loglets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from virtuallog.admin.cluster_status import call_each
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.provider import ReportsPartialCopies, replicated
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog_database.control.messages import DatabaseStatus, GetDatabaseStatus
from virtuallog_server.healing.core.healing_policy import PlacedSegment
from virtuallog_server.healing.healer import placed_segments
from virtuallog_server.membership.safety import ClusterState, depends_on

Survey: TypeAlias = Callable[[Register], Awaitable[Cluster]]
"""Asks every node of the register for its status."""


async def read_cluster_state(log: VirtualLog, survey: Survey) -> ClusterState:
    """Read the state of this moment.

    Raises:
        UnavailableError: the register cannot be read.
    """
    register = await log.view.refresh()
    cluster = await survey(register)
    placed = placed_segments(log.view, register)
    legible = {one.segment.id for one in placed}
    return ClusterState(
        register=register,
        living={member.node: member.roles for member in cluster.members if member.alive},
        closed_acceptors=frozenset(member.node for member in cluster.members if not member.votes),
        placed=placed,
        unknown=[
            segment
            for segment in register.chain.segments
            if segment.id not in legible and not _is_elsewhere(log.view.providers.get(segment.kind))
        ],
    )


async def read_state_with_copies(log: VirtualLog, state: ClusterState) -> ClusterState:
    """Extend a state by the copies that servers report as incomplete, for kinds that can report that.

    Takes a round of questions for each segment of such a kind: only before something is given up.
    """
    partial: dict[SegmentId, frozenset[NodeId]] = {}
    for placed in state.placed:
        segment = placed.segment
        provider: object = log.view.providers.get(segment.kind)
        if isinstance(provider, ReportsPartialCopies):
            partial[segment.id] = frozenset(
                await provider.partial_copies(segment.id, segment.config, log.view.environment)
            )
    return attrs.evolve(state, partial=partial)


async def read_state_with_replicas(log: VirtualLog, state: ClusterState) -> ClusterState:
    """Extend a state by the view of the database, from the replica that has applied most among those that answer."""
    if not state.register.database:
        return state
    answers = await call_each(log.view.environment.services, sorted(state.register.nodes), GetDatabaseStatus())
    found = [answer for answer in answers.values() if not isinstance(answer, VirtualLogError)]
    newest = max(found, key=lambda status: status.cursor, default=DatabaseStatus(state=""))
    return attrs.evolve(state, replicas=tuple(member.name for member in newest.members))


def _is_elsewhere(provider: object) -> bool:
    return provider is not None and replicated(provider) is None


def placement_of(log: VirtualLog) -> Callable[[Segment], Placement | None]:
    """A function from a segment to the place of its loglet. None if that is not on nodes, or its config cannot be read."""

    def placement(segment: Segment) -> Placement | None:
        provider = replicated(log.view.providers.get(segment.kind))
        try:
            return None if provider is None else provider.placement(segment.config)
        except MalformedError:
            return None

    return placement


def user_of(log: VirtualLog, node: NodeId) -> Callable[[Segment], bool]:
    """A function that is true for a segment that needs the node. It may need any node if its kind or config cannot be read here."""
    placement = placement_of(log)

    def is_used(segment: Segment) -> bool:
        if _is_elsewhere(log.view.providers.get(segment.kind)):
            return False
        found = placement(segment)
        return found is None or depends_on(PlacedSegment(segment, found), node)

    return is_used
