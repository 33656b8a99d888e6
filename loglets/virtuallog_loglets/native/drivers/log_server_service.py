"""Service of a log server on a node: runs a `LogServer` over the network and a WAL.

It has no task per request. Reads have a few tasks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    CorruptionError,
    MalformedError,
    OverloadedError,
    StorageError,
    TrimmedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, Handlers, NodeEnvironment, Outcome
from virtuallog.runtime import log
from virtuallog_loglets.native.core.durable_state import (
    Change,
    DurableLogs,
    KnownTailRaised,
    LogletSealed,
    LogletTrimmed,
)
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.log_server_effects import (
    DropBefore,
    Effect,
    NativeAnswer,
    NativeFail,
    NativePersist,
)
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeStore,
    NativeTrim,
    NativeWaitTail,
    NativeWaves,
)
from virtuallog_loglets.native.metrics import LogServerMetrics
from virtuallog_loglets.tombstones import LiveLogletSet, VersionFloor
from virtuallog_loglets.wal import Address, WalSettings, WriteAheadLog
from virtuallog_loglets.wal.scrub import scrub

TICK_SECONDS: Final = 0.5
"""Seconds between two ticks of the core, which run only while a `NativeWaitTail` is parked."""
READERS: Final = 4
"""Most reads at the disk at a time."""
READS_MAX: Final = 256
"""Most reads that queue behind them; later ones are refused with a request to come back."""
READ_BYTES_MAX: Final = 8 << 20
"""Most bytes in one answer, even if the client would take more. A single larger wave may exceed it."""
STORAGE: Final = "native"

_TAKEN = CrashPoint("native: a LogServer has taken in a change, its WAL has not")
_REPAIRED = CrashPoint("native: a repair is durable on a LogServer, the repairer has not been told", rare=True)
_DURABLE: Final[dict[type[Change], CrashPoint]] = {
    Wave: CrashPoint("native: a wave is durable on a LogServer, its sequencer has not been told"),
    KnownTailRaised: CrashPoint("native: a gap and the wave behind it are durable, nobody has been told", rare=True),
    LogletSealed: CrashPoint("native: a seal is durable on a LogServer, nobody has been told"),
    LogletTrimmed: CrashPoint("native: a trim is durable on a LogServer, nobody has been told"),
    VersionFloor: CrashPoint("native: old loglets are durably gone, their waves are still in the WAL"),
    LiveLogletSet: CrashPoint(
        "native: loglets that the chain does not name are durably gone, nobody has been told", rare=True
    ),
}
"""Crash points by the first change of an entry on which an answer rests. No answer rests on a snapshot."""
_DROPPING = CrashPoint("native: a LogServer needs no old waves, its WAL still has them")


@attrs.define(eq=False)
class LogServerService:
    """The log server of one node."""

    core: LogServer
    _wal: WriteAheadLog
    _environment: NodeEnvironment
    _waiting: trio.Event = attrs.field(factory=trio.Event, init=False)
    _forgetting: list[Done] = attrs.field(factory=list, init=False)
    """Callers that wait in `forget`. They are no tasks of this role, so its end does not end their wait."""
    _reads: trio.MemorySendChannel[tuple[NativeReadWaves, Done]] = attrs.field(init=False)
    _meter: LogServerMetrics = attrs.field(factory=LogServerMetrics, init=False)

    @classmethod
    async def start(cls, environment: NodeEnvironment, settings: WalSettings) -> LogServerService:
        """Replay the WAL. The service is ready for requests on return.

        Raises:
            CorruptionError, MalformedError, StorageError: this copy cannot be trusted.
        """
        durable = DurableLogs()
        storage, now = await environment.storage(STORAGE), environment.clock.monotonic
        wal = await WriteAheadLog.open(storage, settings, durable.replay, now, durable)
        service = cls(LogServer(durable, environment.joined), wal, environment)
        send, receive = trio.open_memory_channel[tuple[NativeReadWaves, Done]](READS_MAX)
        service._reads = send
        await environment.nursery.start(service._run_wal)
        environment.nursery.start_soon(service._run_ticks)
        environment.nursery.start_soon(service._run_scrub)
        for _ in range(READERS):
            environment.nursery.start_soon(service._run_reader, receive)
        return service

    def metrics(self) -> list[MetricFamily]:
        """See `virtuallog.contract.metrics.MetricsSource`."""
        waiting = self._reads.statistics().current_buffer_used
        return [*self._meter.metrics(self.core, waiting, READS_MAX), *self._wal.metrics()]

    @property
    def handlers(self) -> Handlers:
        stepped = dict.fromkeys((NativeStore, NativeSeal, NativeWaitTail, NativeRepair, NativeTrim), self._step)
        return {**stepped, NativeGetState: self._tell_state, NativeReadWaves: self._read_soon}

    async def forget(self, lowest_live_version: int) -> None:
        """Drop loglets as `LogServer.forget` does. Returns once it is durable. Cancelling the wait
        does not undo it.

        Raises:
            UnavailableError: this role was closed meanwhile; it may or may not be durable.
            StorageError: the disk failed.
        """
        await self._durably(partial(self.core.forget, lowest_live_version))

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """See `LogServer.sweep_loglets`; otherwise like `forget`."""
        await self._durably(partial(self.core.sweep_loglets, horizon, live))

    async def _durably(self, step: Callable[[Done], list[Effect]]) -> None:
        outcomes: list[Any] = []
        answered = trio.Event()

        def done(outcome: Any) -> None:
            outcomes.append(outcome)
            answered.set()

        self._forgetting.append(done)
        try:
            self._take(step, done)
            await answered.wait()
        finally:
            self._forgetting.remove(done)
        if isinstance(outcomes[0], VirtualLogError):
            raise outcomes[0]

    # -- the core's effects ---------------------------------------------------------------------------------------

    def _step(self, request: Any, done: Done) -> None:
        self._take(self.core.step, request, done)
        if self.core.waiting:
            self._waiting.set()

    def _tell_state(self, request: NativeGetState, done: Done) -> None:
        self._step(request, partial(_told_full, done) if self._wal.full else done)

    def _persisted(self, write: NativePersist, since: float, outcome: Sequence[Address] | VirtualLogError) -> None:
        """Take the callback of the WAL, which expects no error. Only a process that dies at a crash
        point raises here, in tests."""
        if isinstance(outcome, VirtualLogError):
            self._take(self.core.failed, write, outcome)
            return
        seconds = self._environment.clock.monotonic() - since
        repairs = write.questions[0].repairs
        point = _REPAIRED if repairs else _DURABLE.get(type(write.changes[0]))
        if point is not None:
            point.reached()
        self._take(self.core.persisted, write, outcome)
        # behind the answers, which callers wait for
        self._meter.written(write.changes, seconds, repairs=repairs)

    def _take(self, step: Callable[..., list[Effect]], *arguments: object) -> None:
        """Take a step and perform its effects. A broken invariant ends this role, but not the
        connection or the WAL that happened to call."""
        try:
            for effect in step(*arguments):
                match effect:
                    case NativeAnswer(done, outcome):
                        done(outcome)
                    case NativePersist():
                        self._persist(effect)
                    case DropBefore(address):
                        _DROPPING.reached()
                        self._wal.drop_before(address)
                    case NativeFail(error):
                        self._environment.fail(error)
        except AssertionError as error:
            self._environment.fail(error)

    def _persist(self, write: NativePersist) -> None:
        _TAKEN.reached()
        persisted = partial(self._persisted, write, self._environment.clock.monotonic())
        self._wal.append(write.records, persisted, essential=write.essential)

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def _run_wal(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the WAL. If the disk fails, the WAL answers everything queued with the error."""
        try:
            await self._wal.run(self.core.durable.snapshot, task_status=task_status)
        except VirtualLogError as error:
            self._environment.fail(error)
        finally:
            for done in self._forgetting:
                done(UnavailableError("this LogServer has been closed"))

    async def _run_scrub(self) -> None:
        """Scrub the WAL. Rot in parts that no client reads ends this role as rot found at the start
        does: other servers still have copies."""
        try:
            await scrub(self._wal, self._environment.clock)
        except (CorruptionError, MalformedError) as error:
            self._environment.fail(error)
        except StorageError as error:  # a failed read is reported to its reader; unreadable data may be whole
            log.warning("closed segments are not checked any more", reason=str(error))

    async def _run_ticks(self) -> None:
        while True:
            await self._waiting.wait()
            await self._environment.clock.sleep(TICK_SECONDS)
            self._take(self.core.tick)
            if not self.core.waiting:
                self._waiting = trio.Event()

    # -- reads ----------------------------------------------------------------------------------------------------

    def _read_soon(self, request: NativeReadWaves, done: Done) -> None:
        try:
            self._reads.send_nowait((request, done))
        except trio.WouldBlock:
            done(OverloadedError(f"{READS_MAX} reads are waiting here"))

    async def _run_reader(self, reads: trio.MemoryReceiveChannel[tuple[NativeReadWaves, Done]]) -> None:
        async for request, done in reads:
            try:
                outcome: NativeWaves | VirtualLogError = await self._read(request)
            except VirtualLogError as error:
                outcome = error
            done(outcome)

    async def _read(self, request: NativeReadWaves) -> NativeWaves:
        """Read what is here, up to the first wave that is damaged or was trimmed meanwhile.

        Raises:
            CorruptionError: the very first wave is damaged: ask for another copy.
        """
        blobs: list[bytes] = []
        started = self._environment.clock.monotonic()
        size, size_max = 0, min(request.max_bytes, READ_BYTES_MAX)
        for address in self.core.find(request):
            try:
                blob = (await self._wal.read(address)).payload
            except TrimmedError:  # between `find` and here; the state below says so
                break
            except CorruptionError:
                if not blobs:
                    raise
                break
            size += len(blob)
            if blobs and size > size_max:
                break
            blobs.append(blob)
        self._meter.read(blobs, self._environment.clock.monotonic() - started)
        return NativeWaves(waves=tuple(blobs), state=self.core.state(request.segment))


def _told_full(done: Done, outcome: Outcome[NativeState]) -> None:
    """Answer with `full` set: the WAL, not the core, knows that there is no room."""
    done(attrs.evolve(outcome, full=True) if isinstance(outcome, NativeState) else outcome)
