"""The log of Mesos, used by itself, over ports. `standalone.open_log` makes one on a real machine, a `Writer` (`writer.py`) appends, a
`Reader` (`reader.py`) reads.

    async with open_log("data/1", node=1, quorum=2, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052", "3@127.0.0.1:5053"]) as log:
        writer = Writer(log)
        while await writer.start() is None: ...      another writer was faster: try again, or leave it to him
        position = await writer.append(b"hello")     None: maybe; start again and look

One process is one replica, and reads from it. Any of them may write, one at a time: who starts last turns the others out. The
log elects nobody; its users do.

Source: Mesos, `include/mesos/log/log.hpp`, `src/log/log.cpp`. Departures: a Writer that got None writes no more before it is
started again (defect 3 of docs/internals/sources.md); it may have several appends under way; what Mesos fails with texts are classes here.
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
from virtuallog_loglets.paxos.drivers.replica_maintenance import maintain_replica
from virtuallog_loglets.paxos.drivers.replica_service import LocalReplica, ReplicaService
from virtuallog_loglets.paxos.messages import Status
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork

# FOLDED from virtuallog_loglets.paxos.identity: Where something lies in a log that is used by itself, as its users see it.                                          Pure.
#
# Source: Mesos, `include/mesos/log/log.hpp`.

_IDENTITY: Final = struct.Struct(">Q")


@attrs.frozen(order=True)
class Position:
    """A place in the log. Opaque but for its order."""

    value: int
    """For whoever looks at the log with other tools."""

    def identity(self) -> bytes:
        """Eight bytes that name it for ever; in the order of the positions."""
        return _IDENTITY.pack(self.value)

    @classmethod
    def from_identity(cls, identity: bytes) -> Position:
        """What `identity` was made from.

        Raises:
            MalformedError: it is none.
        """
        if len(identity) != _IDENTITY.size:
            raise MalformedError(f"the identity of a position has {_IDENTITY.size} bytes, this one {len(identity)}")
        return cls(_IDENTITY.unpack(identity)[0])

    def __str__(self) -> str:
        return str(self.value)


SEGMENT: Final = SegmentId(0, 0)
"""Of a log that has its store for itself. No chain has it: their versions begin at 1."""
OUTSTANDING_MAX: Final = 64
"""Writes that one writer has under way: one at the replicas, the others wait for it."""
LOOK_SECONDS: Final = 0.02
"""Between two looks whether the replica votes; to recover takes some round trips and syncs."""


@attrs.define(eq=False)
class Log:
    """One replica, and the log as it is seen from there. Made by `start`."""

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
        """Open the replica's store, and begin to recover. On return `handlers` can be served.

        Args:
            environment: of this replica; its nursery owns what runs here.
            network: who takes part, this replica among them.
            segment: tells apart the logs that share a store.
            auto_initialize: replicas that know nothing may found the log, once all 2 * quorum - 1 are there and none knows more.
                A log all of whose disks were lost is then an empty one.
            metrics_prefix: before the names of the figures, so that those of several logs differ.

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
        """What other replicas ask of this one."""
        return self._service.handlers

    @property
    def own(self) -> LogMember:
        """This replica, as others find it."""
        return next(member for member in self.network.members if member.node == self.environment.node)

    @property
    def failure(self) -> VirtualLogError | None:
        """What has ended this log, for good."""
        return self._failure

    async def recovered(self) -> None:
        """Return once the local replica votes; until then nothing can be read or written here.

        Raises:
            VirtualLogError: it never will: what has ended this log.
        """
        await self._recovered.wait()
        if self._failure is not None:
            raise copy(self._failure)

    async def ended(self) -> VirtualLogError:
        """Return what has ended this log, once something has."""
        await self._ended.wait()
        assert self._failure is not None
        return self._failure

    def position(self, identity: bytes) -> Position:
        """The inverse of `Position.identity`."""
        return Position.from_identity(identity)

    def metrics(self) -> Sequence[MetricFamily]:
        """See `virtuallog.contract.metrics.MetricsSource`. Keep quorum <= ensemble size < 2 * quorum."""
        votes = self.replica.core.status is Status.VOTING
        return [
            *metrics.standalone_families(f"{self._metrics_prefix}log", votes, self.network.size),
            *self._service.metrics(),
        ]

    def fail(self, error: BaseException) -> None:
        """End this log: whoever waits, and whoever comes, is told `error`. What virtuallog did not raise on purpose is a bug,
        and ends the nursery as well."""
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
