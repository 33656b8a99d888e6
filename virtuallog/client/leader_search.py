"""Search of a client for the leader.

There are no heartbeats. A node that is asked does the work, or names a node that may lead (*elsewhere*), or does not
answer. A client follows such hints. It *insists* only if a hint leads nowhere: to no node, back to a node that just
denied it, or to a node that has just not answered. Insisting makes a node stand for election and turns out the leader.
If every client that loses an answer did that at once, each at another node, no leader would last.

Nodes of some kinds elect a leader by themselves. There a request that does not insist goes from node to node until one of
them leads, or names the leader: a node that is cut off from the others knows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.types import NodeId

SILENT_SECONDS: Final = 2.0
"""Time for which hints to a node that did not answer are not followed: as long as other nodes may take to notice."""


@attrs.frozen
class LeaderTarget:
    """Node to ask next."""

    node: NodeId
    insist: bool = False


@attrs.define(eq=False)
class LeaderCache:
    """The leader as one client knows it, shared by all its requests."""

    replicas: Sequence[NodeId]
    leader: NodeId
    """Node that is asked first."""
    _silent: dict[NodeId, float] = attrs.field(factory=dict, init=False)
    """Times until which nodes count as silent."""

    def search(self, *, insists: bool = True) -> LeaderSearch:
        """Start the search of one request.

        Args:
            insists: False for a request that makes no node stand for election.
        """
        return LeaderSearch(self, insists)

    def answered(self, node: NodeId) -> None:
        self._silent.pop(node, None)

    def failed(self, node: NodeId, now: float) -> NodeId:
        """Note that `node` did not answer, and return the node to ask instead.

        That is the next replica, the same for all clients, or the leader that another request has found meanwhile.
        """
        self._silent[node] = now + SILENT_SECONDS
        return self.passed(node, now)

    def passed(self, node: NodeId, now: float) -> NodeId:
        """Note that `node` does not lead and knows no leader, and return the node to ask instead, as `failed` does."""
        if self.leader == node:
            ring = [*self.replicas]
            at = ring.index(node) + 1 if node in ring else 0
            others = [*ring[at:], *ring[:at]]
            self.leader = next((other for other in others if not self.is_silent(other, now)), others[0])
        return self.leader

    def is_silent(self, node: NodeId, now: float) -> bool:
        return self._silent.get(node, now) > now


@attrs.define(eq=False)
class LeaderSearch:
    """Search of one request: names the next node to ask after each outcome. The caller decides when to stop."""

    _shared: LeaderCache
    _insists: bool = True
    _passed: set[NodeId] = attrs.field(factory=set, init=False)
    """Nodes that have named another leader since a node last failed to answer."""

    def begin(self) -> LeaderTarget:
        return LeaderTarget(self._shared.leader)

    def taken(self, node: NodeId) -> None:
        """Note that `node` did the work, so it leads."""
        self._shared.answered(node)
        self._shared.leader = node

    def elsewhere(self, node: NodeId, named: NodeId, now: float) -> LeaderTarget:
        """Note that `node` does not lead and names `named`; returns the next node to ask."""
        shared = self._shared
        shared.answered(node)
        self._passed.add(node)
        if named not in shared.replicas or named in self._passed or shared.is_silent(named, now):
            return LeaderTarget(node, insist=True) if self._insists else LeaderTarget(shared.passed(node, now))
        shared.leader = named
        return LeaderTarget(named)

    def failed(self, node: NodeId, now: float) -> LeaderTarget:
        """Note that `node` did not answer or could not do the work; returns the next node to ask."""
        self._passed.clear()
        return LeaderTarget(self._shared.failed(node, now))
