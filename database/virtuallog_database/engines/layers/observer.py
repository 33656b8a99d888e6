"""How long proposals and syncs take at each height of the stack: an Observer is directly above every engine (SOSP'21, section 4).

What an engine costs is the difference between the observer above it and the one below. Only the way down is observed: `apply` comes
up past it, so an observer costs nothing there. What a linearizable read has to wait for first counts as a sync.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from virtuallog.contract.metrics import SECONDS, Histograms, MetricFamily
from virtuallog.contract.ports import Clock, Done, Outcome
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Engine


@attrs.define(eq=False)
class StackMetrics:
    """Shared by the observers of a stack."""

    propose_seconds: Histograms = attrs.field(
        factory=lambda: Histograms(
            "virtuallog_database_propose_seconds", "From a proposal to this engine until its result.", "engine", SECONDS
        )
    )
    sync_seconds: Histograms = attrs.field(
        factory=lambda: Histograms("virtuallog_database_sync_seconds", "Of a sync of this engine.", "engine", SECONDS)
    )

    def metrics(self) -> list[MetricFamily]:
        return [self.propose_seconds.family(), self.sync_seconds.family()]


@attrs.define(eq=False)
class ObserverEngine:
    """An engine that passes everything on to the one below, and looks at a clock."""

    _below: Engine
    _name: str
    """Of the engine below."""
    _meter: StackMetrics
    _clock: Clock
    _every: int
    """Of so many proposals one is measured. Above Batching there is one for each command: measuring all would cost as much as a
    tenth of everything else."""
    _until_next: int = attrs.field(default=1, init=False)

    def propose(self, entry: Entry, done: Done) -> None:
        self._until_next -= 1
        if self._until_next:
            self._below.propose(entry, done)
            return
        self._until_next = self._every
        started = self._clock.monotonic()

        def finished(outcome: Outcome[Any]) -> None:
            if not isinstance(outcome, Exception):  # what failed took as long as somebody's patience, or no time at all
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
