"""Service of the sequencers of a node: creates them and runs them over the network.

A sequencer never restarts in place: a second incarnation could give a used offset to another batch,
and a repair would then be unsafe. Three things ensure that:
* The decided config names one boot of one node.
* A node makes the sequencer of a segment at most once per process, also if the role begins anew in
  it.
* It keeps a sequencer, stopped or not, until the segment is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    MalformedError,
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.runtime.end_of_turn import EndOfTurn, end_of_turn
from virtuallog_loglets.native.config import NativeConfig, TransferLimits, decode_untrusted
from virtuallog_loglets.native.core.sequencer import AskState, Effect, NativeResolve, NativeSend, Resume, Sequencer
from virtuallog_loglets.native.messages import NativeAppend, NativeGetState, NativeState, NativeStore, NativeStored
from virtuallog_loglets.native.metrics import SequencerMetrics, WaveTimes

STORE_SECONDS: Final = 3.0
"""Time in seconds after which a wave is sent again. A disk that stalls for longer only gets the
same wave twice."""
ASK_SECONDS: Final = 1.0
"""Timeout of a `NativeGetState`, in seconds."""
RESUME_SECONDS: Final = 0.05
"""Pause in seconds between a failed store and the next attempt."""
EARLY_MAX: Final = 256
"""Most appends that wait while the chain is asked if there is a sequencer here."""
EARLY_SEGMENTS_MAX: Final = 128
"""Most loglets that the chain is asked about at a time. One segment is open, of 64 stripes perhaps;
further ids are made up."""

_MADE = CrashPoint("native: a sequencer is made, nothing is ordered")
_SENT = CrashPoint("native: a wave has left for one LogServer more")
_COMMITTED = CrashPoint("native: a wave is on a majority, nobody has been told")

_Early: TypeAlias = list[tuple[NativeAppend, Done]]


@attrs.define(eq=False)
class SequencerService:
    """All sequencers of one node, running and stopped."""

    _environment: NodeEnvironment
    _limits: TransferLimits = attrs.field(factory=TransferLimits)
    _running: dict[SegmentId, SequencerDriver] = attrs.field(factory=dict, init=False)
    _early: dict[SegmentId, _Early] = attrs.field(factory=dict, init=False)
    """Appends that came before their sequencer was made."""
    _lowest_live_version: int = attrs.field(default=0, init=False)
    _meter: SequencerMetrics = attrs.field(factory=SequencerMetrics, init=False)

    def begin_anew(self, environment: NodeEnvironment) -> None:
        """Open the role anew in the same process, after its former tasks have ended. What ran there
        is kept, stopped."""
        self._environment = environment
        self._early.clear()
        for segment, former in self._running.items():
            former.core.stop(
                former.core.stopped or ReconfigurationNeededError("the role of the sequencer has begun anew")
            )
            self._running[segment] = SequencerDriver(former.core, environment, self._meter)

    def metrics(self) -> list[MetricFamily]:
        """See `virtuallog.contract.metrics.MetricsSource`."""
        return self._meter.metrics(running.core for running in self._running.values())

    @property
    def handlers(self) -> Handlers:
        return {NativeAppend: self._append}

    def forget(self, lowest_live_version: int) -> None:
        """Drop sequencers of versions below `lowest_live_version`; none of them is made again."""
        self._lowest_live_version = max(self._lowest_live_version, lowest_live_version)
        for segment in [segment for segment in self._running if self._is_dropped(segment)]:
            self._running.pop(segment).stop(SealedError(f"loglet {segment} has been dropped"))

    def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Drop sequencers of versions up to `horizon`, except `live`. If one is requested again,
        the chain decides."""
        for segment in [s for s in self._running if s.version <= horizon and s not in live]:
            self._running.pop(segment).stop(SealedError(f"loglet {segment} has been dropped"))

    def _is_dropped(self, segment: SegmentId) -> bool:
        return segment.version < self._lowest_live_version

    def _append(self, request: NativeAppend, done: Done) -> None:
        running = self._running.get(request.segment)
        if running is not None:
            running.append(request, done)
        elif self._is_dropped(request.segment):
            done(SealedError(f"loglet {request.segment} has been dropped", refused=True))
        elif request.segment not in self._early and len(self._early) < EARLY_SEGMENTS_MAX:
            self._early[request.segment] = [(request, done)]
            self._environment.nursery.start_soon(self._make, request.segment)
        elif request.segment in self._early and len(self._early[request.segment]) < EARLY_MAX:
            self._early[request.segment].append((request, done))
        else:
            done(OverloadedError("the sequencer is not ready yet"))

    async def _make(self, segment: SegmentId) -> None:
        """Make the sequencer if the decided chain says so. Runs in a service task, as callers may
        give up meanwhile."""
        try:
            _, encoded = await self._environment.segment_config(segment)
            config = decode_untrusted(encoded)
            _check_incarnation(config, self._environment)
            if self._is_dropped(segment):
                raise SealedError(f"loglet {segment} has been dropped", refused=True)
        except VirtualLogError as error:
            for _, done in self._early.pop(segment):
                done(error)
            return
        assert segment not in self._running, "a sequencer never restarts in place"
        core = Sequencer(segment, config, self._limits)
        running = self._running[segment] = SequencerDriver(core, self._environment, self._meter)
        self._meter.made.value += 1
        self._environment.nursery.start_soon(running.run)
        _MADE.reached()
        for request, done in self._early.pop(segment):
            running.append(request, done)


def _check_incarnation(config: NativeConfig, environment: NodeEnvironment) -> None:
    """Check that this process is the one that the config names: only it may order entries.

    Raises:
        ReconfigurationNeededError: it has been restarted since, or it is another node.
    """
    if (config.sequencer, config.boot) != (environment.node, environment.boot):
        raise ReconfigurationNeededError(
            f"the sequencer is boot {config.boot} of node {config.sequencer}, "
            f"this is boot {environment.boot} of node {environment.node}"
        )


@attrs.define(eq=False)
class SequencerDriver:
    """Driver of one sequencer.

    Appends are collected during a scheduler turn, and `run` makes waves of them once per turn. A
    lone batch leaves at once.
    """

    _core: Sequencer
    _environment: NodeEnvironment
    _meter: SequencerMetrics = attrs.field(factory=SequencerMetrics)
    _times: WaveTimes = attrs.field(init=False)
    _offered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _end: EndOfTurn = attrs.field(factory=end_of_turn, init=False)
    _abandoned: bool = attrs.field(default=False, init=False)
    """True once the role and its nursery have been closed: outstanding answers are ignored."""

    def __attrs_post_init__(self) -> None:
        self._times = WaveTimes(self._meter, self._environment.clock.monotonic())

    @property
    def core(self) -> Sequencer:
        """The core, for tools that inspect it."""
        return self._core

    def append(self, request: NativeAppend, done: Done) -> None:
        """Handle an append; returns at once. An ordered batch is replicated even if the caller no
        longer waits."""
        try:
            batch = Batch.parse_untrusted(request.batch)
        except VirtualLogError as error:  # damaged on its way: nothing here is corrupt
            done(MalformedError(f"the batch cannot be read: {error}"))
            return
        self._guard(self._offer, batch, request, done)

    def stop(self, error: VirtualLogError) -> None:
        """Fail all pending appends; their outcome is unknown."""
        self._guard(self._stop, error)

    async def run(self) -> None:
        """Run until the loglet is sealed."""
        try:
            while self._core.stopped is None:
                await self._offered.wait()
                self._offered = trio.Event()
                self._guard(self._turn)
        except trio.Cancelled:
            self._abandoned = True
            raise

    def _guard(self, step: Callable[..., None], *arguments: object) -> None:
        """Run a step. A broken invariant ends this role, but not the connection that happened to call."""
        if self._abandoned:
            return
        try:
            step(*arguments)
        except AssertionError as error:
            self._environment.fail(error)

    # -- steps: an event of the core, and its effects -------------------------------------------------------------

    def _offer(self, batch: Batch, request: NativeAppend, done: Done) -> None:
        core = self._core
        # Sessions are forgotten by a clock that does not jump; waves carry the time of day.
        now_ms = int(self._environment.clock.monotonic() * 1000)
        effects = core.offer(batch, done, now_ms, opens=request.opens, expected_tail=request.expected_tail)
        if core.may_hurry:
            effects += core.turn(self._now_ms())
        elif core.has_work:
            self._offered.set()
        self._perform(effects)

    def _turn(self) -> None:
        self._perform(self._core.turn(self._now_ms()))

    def _stored(self, server: NodeId, run: int, outcome: NativeStored | VirtualLogError) -> None:
        core, committed = self._core, self._core.committed
        if isinstance(outcome, VirtualLogError):
            self._perform(core.unreachable(server, run))
            return
        effects = core.stored(server, run, outcome)
        if core.committed > committed:
            _COMMITTED.reached()
            self._perform(effects)
            self._end.flush()  # callers wait for the answers, not for what follows
            if core.has_work:
                self._offered.set()
            self._times.committed(core.committed, self._environment.clock.monotonic())
        elif effects:
            self._perform(effects)

    def _heard(self, server: NodeId, outcome: NativeState | VirtualLogError) -> None:
        if not isinstance(outcome, VirtualLogError):
            self._perform(self._core.heard(server, outcome))

    def _resume(self, server: NodeId) -> None:
        self._meter.sent_again(server)
        self._perform(self._core.resume(server))

    def _stop(self, error: VirtualLogError) -> None:
        self._perform(self._core.stop(error))

    # -- effects --------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case NativeSend():
                    self._send(effect)
                case NativeResolve(done, outcome):
                    done(outcome)
                case Resume(server):
                    self._environment.nursery.start_soon(self._resume_later, server)
                case AskState(server):
                    question = NativeGetState(segment=self._core.segment)
                    heard = partial(self._guard, self._heard, server)
                    self._environment.services.post(server, question, heard, ASK_SECONDS)
        if self._core.stopped is not None:
            self._offered.set()

    def _send(self, send: NativeSend) -> None:
        now, services = self._environment.clock.monotonic(), self._environment.services
        store = NativeStore(segment=self._core.segment, wave=send.wave.blob, known_tail=send.known_tail)
        for server, run in send.receivers:
            if server == self._environment.node:  # the last one: its way to the disk is as long as that to the others
                self._end.flush()
            services.post(server, store, partial(self._guard, self._stored, server, run), STORE_SECONDS)
            _SENT.reached()
        self._times.sent(send.wave, now)  # behind the sends

    def _now_ms(self) -> int:
        return max(0, int(self._environment.clock.wall() * 1000))

    async def _resume_later(self, server: NodeId) -> None:
        await self._environment.clock.sleep(RESUME_SECONDS)
        self._guard(self._resume, server)
