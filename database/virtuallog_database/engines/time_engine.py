"""Time: timers that fire at one position of the log on all replicas (SOSP'21, section 4).

The state must not read a clock, as every replica has another one. So each replica starts to count
when it applies the command that sets a timer, and reports through the log when the time is over by
its own clock. The timer fires with the report of a majority. Then at least one replica with a right
clock has counted that long since it was set, as long as a minority of clocks is wrong. The number
of reports is fixed when the timer is set; each replica counts once.

Rules:
* The first part of a timer's name ("holds/backup") names its handler, which must be registered
  before the replica starts, on every replica: `fired` is called within `apply`, and changes the
  transaction.
* Timers survive restarts: a replica counts anew from its start on. So a timer may be late by a
  restart, never early.
* Their number is bounded. Setting an existing one restarts its full time; reports of the former one
  are void.
* Off until enabled (`rollout.py`). Disabled, no timer can be set, and those that are set do not
  fire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.errors import OverloadedError, UnsupportedError
from virtuallog.contract.metrics import MetricFamily, MetricKind, Sample
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.enabled_engines import is_enabled
from virtuallog_database.engines.core.keys import section, section_span
from virtuallog_database.engines.core.liveness_timers import LivenessTimers
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "time"
TIMERS_MAX: Final = 1024
"""Most timers; each replica reports each of them."""

Fired = Callable[[StoreTransaction, str, LogPosition], None]
"""Handler of a timer: changes the transaction when the timer of this name fires at this position. A
function of these alone, like `apply`."""


@attrs.frozen(kw_only=True)
class TimeSettings:
    """Settings of timers. Times in seconds."""

    tick_seconds: float = 0.5
    """Interval of a replica's checks: how late a timer may fire, besides the time of a report."""


@attrs.frozen
class Set:
    """Command: start a timer, or restart it."""

    timer: str
    milliseconds: int


@attrs.frozen
class Cancel:
    timer: str


@attrs.frozen
class Elapsed:
    """Command: by the clock of this replica, the time of the timer that was set there is over."""

    timer: str
    set_at: LogPosition
    replica: str


@attrs.frozen
class Timer:
    """One timer in the state."""

    set_at: LogPosition
    milliseconds: int
    needed: int
    """Reports that make it fire."""
    reported: tuple[str, ...]
    """Replicas that have reported the end of its time."""


_RECORDS: Final = Vocabulary((Timer,))
_SECTION: Final = section(NAME)


def timers(state: StoreReader | StoreTransaction) -> Mapping[str, Timer]:
    """All timers by name."""
    found = state.scan(section_span(NAME), TIMERS_MAX)
    return {key.removeprefix(_SECTION).decode(): _RECORDS.parse_stored(value) for key, value in found}


def put(transaction: StoreTransaction, command: Set, position: LogPosition) -> None:
    """Start a timer.

    Raises:
        OverloadedError: there are too many.
    """
    needed = len(view.members(transaction)) // 2 + 1
    key = _SECTION + command.timer.encode()
    if transaction.get(key) is None and len(timers(transaction)) >= TIMERS_MAX:
        raise OverloadedError(f"there are {TIMERS_MAX} timers already")
    transaction.put(key, _RECORDS.encode(Timer(position, command.milliseconds, needed, ())))


def cancel(transaction: StoreTransaction, command: Cancel) -> bool:
    """Drop a timer; returns True if it was there."""
    key = _SECTION + command.timer.encode()
    present = transaction.get(key) is not None
    transaction.delete(key)
    return present


def count(transaction: StoreTransaction, command: Elapsed) -> bool:
    """Count one report. Returns True if the timer fires by it; it is gone then."""
    key = _SECTION + command.timer.encode()
    stored = transaction.get(key)
    timer: Timer | None = None if stored is None else _RECORDS.parse_stored(stored)
    if timer is None or timer.set_at != command.set_at or command.replica in timer.reported:
        return False
    reported = (*timer.reported, command.replica)
    if len(reported) >= timer.needed:
        transaction.delete(key)
        return True
    transaction.put(key, _RECORDS.encode(attrs.evolve(timer, reported=reported)))
    return False


@attrs.define(eq=False)
class TimeEngine(CommandLayer):
    """Fires timers through the log."""

    name: ClassVar[str] = NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Set, Cancel, Elapsed))

    settings: TimeSettings = attrs.field(factory=TimeSettings, kw_only=True)
    on_fired: dict[str, Fired] = attrs.field(factory=dict, init=False)
    """Handlers by the first part of a timer's name."""
    _running: LivenessTimers = attrs.field(factory=LivenessTimers, init=False)
    _fired: int = attrs.field(default=0, init=False)

    async def set(self, timer: str, seconds: float) -> LogPosition:
        """Start or restart a timer that fires in `seconds`; returns its log position.

        Raises:
            UnsupportedError: the engine is not enabled.
            OverloadedError: there are too many timers.
            UnavailableError: unknown outcome.
        """
        position: LogPosition = await self.command(Set(timer, int(seconds * 1000)))
        return position

    async def cancel(self, timer: str) -> bool:
        """Drop a timer; returns True if it was there, and has not fired before. Raises
        UnavailableError: unknown outcome."""
        cancelled: bool = await self.command(Cancel(timer))
        return cancelled

    def timers(self) -> Mapping[str, Timer]:
        """Timers that are set, as of the applied state."""
        return timers(self.context.store)

    def load(self) -> None:
        self._learn()

    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> Any:
        if isinstance(command, Cancel):
            return cancel(transaction, command)
        enabled = is_enabled(transaction, self.name)
        if isinstance(command, Elapsed):
            if not enabled or not count(transaction, command):
                return False
            act = self.on_fired.get(command.timer.partition("/")[0])
            if act is not None:
                act(transaction, command.timer, position)
            return True
        if not enabled:
            raise UnsupportedError("the engine 'time' is not enabled")
        put(transaction, command, position)
        return position

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        self._learn()
        self._fired += isinstance(command, Elapsed) and result

    @property
    def tick_seconds(self) -> float:
        return self.settings.tick_seconds

    async def tick(self) -> None:
        now, own = self.context.environment.clock.monotonic(), self.context.identity.name
        for name, timer in self.timers().items():
            if own not in timer.reported and self._running.silent(name, timer.milliseconds / 1000, now):
                await self.command(Elapsed(name, timer.set_at, own))

    def _learn(self) -> None:
        now = self.context.environment.clock.monotonic()
        self._running.learn({name: timer.set_at for name, timer in self.timers().items()}, now)

    def metrics(self) -> list[MetricFamily]:
        return [
            MetricFamily("virtuallog_database_timers", MetricKind.GAUGE, "Timers that are set.", (Sample({}, len(self.timers())),)),
            MetricFamily("virtuallog_database_timers_fired", MetricKind.COUNTER, "Timers that fired while this replica ran.",
                   (Sample({}, self._fired),)),
        ]  # fmt: skip
