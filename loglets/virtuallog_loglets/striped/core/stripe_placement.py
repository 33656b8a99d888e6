"""Candidate nodes for a stripe whose successor is planned.

Stripes on the same servers stay together, and all others apart. If a server fails, a node that no
stripe uses takes its place, if there is one. The planner of a stripe knows nothing of other stripes
and prefers nodes with low numbers. Left alone, stripes with disjoint servers would lose a node of
their own with each failure, and end up on the same few.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.types import NodeId


def candidates(
    cluster: Cluster, role: str, stripe: int, former: Sequence[frozenset[NodeId]], chosen: Sequence[frozenset[NodeId]]
) -> Cluster:
    """Cluster as the planner of the stripe is to see it.

    Nodes of separate stripes are without the role, except for as many as it takes to have no fewer
    servers than before.

    Args:
        cluster: the cluster as it is.
        role: role that servers must have.
        stripe: number of the stripe.
        former: present servers of all stripes.
        chosen: servers of the stripes that have been planned already, from the first.
    """
    members = {member.node: member for member in cluster.members if member.alive and role in member.roles}
    others = _servers_apart(stripe, former, chosen)
    short = max(0, len(former[stripe]) - len(members.keys() - others))
    lent = sorted(members.keys() & others)[:short]
    hidden = others.difference(lent)
    return attrs.evolve(
        cluster,
        members=tuple(_without(member, role) if member.node in hidden else member for member in cluster.members),
    )


def _servers_apart(
    stripe: int, former: Sequence[frozenset[NodeId]], chosen: Sequence[frozenset[NodeId]]
) -> frozenset[NodeId]:
    apart = [number for number, servers in enumerate(former) if servers != former[stripe]]
    found = [servers[number] for servers in (former, chosen) for number in apart if number < len(servers)]
    return frozenset[NodeId]().union(*found) - former[stripe]


def _without(member: Member, role: str) -> Member:
    return attrs.evolve(member, roles=member.roles - {role})
