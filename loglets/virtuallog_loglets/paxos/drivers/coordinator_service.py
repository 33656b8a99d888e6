"""Coordinators of a node, one beside each local replica that a client appends to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OverloadedError, SealedError, VirtualLogError
from virtuallog.contract.ports import Done, Handlers, NodeEnvironment
from virtuallog_loglets.paxos.drivers.coordinator_driver import CoordinatorDriver
from virtuallog_loglets.paxos.drivers.coordinator_requests import CoordinatorRequests
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.drivers.replica_service import ReplicaService
from virtuallog_loglets.paxos.messages import PaxosAppend, PaxosSeal, PaxosSettle, PaxosTruncate

EARLY_MAX: Final = 256
"""Cap on requests of a segment that wait while the chain is asked whether there is a replica here."""
EARLY_SEGMENTS_MAX: Final = 32
"""Cap on segments that the chain is asked about at a time. There is one active segment; more are made up."""

_Request: TypeAlias = PaxosAppend | PaxosSeal | PaxosTruncate | PaxosSettle
_Early: TypeAlias = list[tuple[_Request, Done]]


@attrs.define(eq=False)
class CoordinatorService:
    """Dispatches requests to the coordinator of their segment."""

    _environment: NodeEnvironment
    _replicas: Callable[[], ReplicaService]
    """Returns the ReplicaService of the same node. A callable, as the two services refer to each other."""
    _known: dict[SegmentId, LocalReplica] = attrs.field(factory=dict, init=False)
    """Replicas of this node."""
    _coordinator_requests: dict[SegmentId, CoordinatorRequests] = attrs.field(factory=dict, init=False)
    """Coordinators that were asked for so far."""
    _early: dict[SegmentId, _Early] = attrs.field(factory=dict, init=False)
    """Requests that arrived before their replica was made."""
    _lowest_live_version: int = attrs.field(default=0, init=False)

    @property
    def handlers(self) -> Handlers:
        """Handlers of `PaxosAppend`, `PaxosSeal`, `PaxosTruncate` and `PaxosSettle`."""
        return dict.fromkeys((PaxosAppend, PaxosSeal, PaxosTruncate, PaxosSettle), self._request)

    @property
    def positions_in_flight(self) -> list[int]:
        """Positions in flight of each coordinator here that leads, for the metrics."""
        return [int(driver.core.has_write_in_flight) for driver in self.drivers if driver.is_leading]

    @property
    def drivers(self) -> list[CoordinatorDriver]:
        """Drivers of all coordinators here, for tools that inspect them."""
        return [requests.driver for requests in self._coordinator_requests.values()]

    def made(self, replica: LocalReplica) -> None:
        """Register a replica.

        Its coordinator is made at the first request: most logs are closed and never need one.
        """
        self._known[replica.segment] = replica

    def forget(self, lowest_live_version: int) -> None:
        """Drop coordinators of versions below `lowest_live_version`, for good."""
        self._lowest_live_version = max(self._lowest_live_version, lowest_live_version)
        self._drop(self._is_dropped)

    def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Drop coordinators of versions up to `horizon` except `live`.

        If one is asked for again, the chain is consulted.
        """
        self._drop(lambda segment: segment.version <= horizon and segment not in live)

    def _drop(self, is_dropped: Callable[[SegmentId], bool]) -> None:
        for segment in [segment for segment in self._known if is_dropped(segment)]:
            del self._known[segment]
        for segment in [segment for segment in self._coordinator_requests if is_dropped(segment)]:
            self._coordinator_requests.pop(segment).stop(SealedError(f"loglet {segment} has been dropped"))

    def _is_dropped(self, segment: SegmentId) -> bool:
        return segment.version < self._lowest_live_version

    def _request(self, request: _Request, done: Done) -> None:
        segment = request.segment
        requests = self._coordinator_requests.get(segment)
        if requests is not None:
            requests.request(request, done)
        elif self._is_dropped(segment):
            done(SealedError(f"loglet {segment} has been dropped", refused=True))
        elif (replica := self._known.get(segment)) is not None:
            self._make(replica).request(request, done)
        elif segment not in self._early and len(self._early) < EARLY_SEGMENTS_MAX:
            self._early[segment] = [(request, done)]
            self._environment.nursery.start_soon(self._find, segment)
        elif segment in self._early and len(self._early[segment]) < EARLY_MAX:
            self._early[segment].append((request, done))
        else:
            done(OverloadedError("the coordinator is not ready yet"))

    def _make(self, replica: LocalReplica) -> CoordinatorRequests:
        assert replica.segment not in self._coordinator_requests, "a replica has one coordinator"
        requests = self._coordinator_requests[replica.segment] = CoordinatorRequests(replica, self._environment)
        self._environment.nursery.start_soon(requests.driver.run)
        return requests

    async def _find(self, segment: SegmentId) -> None:
        """Have the replica made if the decided chain names it.

        Runs in a service task, as callers may give up meanwhile.
        """
        try:
            replica = await self._replicas().replica(segment)
            if self._is_dropped(segment):
                raise SealedError(f"loglet {segment} has been dropped", refused=True)
        except VirtualLogError as error:
            for _, done in self._early.pop(segment):
                done(error)
            return
        self._known[segment] = replica
        for request, done in self._early.pop(segment):
            self._request(request, done)
