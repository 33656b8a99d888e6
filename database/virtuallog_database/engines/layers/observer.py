"""Latency of proposals and syncs at each height of the stack, by an observer directly above every
engine (SOSP'21, section 4).

The cost of an engine is the difference between the observer above it and the one below. Only the
way down is measured: `apply` bypasses observers on its way up, so they cost nothing there. The
first wait of a linearizable read counts as a sync. Each observer measures one of `SAMPLE` proposals:
all of them at ten heights would be a twentieth of what a lone write costs at its server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from virtuallog.contract.metrics import SECONDS, Histograms, MetricFamily
from virtuallog.contract.ports import Clock, Done, Outcome
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Engine

SAMPLE: Final = 16
"""Proposals of which one is measured: enough for a distribution, at a sixteenth of the cost."""


@attrs.define(eq=False)
class StackMetrics:
    """Histograms shared by the observers of a stack."""

    propose_seconds: Histograms = attrs.field(
        factory=lambda: Histograms(
            "virtuallog_database_propose_seconds",
            f"From a proposal to this engine until its result, of one in {SAMPLE} proposals.",
            "engine",
            SECONDS,
        )
    )
    sync_seconds: Histograms = attrs.field(
        factory=lambda: Histograms("virtuallog_database_sync_seconds", "Of a sync of this engine.", "engine", SECONDS)
    )

    def metrics(self) -> list[MetricFamily]:
        return [self.propose_seconds.family(), self.sync_seconds.family()]


@attrs.define(eq=False)
class ObserverEngine:
    """Engine that passes everything on to the one below, and measures the time."""

    _below: Engine
    _name: str
    """Name of the engine below."""
    _meter: StackMetrics
    _clock: Clock
    _until_next: int = attrs.field(default=1, init=False)

    def propose(self, entry: Entry, done: Done) -> None:
        self._until_next -= 1
        if self._until_next:
            self._below.propose(entry, done)
            return
        self._until_next = SAMPLE
        started = self._clock.monotonic()

        def finished(outcome: Outcome[Any]) -> None:
            if not isinstance(outcome, Exception):  # the time of a failure is a caller's timeout, or zero
                self._meter.propose_seconds.observe(self._name, self._clock.monotonic() - started)
            done(outcome)

        self._below.propose(entry, finished)

    async def sync(self) -> None:
        await self._measured(self._below.sync)

    async def prepare_read(self) -> None:
        await self._measured(self._below.prepare_read)

    async def _measured(self, ask: Callable[[], Awaitable[None]]) -> None:
        started = self._clock.monotonic()
        await ask()
        self._meter.sync_seconds.observe(self._name, self._clock.monotonic() - started)

    async def confirm(self) -> None:
        await self._below.confirm()

    def set_trim_prefix(self, position: LogPosition) -> None:
        self._below.set_trim_prefix(position)
