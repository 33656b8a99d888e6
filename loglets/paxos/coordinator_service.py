"""Runs the coordinators of a node, one beside each local replica."""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from loglets.paxos.replica_service import LocalReplica, ReplicaService
from virtuallog.chain import SegmentId
from virtuallog.ports import Handlers, NodeEnvironment


@attrs.define(eq=False)
class CoordinatorService:
    """Requests to coordinators, each to the one of its segment."""

    _environment: NodeEnvironment
    _replicas: Callable[[], ReplicaService]
    """Of the same node. A callable, as each of the two is told of the other."""

    @property
    def handlers(self) -> Handlers:
        """Append, Seal, Truncate, Settle."""
        raise NotImplementedError

    def made(self, replica: LocalReplica) -> None:
        """A replica is there: a coordinator is, too, from now on. Nothing happens before the first request."""
        raise NotImplementedError

    @property
    def positions_in_flight(self) -> list[int]:
        """Of each coordinator here that leads: for the meter."""
        raise NotImplementedError

    def forget(self, lowest_live_version: int) -> None:
        """Drop what belongs to earlier versions; none of it is made again."""
        raise NotImplementedError

    def forget_others(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Drop what belongs to versions up to `horizon`, but for `live`."""
        raise NotImplementedError
