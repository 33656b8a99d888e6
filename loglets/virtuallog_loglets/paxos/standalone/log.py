"""The log of Mesos used by itself, over ports. `facade.open_log` makes one on a real machine.

A `LogWriter` (`writer.py`) appends, a `LogReader` (`reader.py`) reads.

    async with open_log("data/1", node=1, quorum=2, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052", "3@127.0.0.1:5053"]) as log:
        writer = LogWriter(log)
        while await writer.start() is None: ...      another writer was faster: try again, or leave the log to it
        position = await writer.append(b"hello")     None: maybe; start again and look

One process is one replica and reads from it. Any process may write, one at a time: the writer that starts last turns the
others out. The log elects no writer; its users do.

Source: Mesos, `include/mesos/log/log.hpp` (also for `Position`), `src/log/log.cpp`. Departures: a writer that got None
writes nothing before it is started again (defect 3 of docs/internals/sources.md); it may have several appends in flight; where Mesos
fails with texts, there are error classes here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError, StorageError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Handlers, NodeEnvironment
from virtuallog_loglets.paxos import metrics
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.drivers.replica_maintenance import maintain_replica
from virtuallog_loglets.paxos.drivers.replica_service import ReplicaService
from virtuallog_loglets.paxos.messages import Status
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork

SEGMENT: Final = SegmentId(0, 0)
"""Id of a log that has its store for itself. No chain contains it: their versions begin at 1."""
OUTSTANDING_MAX: Final = 64
"""Cap on writes in flight per writer: one is at the replicas, the others wait for it."""
LOOK_SECONDS: Final = 0.02
"""Pause between two looks at whether the replica votes; recovery takes some round trips and syncs."""
_IDENTITY: Final = struct.Struct(">Q")


@attrs.define(eq=False)
class Log:
    """A log as seen from its replica in this process. Made by `start`."""

    network: LogNetwork
    replica: LocalReplica
    environment: NodeEnvironment
    _service: ReplicaService
    _metrics_prefix: str
    _recovered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _failure: VirtualLogError | None = attrs.field(default=None, init=False)
    _bug: BaseException | None = attrs.field(default=None, init=False)
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    @classmethod
    async def start(
        cls,
        environment: NodeEnvironment,
        network: LogNetwork,
        *,
        segment: SegmentId = SEGMENT,
        auto_initialize: bool = False,
        metrics_prefix: str = "",
    ) -> Log:
        """Open the replica's store and begin to recover. On return `handlers` can be served.

        Args:
            environment: the environment of this replica; its nursery owns all tasks of the log.
            network: the members, this replica among them.
            segment: distinguishes logs that share a store.
            auto_initialize: EMPTY replicas may found the log, once all 2 * quorum - 1 are there and none knows more. A log
                that has lost all its disks then becomes an empty log.
            metrics_prefix: prefix of metric names, so that those of several logs differ.

        Raises:
            CorruptionError, StorageError: the store cannot be used.
        """
        logs: list[Log] = []

        def fail(error: BaseException) -> None:
            for log in logs:
                log.fail(error)

        environment = attrs.evolve(environment, fail=fail)
        service = await ReplicaService.start(environment)
        replica = service.add(segment, network.ensemble, Status.EMPTY)
        log = cls(network, replica, environment, service, metrics_prefix)
        logs.append(log)
        kept = partial(maintain_replica, replica, network.ensemble, environment, auto_initialize=auto_initialize)
        for task in (kept, log._watch_recovery, log._watch_bugs):
            environment.nursery.start_soon(task)
        return log

    @property
    def handlers(self) -> Handlers:
        """Handlers of requests from other replicas."""
        return self._service.handlers

    @property
    def own(self) -> LogMember:
        """This replica as a member of the network."""
        return next(member for member in self.network.members if member.node == self.environment.node)

    @property
    def has_room(self) -> bool:
        """False if the disk of the local replica is nearly full: then it takes no entries."""
        return self._service.has_room

    @property
    def failure(self) -> VirtualLogError | None:
        """Error that has ended this log for good; None while it runs."""
        return self._failure

    async def recovered(self) -> None:
        """Return once the local replica votes; until then nothing can be read or written here.

        Raises:
            VirtualLogError: the log has ended with this error.
        """
        await self._recovered.wait()
        if self._failure is not None:
            raise copy(self._failure)

    async def ended(self) -> VirtualLogError:
        """Wait until this log has ended and return the error."""
        await self._ended.wait()
        assert self._failure is not None
        return self._failure

    def position(self, identity: bytes) -> Position:
        """Position that `identity` names: the inverse of `Position.identity`."""
        return Position.from_identity(identity)

    def metrics(self) -> Sequence[MetricFamily]:
        """Metrics of this log; see `virtuallog.contract.metrics.MetricsSource`.

        Keep quorum <= ensemble size < 2 * quorum.
        """
        votes = self.replica.core.status is Status.VOTING
        return [
            *metrics.standalone_families(f"{self._metrics_prefix}log", votes, self.network.size),
            *self._service.metrics(),
        ]

    def fail(self, error: BaseException) -> None:
        """End this log: all waiting and later calls raise `error`.

        An error that is no VirtualLogError is a bug, and ends the nursery as well.
        """
        if self._failure is None:
            self._failure = error if isinstance(error, VirtualLogError) else StorageError(f"a bug: {error!r}")
            self._bug = None if isinstance(error, VirtualLogError) else error
            self._recovered.set()
            self._ended.set()

    async def _watch_recovery(self) -> None:
        while self.replica.core.status is not Status.VOTING:
            await self.environment.clock.sleep(LOOK_SECONDS)
        self._recovered.set()

    async def _watch_bugs(self) -> None:
        await self._ended.wait()
        if self._bug is not None:
            raise self._bug


@attrs.frozen(order=True)
class Position:
    """Position of an entry in a log used by itself. Opaque except for its order."""

    value: int
    """Number of the position, for tools that inspect the log."""

    def identity(self) -> bytes:
        """Eight bytes that name the position for ever and sort like positions."""
        return _IDENTITY.pack(self.value)

    @classmethod
    def from_identity(cls, identity: bytes) -> Position:
        """Position that `identity` names.

        Raises:
            MalformedError: `identity` has not eight bytes.
        """
        if len(identity) != _IDENTITY.size:
            raise MalformedError(f"the identity of a position has {_IDENTITY.size} bytes, this one {len(identity)}")
        return cls(_IDENTITY.unpack(identity)[0])

    def __str__(self) -> str:
        return str(self.value)
