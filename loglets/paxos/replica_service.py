"""Runs all replicas of a node over one store, with group commit."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import attrs

from loglets.paxos.digest import Digest
from loglets.paxos.ensemble import Ensemble
from loglets.paxos.messages import Incarnations, Records, Standing, Status
from loglets.paxos.replica import Replica
from virtuallog.chain import SegmentId
from virtuallog.errors import VirtualLogError
from virtuallog.ports import Handlers, NodeEnvironment, Request

ReplyT = TypeVar("ReplyT")


@attrs.define(eq=False)
class LocalReplica:
    """A replica of this node, for the parts of the same node."""

    segment: SegmentId
    ensemble: Callable[[], Ensemble]
    core: Replica
    """To look at. What it says may not be durable yet."""

    async def perform(self, request: Request[ReplyT]) -> ReplyT:
        """What a remote caller would be answered; durable on return. Cancelling the wait does not undo it.

        Raises:
            UnavailableError, OverloadedError, DiskFullError, StorageError: see there.
        """
        raise NotImplementedError

    def post(self, request: Request[ReplyT], done: Callable[[ReplyT | VirtualLogError], None]) -> None:
        """The same without waiting. The core has taken the request in when this returns, so a coordinator that tells it what is
        decided can be read from at once; `done` is told once it is durable. Costs no task."""
        raise NotImplementedError

    async def read(self, first: int, stop: int, max_bytes: int) -> Records:
        """See `ReadRecords`."""
        raise NotImplementedError

    async def wait_learned(self, past: int) -> Standing:
        """See `WaitLearned`."""
        raise NotImplementedError

    async def wait_missing(self) -> Standing:
        """Return once a position up to `end` is not known to be decided here: at once, if that is so now. For the keeper; costs
        nothing while it waits."""
        raise NotImplementedError

    async def adopt(
        self, status: Status, promised: int = 0, begin: int = 0, trim: int = 0, incarnations: Incarnations = ()
    ) -> None:
        """Recovery: take on a status, durable on return. `promised`, `begin` and `trim` only go up."""
        raise NotImplementedError

    async def digest(self) -> Digest:
        """Of all that is learned without a hole, `core.learned`; a copy that is the caller's."""
        raise NotImplementedError


@attrs.define(eq=False)
class ReplicaService:
    """All replicas of one node."""

    @classmethod
    async def start(
        cls, environment: NodeEnvironment, made: Callable[[LocalReplica], None] = lambda replica: None
    ) -> ReplicaService:
        """Open the store; ready for requests on return.

        Args:
            environment: of the node.
            made: told of each replica that votes or is to recover: once when it is there, found in the store or new.
        """
        raise NotImplementedError

    @property
    def handlers(self) -> Handlers:
        raise NotImplementedError

    async def replica(self, segment: SegmentId) -> LocalReplica:
        """The replica of the segment here; it is made if the chain says that this node is one of its replicas.

        Raises:
            SealedError: the segment has been dropped.
            UnavailableError: the chain cannot be read, or names no replica here.
        """
        raise NotImplementedError

    def add(self, segment: SegmentId, ensemble: Callable[[], Ensemble], status: Status) -> LocalReplica:
        """The replica of a log used by itself; `status` is that of one which the store does not know."""
        raise NotImplementedError

    async def forget(self, lowest_live_version: int) -> None:
        raise NotImplementedError

    async def forget_others(self, horizon: int, live: Collection[SegmentId]) -> None:
        raise NotImplementedError
