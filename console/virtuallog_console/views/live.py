"""Live figures: a ring of samples of the last minutes, taken once for all viewers.

A sample costs the cluster one status of each node and one tail check, once per `PERIOD_SECONDS`, for any number of viewers. Appends of others
cannot be timed from here. So the latencies are those of the tail check, which goes the way of an append up to the disks, and of the appends of
this process, which the HTTP door makes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.metrics import Distribution
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import NodeId
from virtuallog.node_services import newest_register

PERIOD_SECONDS: Final = 1.0
SAMPLES_MAX: Final = 300
"""Samples in the ring: five minutes, some hundred bytes each."""
SWAPS_MAX: Final = 100
"""Swaps that are remembered beyond that."""
TAIL_SECONDS: Final = 1.0
"""Timeout of a tail check. A slower one is a sample without a tail, with the reason."""
REGISTER_SECONDS: Final = 5.0
"""Time to learn the register for the first time."""


@attrs.frozen(kw_only=True)
class LiveSample:
    """The log at one moment."""

    number: int
    """Samples before this one, since the process began."""
    time_ms: int
    """Wall clock of the console, in milliseconds since the epoch."""
    tail: int | None = None
    """None if the tail check failed, or took too long."""
    entries_per_second: float | None = None
    """Appends of all clients since the sample before. None if one of the tails is not known."""
    tail_ms: float | None = None
    """Milliseconds that the tail check took."""
    append_p50_ms: float | None = None
    """Median of this process' appends since the sample before, as exact as the buckets. None if there were none."""
    append_p99_ms: float | None = None
    version: int = 0
    """Version of the chain."""
    segments: int = 0
    kind: str = ""
    """Kind of the active segment. Empty if the log is closed, or not known."""
    answering: tuple[int, ...] = ()
    """Nodes that answered their status."""
    failing: tuple[int, ...] = ()
    """Those of them that refuse a role."""
    silent: Mapping[int, str] = attrs.field(factory=dict)
    """The other nodes, with the reasons."""
    problem: str = ""


@attrs.frozen(kw_only=True)
class SwapRow:
    """A change of the chain that the console has seen."""

    time_ms: int
    """Time of the sample that saw it, at most `PERIOD_SECONDS` late."""
    version: int
    segments: int
    kind: str
    position: int
    """Start of the last segment."""


@attrs.frozen(kw_only=True)
class LiveView:
    """The ring, and figures over it."""

    period_seconds: float = PERIOD_SECONDS
    samples: tuple[LiveSample, ...] = ()
    """Oldest first."""
    swaps: tuple[SwapRow, ...] = ()
    """Oldest first. The first one is the chain as the console found it, unless there were more than `SWAPS_MAX`."""
    entries_per_second: float | None = None
    """Mean over the ring."""
    tail_p50_ms: float | None = None
    tail_p99_ms: float | None = None
    tail_worst_ms: float | None = None


@attrs.define(eq=False)
class LiveFigures:
    """The sampler. `run` takes the samples; all other methods are for viewers, and cost the cluster nothing."""

    _log: VirtualLog
    _samples: deque[LiveSample] = attrs.field(factory=lambda: deque(maxlen=SAMPLES_MAX), init=False)
    _swaps: deque[SwapRow] = attrs.field(factory=lambda: deque(maxlen=SWAPS_MAX), init=False)
    _taken: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set when the next sample is taken."""
    _number: int = attrs.field(default=0, init=False)
    _former: tuple[int, float] | None = attrs.field(default=None, init=False)
    """Tail of the sample before, and its time on the monotonic clock."""
    _appends: Distribution | None = attrs.field(default=None, init=False)
    """Appends of this process up to the sample before."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take a sample per period until cancelled. Failures are in the samples."""
        clock = self._log.view.environment.clock
        task_status.started()
        due = clock.monotonic()
        while True:
            await self.sample()
            due = max(due + PERIOD_SECONDS, clock.monotonic())
            await clock.sleep(due - clock.monotonic())

    def view(self) -> LiveView:
        """The samples so far."""
        samples = tuple(self._samples)
        times = sorted(sample.tail_ms for sample in samples if sample.tail_ms is not None)
        rates = [each.entries_per_second for each in samples if each.entries_per_second is not None]
        return LiveView(
            samples=samples,
            swaps=tuple(self._swaps),
            entries_per_second=round(sum(rates) / len(rates), 1) if rates else None,
            tail_p50_ms=_quantile(times, 0.5),
            tail_p99_ms=_quantile(times, 0.99),
            tail_worst_ms=times[-1] if times else None,
        )

    async def wait_behind(self, number: int) -> LiveSample:
        """The newest sample, once it has a higher number than this one; -1: any sample."""
        while not self._samples or self._samples[-1].number <= number:
            await self._taken.wait()
        return self._samples[-1]

    async def sample(self) -> LiveSample:
        """Take one sample, add it to the ring, and wake the waiting viewers. Takes some seconds at most."""
        log, clock = self._log, self._log.view.environment.clock
        sample = LiveSample(number=self._number, time_ms=round(clock.wall() * 1000))
        self._number += 1
        try:
            sample = await self._observe(sample)
        except VirtualLogError as error:
            sample = attrs.evolve(sample, problem=str(error))
        sample = self._with_appends(sample)
        if sample.version and (not self._swaps or self._swaps[-1].version < sample.version):
            register = log.view.cached
            assert register is not None, "its version is in the sample"
            last = register.chain.last
            self._swaps.append(
                SwapRow(
                    time_ms=sample.time_ms,
                    version=sample.version,
                    segments=sample.segments,
                    kind=last.kind,
                    position=last.start,
                )
            )
        self._samples.append(sample)
        self._taken.set()
        self._taken = trio.Event()
        return sample

    async def _observe(self, sample: LiveSample) -> LiveSample:
        view = self._log.view
        with view.environment.clock.timeout(REGISTER_SECONDS) as scope:
            nodes = sorted((await view.current()).nodes)
        if scope.cancelled_caught:
            raise UnavailableError(f"the register was not read within {REGISTER_SECONDS:g} s")
        answers: dict[NodeId, Outcome[NodeStatus]] = {}
        tails: list[LiveSample] = []

        async def ask_nodes() -> None:
            answers.update(await fetch_statuses(view.environment.services, nodes))

        async def ask_tail() -> None:
            tails.append(await self._with_tail(sample))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_nodes)
            nursery.start_soon(ask_tail)
        return self._with_nodes(tails[0], answers)

    async def _with_tail(self, sample: LiveSample) -> LiveSample:
        clock = self._log.view.environment.clock
        began, former, self._former = clock.monotonic(), self._former, None
        problem = f"no tail within {TAIL_SECONDS:g} s"
        with clock.timeout(TAIL_SECONDS):
            try:
                tail = (await self._log.check_tail()).tail
            except VirtualLogError as error:
                problem = f"tail: {error}"
            else:
                ended = clock.monotonic()
                self._former = (tail, ended)
                rate = None
                if former is not None and ended > former[1]:
                    rate = round(max(0, tail - former[0]) / (ended - former[1]), 1)
                return attrs.evolve(
                    sample, tail=tail, tail_ms=round((ended - began) * 1000, 2), entries_per_second=rate
                )
        return attrs.evolve(sample, problem=problem)

    def _with_nodes(self, sample: LiveSample, answers: Mapping[NodeId, Outcome[NodeStatus]]) -> LiveSample:
        view = self._log.view
        with suppress(VirtualLogError):  # no node knows a register; the silent ones are in the sample
            view.adopt(newest_register(answers))
        register = view.cached
        statuses = {node: each for node, each in answers.items() if not isinstance(each, VirtualLogError)}
        sample = attrs.evolve(
            sample,
            answering=tuple(statuses),
            failing=tuple(node for node, status in statuses.items() if status.failures),
            silent={int(node): str(each) for node, each in answers.items() if isinstance(each, VirtualLogError)},
        )
        if register is None:
            return sample
        active = register.chain.active
        return attrs.evolve(
            sample,
            version=register.version,
            segments=len(register.chain.segments),
            kind=active.kind if active is not None else "",
        )

    def _with_appends(self, sample: LiveSample) -> LiveSample:
        now, former = self._log.statistics().appends.seconds, self._appends
        self._appends = now
        counts = now.counts if former is None else tuple(a - b for a, b in zip(now.counts, former.counts, strict=True))
        since = Distribution(now.bounds, counts, 0.0)
        if not since.count:
            return sample
        return attrs.evolve(
            sample, append_p50_ms=_milliseconds(since.quantile(0.5)), append_p99_ms=_milliseconds(since.quantile(0.99))
        )


def _milliseconds(seconds: float) -> float | None:
    """None if it is above all buckets."""
    return round(seconds * 1000, 3) if math.isfinite(seconds) else None


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all values does not exceed. None if there are none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
