"""All replicas of one node, and their write-ahead log.

A replica is made when a request names its loglet and the decided chain lists this node. The start of the process that the
config names leads the first term, without an election, and does so once: a replica is never made anew while its process
lives, and one with a durable state begins from that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    CorruptionError,
    MalformedError,
    OverloadedError,
    SealedError,
    StorageError,
    TrimmedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, Handlers, NodeEnvironment
from virtuallog.runtime import log
from virtuallog_loglets.raft.config import RaftConfig, RaftLimits, decode_untrusted
from virtuallog_loglets.raft.core import records, wal_records
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.raft.drivers.replica_driver import ReplicaDriver, dropped
from virtuallog_loglets.raft.messages import (
    AppendRecords,
    CopyRecords,
    RaftAppend,
    RaftCheckTail,
    RaftGetStanding,
    RaftRecords,
    RaftSeal,
    RaftTrim,
    RaftWaitTail,
    ReadRaftRecords,
    RequestVote,
    StandNow,
)
from virtuallog_loglets.tombstones import LiveLogletSet, VersionFloor
from virtuallog_loglets.wal import Address, WalMetrics, WalRecord, WalSettings, WriteAheadLog
from virtuallog_loglets.wal.scrub import scrub

STORAGE: Final = "raft"
TICK_SECONDS: Final = 0.05
"""Seconds between two ticks, which run only while a log is open here. An election timeout is 10 to 20 of them."""
EARLY_MAX: Final = 256
"""Most requests of one loglet that wait while the chain is asked if there is a replica here."""
EARLY_SEGMENTS_MAX: Final = 128
"""Most loglets that the chain is asked about at a time."""
READERS: Final = 4
"""Most reads at the disk at a time."""
READS_MAX: Final = 256
"""Most reads that queue behind them; later ones are refused."""
READ_BYTES_MAX: Final = 8 << 20
"""Most bytes in one answer, even if the client would take more. A single larger record may exceed it."""
READ_RECORDS_MAX: Final = 4096
"""Most records in one answer; more if the first ones have no entries, as a reader gets on by entries. Elections leave these, a
few dozen bytes each."""

_Early: TypeAlias = list[tuple[Any, Done]]


@attrs.define(eq=False)
class RaftService:
    """The replicas of one node."""

    durable: DurableReplicas
    _wal: WriteAheadLog
    _environment: NodeEnvironment
    _settings: WalSettings
    drivers: dict[SegmentId, ReplicaDriver] = attrs.field(factory=dict, init=False)
    _early: dict[SegmentId, _Early] = attrs.field(factory=dict, init=False)
    _led: set[SegmentId] = attrs.field(factory=set)
    """Loglets whose first term this process has led, or may have."""
    _limits: RaftLimits = attrs.field(factory=RaftLimits)
    _working: dict[ReplicaDriver, None] = attrs.field(factory=dict, init=False)
    """Replicas with batches that wait for the end of the turn."""
    _offered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _active: trio.Event = attrs.field(factory=trio.Event, init=False)
    _forgetting: list[Done] = attrs.field(factory=list, init=False)
    _reads: trio.MemorySendChannel[tuple[ReadRaftRecords, Done]] = attrs.field(init=False)

    @classmethod
    async def start(
        cls, environment: NodeEnvironment, settings: WalSettings, led: set[SegmentId], limits: RaftLimits
    ) -> RaftService:
        """Replay the WAL. The service is ready for requests on return.

        Args:
            environment: that of the node.
            settings: those of the WAL.
            led: loglets whose first term this process has led, across restarts of the role.
            limits: those of records and messages.

        Raises:
            CorruptionError, MalformedError, StorageError: this copy cannot be trusted.
        """
        durable = DurableReplicas()
        storage, now = await environment.storage(STORAGE), environment.clock.monotonic
        wal = await WriteAheadLog.open(storage, settings, durable.replay, now, meter=WalMetrics.of_raft())
        service = cls(durable, wal, environment, settings, led, limits)
        send, receive = trio.open_memory_channel[tuple[ReadRaftRecords, Done]](READS_MAX)
        service._reads = send
        for segment, state in durable.states.items():
            state.drop_trimmed()
            service._add(segment, state)
        await environment.nursery.start(service._run_wal)
        for task in (service._run_turns, service._run_ticks, service._run_scrub):
            environment.nursery.start_soon(task)
        for _ in range(READERS):
            environment.nursery.start_soon(service._run_reader, receive)
        return service

    def host(self, segment: SegmentId, state: ReplicaState) -> ReplicaDriver:
        """Begin a replica that no chain names, from this state."""
        self.durable.states[segment] = state
        driver = self._add(segment, state)
        driver.found()
        return driver

    @property
    def handlers(self) -> Handlers:
        stepped = (
            RequestVote, AppendRecords, StandNow, RaftAppend, RaftCheckTail, RaftSeal, RaftTrim, RaftWaitTail,
            RaftGetStanding,
        )  # fmt: skip
        return {**dict.fromkeys(stepped, self._step), ReadRaftRecords: self._read_soon, CopyRecords: self._copy}

    def wal_metrics(self) -> list[MetricFamily]:
        """Metrics of the write-ahead log."""
        return self._wal.metrics()

    # -- replicas -------------------------------------------------------------------------------------------------

    def _step(self, request: Any, done: Done) -> None:
        driver = self.drivers.get(request.segment)
        if driver is not None:
            driver.step(request, done)
            self._active.set()
        else:
            self._step_early(request, done)

    def _step_early(self, request: Any, done: Done) -> None:
        segment: SegmentId = request.segment
        if self.durable.tombstones.is_dropped(segment):
            done(SealedError(f"loglet {segment} has been dropped", refused=True))
        elif segment not in self._early and len(self._early) < EARLY_SEGMENTS_MAX:
            self._early[segment] = [(request, done)]
            self._environment.nursery.start_soon(self._make, segment)
        elif segment in self._early and len(self._early[segment]) < EARLY_MAX:
            self._early[segment].append((request, done))
        else:
            done(OverloadedError("the replica is not ready yet"))

    async def _make(self, segment: SegmentId) -> None:
        """Make the replica if the decided chain says so. Runs in a service task, as callers may give up meanwhile."""
        try:
            _, encoded = await self._environment.segment_config(segment)
            config = decode_untrusted(encoded)
            self._check_seat(segment, config)
            if self.durable.tombstones.is_dropped(segment):
                raise SealedError(f"loglet {segment} has been dropped", refused=True)
        except VirtualLogError as error:
            for _, done in self._early.pop(segment):
                done(error)
            return
        if segment not in self.drivers:  # an administrator may have begun a copy meanwhile
            self._begin(segment, config)
        for request, done in self._early.pop(segment):
            self._step(request, done)

    def _begin(self, segment: SegmentId, config: RaftConfig) -> None:
        """Begin a voter with an empty log. It leads the first term if the config names this process, and it has not done so."""
        state = ReplicaState.begin(Configuration.of_voters(config.replicas), config.leader)
        driver = self._add(segment, state)
        self.durable.states[segment] = state
        driver.found()
        own = self._environment.node, self._environment.boot
        if (config.leader, config.boot) == own and segment not in self._led:
            driver.lead_first_term()
        self._led.add(segment)

    def _copy(self, request: CopyRecords, done: Done) -> None:
        """Take records of a sealed loglet that is moved here; the first ones begin the copy."""
        segment = request.segment
        if self.durable.tombstones.is_dropped(segment):
            done(dropped(segment))
            return
        try:
            sent = [records.parse_untrusted(blob) for blob in request.records]
            if not sent or any(record.segment != segment for record in sent):
                raise MalformedError(f"not records of loglet {segment}")
        except VirtualLogError as error:
            done(MalformedError(f"records cannot be read: {error}"))
            return
        driver = self.drivers.get(segment)
        if driver is None:
            members = Configuration.of_voters((self._environment.node,))
            state = self.durable.states[segment] = ReplicaState.begin_copy(members, sent[0], request.trim)
            driver = self._add(segment, state)
            driver.found()
        driver.copy(request, sent, done)

    def _check_seat(self, segment: SegmentId, config: RaftConfig) -> None:
        """Check that this data directory is the one that the config means.

        Raises:
            UnavailableError: it is not, or it may have replaced one that has voted.
        """
        if config.loglet is not None or self._environment.node not in config.replicas:
            raise UnavailableError(f"node {self._environment.node} keeps no replica of loglet {segment}")
        if segment.version <= self._environment.joined:
            raise UnavailableError(f"a former disk of node {self._environment.node} may have voted in loglet {segment}")

    def _add(self, segment: SegmentId, state: ReplicaState) -> ReplicaDriver:
        replica = RaftReplica(segment, self._environment.node, state, self._environment.random, self._limits)
        driver = self.drivers[segment] = ReplicaDriver(
            replica, self._environment, self._wal, self.durable, self._has_work
        )
        self._active.set()
        return driver

    # -- dropping -------------------------------------------------------------------------------------------------

    async def forget(self, lowest_live_version: int) -> None:
        """Drop loglets of versions below, for good. Returns once it is durable.

        Nothing is written if none of them is here: the chain, which is asked before a replica is made, knows them no more. So
        a node that never had a replica takes no disk space.

        Raises:
            UnavailableError: this role was closed meanwhile; it may or may not be durable.
            StorageError: the disk failed.
        """
        change, tombstones = VersionFloor(lowest_live_version), self.durable.tombstones.raised(lowest_live_version)
        if any(tombstones.is_dropped(segment) for segment in self.drivers):
            await self._drop(change)
        else:
            self.durable.drop(change)

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Drop loglets of versions up to `horizon` that are not in `live`; otherwise like `forget`."""
        tombstones = self.durable.tombstones.seen(horizon, live)
        if any(tombstones.is_dropped(segment) for segment in self.drivers):
            await self._drop(LiveLogletSet(horizon, tuple(sorted(tombstones.live))))

    async def _drop(self, change: wal_records.Dropping) -> None:
        outcomes: list[Any] = []
        answered = trio.Event()

        def done(outcome: Any) -> None:
            outcomes.append(outcome)
            answered.set()

        def persisted(outcome: Sequence[Address] | VirtualLogError) -> None:
            if isinstance(outcome, VirtualLogError):
                done(outcome)
                return
            self.durable.newest_address = outcome[-1]
            for segment in self.durable.drop(change):
                self.drivers.pop(segment).stop(dropped(segment))
            self._wal.drop_before(self.durable.lowest_address_needed)
            done(None)

        self._forgetting.append(done)
        try:
            self._wal.append((wal_records.encode_dropping(change),), persisted, essential=True)
            await answered.wait()
        finally:
            self._forgetting.remove(done)
        if isinstance(outcomes[0], VirtualLogError):
            raise outcomes[0]

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def _run_wal(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the WAL. If the disk fails, the WAL answers everything queued with the error."""
        try:
            await self._wal.run(self._snapshot, task_status=task_status)
        except VirtualLogError as error:
            self._environment.fail(error)
        finally:
            closed = UnavailableError("this replica has been closed")
            for driver in self.drivers.values():
                driver.stop(closed)  # answers of peers may still come, and no task can begin any more
            for done in self._forgetting:
                done(closed)

    def _snapshot(self) -> list[WalRecord]:
        return self.durable.snapshot(self._settings.snapshot_bytes_max)

    def _has_work(self, driver: ReplicaDriver) -> None:
        self._working[driver] = None
        self._offered.set()

    async def _run_turns(self) -> None:
        """Cut records of all that was offered in one scheduler turn."""
        while True:
            await self._offered.wait()
            self._offered = trio.Event()
            working, self._working = self._working, {}
            for driver in working:
                driver.turn()

    async def _run_ticks(self) -> None:
        clock = self._environment.clock
        while True:
            await self._active.wait()
            self._active = trio.Event()
            await clock.sleep(TICK_SECONDS)
            time_ms = max(0, int(clock.wall() * 1000))
            for driver in list(self.drivers.values()):
                if not driver.is_at_rest:
                    driver.tick(time_ms)
                    self._active.set()
            self._wal.drop_before(self.durable.lowest_address_needed)

    async def _run_scrub(self) -> None:
        """Scrub the WAL. Rot in parts that no client reads ends this role as rot found at the start does."""
        try:
            await scrub(self._wal, self._environment.clock)
        except (CorruptionError, MalformedError) as error:
            self._environment.fail(error)
        except StorageError as error:  # a failed read is reported to its reader; unreadable data may be whole
            log.warning("closed segments are not checked any more", reason=str(error))

    # -- reads ----------------------------------------------------------------------------------------------------

    def _read_soon(self, request: ReadRaftRecords, done: Done) -> None:
        if request.segment not in self.drivers:
            self._step_early(request, done)
            return
        try:
            self._reads.send_nowait((request, done))
        except trio.WouldBlock:
            done(OverloadedError(f"{READS_MAX} reads are waiting here"))

    async def _run_reader(self, reads: trio.MemoryReceiveChannel[tuple[ReadRaftRecords, Done]]) -> None:
        async for request, done in reads:
            try:
                outcome: RaftRecords | VirtualLogError = await self._read(request)
            except VirtualLogError as error:
                outcome = error
            done(outcome)

    async def _read(self, request: ReadRaftRecords) -> RaftRecords:
        """Read committed records, up to the first one that is damaged or was trimmed meanwhile.

        Raises:
            CorruptionError: the very first one is damaged: ask another replica.
            SealedError: the loglet has been dropped.
        """
        driver = self.drivers.get(request.segment)
        if driver is None:
            raise dropped(request.segment)
        state, blobs, size = driver.replica.state, list[bytes](), 0
        size_max = min(request.max_bytes, READ_BYTES_MAX)
        index, has_entries = state.log.index_from(max(request.start, state.trim)), False
        while index <= state.commit and state.log.first_at(index) < request.stop:
            kept = state.log.kept(index)
            try:
                blob = kept.blob if kept is not None else (await self._wal.read(state.log.address(index))).payload
            except TrimmedError:  # between the question and here; the standing below says so
                break
            except CorruptionError:
                if not blobs:
                    raise
                break
            if index <= state.log.base.index:
                break
            size += len(blob)
            if has_entries and (size > size_max or len(blobs) >= READ_RECORDS_MAX):
                break
            has_entries = has_entries or state.log.offset_at(index) > state.log.first_at(index)
            blobs.append(blob)
            index += 1
        return RaftRecords(records=tuple(blobs), standing=driver.replica.standing)
