"""Whom a client asks for what only a leader does.                                                                  Pure.

There are no heartbeats. A node that is asked does it, or says who may lead (`elsewhere`), or says nothing. A client follows
what it is told, and *insists* only where a hint leads nowhere: to nobody, back to who just said otherwise, or to who has just
not answered. To insist makes a node stand for election and turns out whoever leads. If every client that loses an answer
did that at once, each at another node, nobody would lead for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.types import NodeId

SILENT_SECONDS: Final = 2.0
"""For so long a hint to a node that did not answer is not followed: as long as others may take to notice."""


@attrs.frozen
class LeaderTarget:
    """Whom to ask next."""

    node: NodeId
    insist: bool = False


@attrs.define(eq=False)
class LeaderCache:
    """What one client knows of who leads; all its requests share it."""

    replicas: Sequence[NodeId]
    leader: NodeId
    """Who is asked first."""
    _silent: dict[NodeId, float] = attrs.field(factory=dict, init=False)
    """Until when each counts as silent."""

    def search(self) -> LeaderSearch:
        """The way of one request to whoever leads."""
        return LeaderSearch(self)

    def answered(self, node: NodeId) -> None:
        self._silent.pop(node, None)

    def failed(self, node: NodeId, now: float) -> NodeId:
        """No answer from `node`: who is to be asked instead. That is the next replica, for all clients alike, or whoever
        another request of this one has found meanwhile."""
        self._silent[node] = now + SILENT_SECONDS
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
    """See `LeaderCache.search`. After each answer, or none, it says whom to ask next; the caller asks as long as it likes."""

    _shared: LeaderCache
    _passed: set[NodeId] = attrs.field(factory=set, init=False)
    """Who has said that another one leads, since somebody last did not answer."""

    def begin(self) -> LeaderTarget:
        return LeaderTarget(self._shared.leader)

    def taken(self, node: NodeId) -> None:
        """It did what was asked, so it leads."""
        self._shared.answered(node)
        self._shared.leader = node

    def elsewhere(self, node: NodeId, named: NodeId, now: float) -> LeaderTarget:
        """It does not lead; it thinks that `named` may."""
        shared = self._shared
        shared.answered(node)
        self._passed.add(node)
        if named not in shared.replicas or named in self._passed or shared.is_silent(named, now):
            return LeaderTarget(node, insist=True)
        shared.leader = named
        return LeaderTarget(named)

    def failed(self, node: NodeId, now: float) -> LeaderTarget:
        """It did not answer, or could not do it."""
        self._passed.clear()
        return LeaderTarget(self._shared.failed(node, now))
