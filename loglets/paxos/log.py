"""The log of Mesos, used by itself, over ports: `Log` and `Reader`. `standalone.open_log` makes one on a real machine, a `Writer`
(`writer.py`) appends.

    async with open_log("data/1", node=1, quorum=2, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052", "3@127.0.0.1:5053"]) as log:
        writer = Writer(log)
        while await writer.start() is None: ...      another writer was faster: try again, or leave it to him
        position = await writer.append(b"hello")     None: maybe; start again and look

One process is one replica, and reads from it. Any of them may write, one at a time: who starts last turns the others out. The
log elects nobody; its users do.

Source: Mesos, `include/mesos/log/log.hpp`, `src/log/log.cpp`. Departures: a Writer that got None writes no more before it is
started again (defect 3 of docs/sources.md); it may have several appends under way; what Mesos fails with texts are classes here.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Final

import attrs
import trio

from loglets.paxos import metrics
from loglets.paxos.catch_up import catch_up_voting
from loglets.paxos.keeper import keep
from loglets.paxos.messages import Record, Status
from loglets.paxos.network import Member, Network
from loglets.paxos.replica_service import LocalReplica, ReplicaService
from loglets.paxos.values import Kind, kind_of, payload_of
from virtuallog.chain import SegmentId
from virtuallog.errors import MalformedError, StorageError, TerminalError, VirtualLogError
from virtuallog.metrics import Family
from virtuallog.ports import Handlers, NodeEnvironment

SEGMENT: Final = SegmentId(0, 0)
"""Of a log that has its store for itself. No chain has it: their versions begin at 1."""
READ_BYTES: Final = 1 << 20
"""Of values, in one look at the store."""
OUTSTANDING_MAX: Final = 64
"""Writes that one writer has under way: one at the replicas, the others wait for it."""
LOOK_SECONDS: Final = 0.02
"""Between two looks whether the replica votes; to recover takes some round trips and syncs."""
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


@attrs.frozen
class Entry:
    """What somebody appended."""

    position: Position
    data: bytes


class BadRange(enum.Enum):
    """What is wrong with a range to read, in the words of Mesos."""

    REVERSED = "to < from"
    TRUNCATED = "truncated position"
    PAST_END = "past end of log"
    PENDING = "includes pending entries"
    MISSING = "includes missing entries"


@attrs.define
class ReadRangeError(TerminalError):
    """This replica cannot read that range. PENDING and MISSING end with `Reader.catchup`, or by themselves after a while."""

    reason: BadRange

    def __str__(self) -> str:
        return f"Bad read range ({self.reason.value})"


@attrs.define(eq=False)
class Log:
    """One replica, and the log as it is seen from there. Made by `start`."""

    network: Network
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
        network: Network,
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
        kept = partial(keep, replica, network.ensemble, environment, auto_initialize=auto_initialize)
        for task in (kept, log._watch_recovery, log._watch_bugs):
            environment.nursery.start_soon(task)
        return log

    @property
    def handlers(self) -> Handlers:
        """What other replicas ask of this one."""
        return self._service.handlers

    @property
    def own(self) -> Member:
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

    def metrics(self) -> Sequence[Family]:
        """See `virtuallog.metrics.Measured`. Keep quorum <= ensemble size < 2 * quorum."""
        votes = self.replica.core.status is Status.VOTING
        return [*metrics.alone(f"{self._metrics_prefix}log", votes, self.network.size), *self._service.metrics()]

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


@attrs.define(eq=False)
class Reader:
    """Reads what the local replica has learned. Any number of them, at any time."""

    _log: Log

    async def beginning(self) -> Position:
        """The first position that is not truncated, as far as the local replica knows."""
        await self._log.recovered()
        return Position(self._log.replica.core.begin)

    async def ending(self) -> Position:
        """The last position that the local replica knows of. Others may know of later ones."""
        await self._log.recovered()
        return Position(self._log.replica.core.end)

    async def read(self, start: Position, end: Position) -> list[Entry]:
        """What was appended from `start` through `end`, both included.

        Raises:
            ReadRangeError: not all of it is here.
        """
        await self._log.recovered()
        first, stop, entries = start.value, end.value + 1, list[Entry]()
        if (wrong := self._fault(first, stop)) is not None:
            raise ReadRangeError(wrong)
        while first < stop:
            found = (await self._log.replica.read(first, stop, READ_BYTES)).records
            if not found:  # it was there a moment ago
                raise ReadRangeError(self._fault(first, stop) or BadRange.TRUNCATED)
            entries += (Entry(Position(each.position), payload_of(each.value)) for each in found if _is_data(each))
            first = found[-1].position + 1
        return entries

    async def catchup(self) -> Position:
        """Learn what others know; returns the last position up to which all can be read now. The very last position of the
        log is left alone, as somebody may be writing it. What others truncate meanwhile cannot be read: look at `beginning`.

        Raises:
            UnavailableError: not enough replicas answered, or there is nothing yet but one position.
        """
        log = self._log
        await log.recovered()
        return Position(await catch_up_voting(log.replica, log.network.ensemble, log.environment))

    def _fault(self, first: int, stop: int) -> BadRange | None:
        core = self._log.replica.core
        if stop <= first:
            return BadRange.REVERSED
        if first < core.begin:
            return BadRange.TRUNCATED
        if stop > core.end + 1:
            return BadRange.PAST_END
        missing = core.missing(first, stop)
        if not missing:
            return None
        return BadRange.MISSING if core.slots.open_record(missing[0].start) is None else BadRange.PENDING


def _is_data(record: Record) -> bool:
    return kind_of(record.value) is Kind.APPEND
