"""All replicas of a node over one store, with group commit below. No task per request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    MalformedError,
    OverloadedError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, DurableMap, Handlers, NodeEnvironment, Span
from virtuallog.runtime import log
from virtuallog_loglets.paxos import config
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import AnswerFromDisk, PaxosAnswer, PaxosFail, PaxosPersist, ReplicaEffect
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.validation import brings_data, check_untrusted
from virtuallog_loglets.paxos.drivers import disk_format, store_incarnation
from virtuallog_loglets.paxos.drivers.group_commit import GROUP_BYTES_MAX, GroupCommit, StoredReplica
from virtuallog_loglets.paxos.drivers.local_replica import LEARNED, LocalReplica, with_full_disk
from virtuallog_loglets.paxos.drivers.store_incarnation import StoreIncarnation
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    GetStanding,
    Learn,
    PaxosRecords,
    PaxosRecover,
    PaxosWrite,
    Promise,
    ReadRecords,
    Status,
    TrimSealed,
    WaitLearned,
)
from virtuallog_loglets.paxos.metrics import PaxosMetrics

__all__ = ["LocalReplica", "ReplicaService"]

TICK_SECONDS: Final = 0.5
"""Tick of the cores while `WaitLearned` requests are parked."""
RECLAIM_SECONDS: Final = 5.0
"""Pause before dropped positions are cleared from the disk: a second of work for each GiB."""
READERS: Final = 4
"""Concurrent reads from the disk."""
READS_MAX: Final = 256
"""Cap on queued reads; more are refused with OverloadedError."""
EARLY_MAX: Final = 256
"""Cap on requests of a segment that wait while the chain is asked whether there is a replica here."""
EARLY_SEGMENTS_MAX: Final = 32
"""Cap on segments that the chain is asked about at a time. There is one active segment; more are made up."""
REPLICAS_MAX: Final = 4096
"""Cap on replicas of a node: a register of 64 KiB names some hundred loglets."""
NO_ENSEMBLE: Final = Ensemble(members=(), quorum=0)
"""Stored with a log used by itself, and with a copy of a closed log."""

_Request: TypeAlias = Promise | PaxosWrite | Learn | PaxosRecover | GetStanding | TrimSealed | WaitLearned | ReadRecords
_Read: TypeAlias = tuple[Callable[[], Awaitable[Any]], Done]

_MADE = CrashPoint("paxos: a replica is made, nothing of it is on the disk")
_DROPPED = CrashPoint("paxos: dropped logs are durably gone, nobody has been told")
_DURABLE: Final[dict[type[Any], CrashPoint]] = {
    Promise: CrashPoint("paxos: a promise is durable at a replica, its proposer has not been told"),
    PaxosWrite: CrashPoint("paxos: a wave is durable at a replica, its proposer has not been told"),
    Learn: LEARNED,
    PaxosRecover: CrashPoint("paxos: a replica has noted that another one lost its store, and not said so", rare=True),
    TrimSealed: CrashPoint("paxos: a trim of a closed log is durable at a replica, nobody has been told", rare=True),
}


@attrs.define(eq=False)
class ReplicaService:
    """All replicas of one node."""

    _environment: NodeEnvironment
    _store: DurableMap
    _founding: StoreIncarnation
    _made: Callable[[LocalReplica], None]
    meter: PaxosMetrics = attrs.field(factory=PaxosMetrics, init=False)
    """Metrics of all parts that work on replicas of this node."""
    _replicas: dict[SegmentId, LocalReplica] = attrs.field(factory=dict, init=False)
    _early: dict[SegmentId, list[tuple[_Request, Done]]] = attrs.field(factory=dict, init=False)
    """Requests that arrived before their replica was made."""
    _making: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _commit: GroupCommit = attrs.field(init=False)
    _reads: trio.MemorySendChannel[_Read] = attrs.field(init=False)
    _waiting: trio.Event = attrs.field(factory=trio.Event, init=False)
    _dropped: dict[bytes, Span] = attrs.field(factory=dict, init=False)
    """Dropped spans that the disk still holds, by their starts."""
    _was_dropped: trio.Event = attrs.field(factory=trio.Event, init=False)

    @classmethod
    async def start(
        cls, environment: NodeEnvironment, made: Callable[[LocalReplica], None] = lambda replica: None
    ) -> ReplicaService:
        """Open the store and restore its replicas; ready for requests on return. Does not wait for the register.

        Args:
            environment: the node's.
            made: called with each replica of the chain that votes or has to recover, found in the store or new.

        Raises:
            CorruptionError, MalformedError, StorageError: the store cannot be trusted.
        """
        opened = await environment.key_values(store_incarnation.STORE)
        service = cls(environment, opened, await store_incarnation.open_store_incarnation(opened, environment), made)
        await service._restore()
        service._reads, reads = trio.open_memory_channel[_Read](READS_MAX)
        nursery = environment.nursery
        nursery.start_soon(service._run_commit)
        nursery.start_soon(service._run_ticks)
        nursery.start_soon(service._run_reclaim)
        if service._founding.founded == NOWHERE:
            nursery.start_soon(service._run_founding)
        for _ in range(READERS):
            nursery.start_soon(service._run_reader, reads)
        for replica in service._replicas.values():
            service._announce(replica)
        return service

    def __attrs_post_init__(self) -> None:
        self._commit = GroupCommit(self._store, self.meter.synced, self._environment.clock.monotonic)

    @property
    def handlers(self) -> Handlers:
        kinds = (Promise, PaxosWrite, Learn, PaxosRecover, GetStanding, TrimSealed, WaitLearned, ReadRecords)
        return dict.fromkeys(kinds, self._request)

    @property
    def replicas(self) -> Collection[LocalReplica]:
        """All replicas of this node, for callers that inspect them."""
        return self._replicas.values()

    def metrics(self) -> list[MetricFamily]:
        """Metrics of this node's replicas; see `virtuallog.contract.metrics.MetricsSource`."""
        standings = [replica.core.standing() for replica in self._replicas.values()]
        return self.meter.metrics(standings, self._commit.writing_seconds)

    async def replica(self, segment: SegmentId) -> LocalReplica:
        """The replica of the segment here; it is made if the chain says that this node is one of its replicas.

        Raises:
            SealedError: the segment has been dropped.
            UnavailableError: the chain cannot be read, or names no replica here.
            MalformedError: the chain has another kind of loglet there.
        """
        return self._replicas.get(segment) or await self._make(segment, rebuilds=False)

    def add(self, segment: SegmentId, ensemble: Callable[[], Ensemble], status: Status) -> LocalReplica:
        """The replica of a log used by itself; `status` is that of a replica which is new in the store."""
        replica = self._replicas.get(segment)
        if replica is None:
            replica = self._put(
                Replica(segment, self._environment.node, self._founding.incarnation, status), NO_ENSEMBLE
            )
        replica.ensemble = ensemble
        return replica

    async def forget(self, lowest_live_version: int) -> None:
        """Drop every log of a version below `lowest_live_version`, durably and for good.

        Raises:
            UnavailableError: this role was closed meanwhile; the drop may be durable or not.
        """
        if lowest_live_version > self._founding.lowest_live_version:
            self._founding = attrs.evolve(self._founding, lowest_live_version=lowest_live_version)
            self._commit.put(self._founding.pair)
        await self._drop([segment for segment in self._replicas if segment.version < lowest_live_version])

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Drop the logs of versions up to `horizon` except `live`. If one is asked for again, the chain is consulted.

        Raises:
            UnavailableError: see `forget`.
        """
        await self._drop([s for s in self._replicas if s.version <= horizon and s not in live])

    async def recreate_lost(self, live: Collection[SegmentId]) -> None:
        """Make the replicas that a former store of this node may have held and this one does not, so that they recover.

        Otherwise they would be made at the first request, which for a closed log may come late: until then a copy is
        missing.

        Raises:
            UnavailableError: the store is new and the register is not read yet. Call again.
        """
        if self._founding.founded == NOWHERE:
            raise UnavailableError("the store of the replicas is new, and the register is not known yet")
        for segment in sorted(live):
            if segment.version <= self._founding.founded and segment not in self._replicas:
                with suppress(MalformedError, SealedError, UnavailableError):  # another kind, or no replica here
                    await self.replica(segment)

    async def refresh_holders(self, live: Collection[SegmentId]) -> None:
        """Update the servers at which replicas of open or incomplete logs look for missing positions.

        A closed log may have moved since its replica here learned its ensemble, and those members may be gone for good.

        Raises:
            UnavailableError: the chain cannot be read. Call again.
        """
        for replica in list(self._replicas.values()):
            if replica.segment in live and replica.core.seal == NOWHERE:
                with suppress(MalformedError, SealedError):  # made by hand, or gone meanwhile
                    _, encoded = await self._environment.segment_config(replica.segment)
                    replica.other_holders = config.decode_untrusted(encoded).replicas

    # -- requests -------------------------------------------------------------------------------------------------

    def _request(self, request: _Request, done: Done) -> None:
        try:
            check_untrusted(request)
        except VirtualLogError as error:  # damaged on its way: nothing here is corrupt
            done(MalformedError(str(error)) if isinstance(error, CorruptionError) else error)
            return
        replica = self._replicas.get(request.segment)
        if replica is not None:
            self._serve(replica, request, done)
        else:
            self._serve_later(request, done)

    def _serve_later(self, request: _Request, done: Done) -> None:
        segment = request.segment
        early = self._early.get(segment)
        if early is None and len(self._early) < EARLY_SEGMENTS_MAX:
            self._early[segment] = [(request, done)]
            self._environment.nursery.start_soon(self._make_for, segment)
        elif early is not None and len(early) < EARLY_MAX:
            early.append((request, done))
        else:
            done(OverloadedError("this replica is not ready yet"))

    def _serve(self, replica: LocalReplica, request: _Request, done: Done) -> None:
        match request:
            case ReadRecords():
                self._read(replica, request, done)
            case WaitLearned():
                self._perform(replica, replica.core.wait(request, done), None)
                if replica.core.waiting:
                    self._waiting.set()
            case GetStanding() if not self._store.has_room:
                self._perform(replica, replica.core.step(request, partial(with_full_disk, done)), None)
            case _:
                refusal = self._refusal(replica, request)
                if refusal is not None:
                    done(refusal)
                else:
                    self._perform(replica, replica.core.step(request, done), _DURABLE.get(type(request)))

    @property
    def has_room(self) -> bool:
        """False if the disk is nearly full: then no entries are taken."""
        return self._store.has_room

    def _refusal(self, replica: LocalReplica, request: object) -> VirtualLogError | None:
        """The error if there is no room for a request; None if there is. Requests that close or truncate a log get through."""
        if not isinstance(request, PaxosWrite | Learn):
            return None
        if self._commit.waiting_bytes > GROUP_BYTES_MAX:
            return OverloadedError(f"{GROUP_BYTES_MAX} bytes wait for the disk")
        if not self._store.has_room and brings_data(request, replica.core.end):
            return DiskFullError("the disk of this replica is nearly full")
        return None

    # -- the cores' effects -----------------------------------------------------------------------------------------

    def _perform(self, replica: LocalReplica, effects: list[ReplicaEffect], point: CrashPoint | None) -> None:
        for effect in effects:
            match effect:
                case PaxosAnswer(done, outcome):
                    self._commit.then(partial(done, outcome))
                case PaxosPersist():
                    self._commit.persist(replica.stored, effect, point)
                    if effect.drop_below:
                        self.meter.truncated()
                        self._dropped_soon(disk_format.record_span(replica.segment, 0, effect.drop_below))
                case AnswerFromDisk(done, _):
                    self._commit.then(partial(self._read_soon, partial(replica.quote, effect), done))
                case PaxosFail(error):
                    self._environment.fail(error)
        replica.stepped()

    async def _run_commit(self) -> None:
        try:
            await self._commit.run()
        except VirtualLogError as error:
            # The cores may be ahead of the disk now; their state must not be served any more.
            self._environment.fail(error)

    def _dropped_soon(self, span: Span) -> None:
        """Note a span to reclaim. Spans with the same start are one, as a log is truncated repeatedly."""
        self._dropped[span[0]] = span
        self._was_dropped.set()

    async def _run_reclaim(self) -> None:
        while True:
            await self._was_dropped.wait()
            await self._environment.clock.sleep(RECLAIM_SECONDS)
            self._was_dropped = trio.Event()
            dropped, self._dropped = self._dropped, {}
            with suppress(VirtualLogError):  # the store has failed, or the role is being closed
                await self._commit.settled()
                for span in dropped.values():
                    await self._store.reclaim(span)

    async def _run_ticks(self) -> None:
        while True:
            await self._waiting.wait()
            await self._environment.clock.sleep(TICK_SECONDS)
            for replica in self._replicas.values():
                self._perform(replica, replica.core.tick(), None)
            if not any(replica.core.waiting for replica in self._replicas.values()):
                self._waiting = trio.Event()

    # -- reads ----------------------------------------------------------------------------------------------------

    def _read(self, replica: LocalReplica, request: ReadRecords, done: Done) -> None:
        """Answer from memory at once, as for readers that follow the tail; otherwise from the disk."""
        recent = replica.read_recent(request)
        if recent is None:
            self._read_soon(partial(replica.read_records, request), done)
        else:
            answer = PaxosRecords(records=tuple(recent), standing=replica.core.standing())
            self._commit.then(partial(done, answer))

    def _read_soon(self, read: Callable[[], Awaitable[Any]], done: Done) -> None:
        try:
            self._reads.send_nowait((read, done))
        except trio.WouldBlock:
            done(OverloadedError(f"{READS_MAX} reads are waiting here"))

    async def _run_reader(self, reads: trio.MemoryReceiveChannel[_Read]) -> None:
        async for read, done in reads:
            try:
                outcome: Any = await read()
            except VirtualLogError as error:
                outcome = error
                if isinstance(error, CorruptionError):  # fail now rather than when the record is needed
                    self._environment.fail(error)
            done(outcome)

    # -- replicas -------------------------------------------------------------------------------------------------

    async def _restore(self) -> None:
        node, incarnation = self._environment.node, self._founding.incarnation
        for header in await disk_format.headers(self._store):
            core = await disk_format.restore(self._store, header, node, incarnation)
            replica = self._put(core, header.ensemble)
            replica.stored.checkpoint = core.slots.digest.stop

    async def _run_founding(self) -> None:
        """Read the register after the store was lost: a former store may have known all loglets of the chain up to now."""
        founded = await store_incarnation.newest_version(self._environment)
        self._founding = attrs.evolve(self._founding, founded=founded)
        self._commit.put(self._founding.pair)
        log.info("the store of the replicas is new", founded=founded, incarnation=self._founding.incarnation)

    async def _make_for(self, segment: SegmentId) -> None:
        """Make a replica for early requests. Runs in a service task, as callers may give up meanwhile."""
        rebuilds = any(isinstance(request, Learn) and request.rebuilds for request, _ in self._early[segment])
        try:
            replica = self._replicas.get(segment) or await self._make(segment, rebuilds=rebuilds)
        except VirtualLogError as error:
            for _, done in self._early.pop(segment):
                done(error)
            return
        for request, done in self._early.pop(segment):
            self._serve(replica, request, done)

    async def _make(self, segment: SegmentId, *, rebuilds: bool) -> LocalReplica:
        """Make a replica if the decided chain names this node."""
        self._check_live(segment)
        async with self._making:  # one question to the register at a time; no replica is made twice
            kind, encoded = await self._environment.segment_config(segment)
            if kind != config.KIND:
                raise MalformedError(f"segment {segment} is of kind {kind}")
            if (made := self._replicas.get(segment)) is not None:
                return made
            self._check_live(segment)
            replica = self._put(*self._plan(segment, config.decode_untrusted(encoded), rebuilds=rebuilds))
        _MADE.reached()
        self._announce(replica)
        return replica

    def _check_live(self, segment: SegmentId) -> None:
        if segment.version < self._founding.lowest_live_version:
            raise SealedError(f"loglet {segment} has been dropped", refused=True)
        if self._founding.founded == NOWHERE:
            raise UnavailableError("the store of this replica is new, and the register is not known yet")
        if len(self._replicas) >= REPLICAS_MAX:
            raise OverloadedError(f"{REPLICAS_MAX} logs are known here")

    def _plan(self, segment: SegmentId, plan: config.PaxosConfig, *, rebuilds: bool) -> tuple[Replica, Ensemble]:
        """A new replica and its ensemble.

        The replica votes if no peer can have asked a former one, as it has then forgotten nothing. A log that was moved
        here was closed on other nodes: it is copied and never votes here.
        """
        named = self._environment.node in plan.replicas
        if not named and not rebuilds:
            raise UnavailableError(f"no replica of {segment} is on this node")
        is_new = named and plan.loglet is None and segment.version > self._founding.founded
        status = Status.VOTING if is_new else Status.EMPTY
        core = Replica(segment, self._environment.node, self._founding.incarnation, status)
        return core, Ensemble(members=plan.replicas, quorum=plan.quorum) if named else NO_ENSEMBLE

    def _put(self, core: Replica, ensemble: Ensemble) -> LocalReplica:
        replica = LocalReplica(
            core,
            lambda: ensemble,
            self.meter,
            StoredReplica(core, ensemble),
            self._store,
            self._commit,
            self._request,
            self._perform,
        )
        self._replicas[core.segment] = replica
        return replica

    def _announce(self, replica: LocalReplica) -> None:
        if replica.stored.ensemble.members:
            self._made(replica)

    async def _drop(self, segments: list[SegmentId]) -> None:
        for segment in segments:
            replica = self._replicas.pop(segment)
            dropped = SealedError(f"loglet {segment} has been dropped")
            replica.drop(dropped)
            self._commit.drop(segment)
            for span in disk_format.spans_of(segment):
                self._dropped_soon(span)
            self._perform(replica, replica.core.dismiss(dropped), None)
        await self._commit.settled()
        if segments:
            _DROPPED.reached()
