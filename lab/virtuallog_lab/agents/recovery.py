"""Policies of a master: agents that do not come back after a failover, and records that grow old.

returns = AgentReturns(settings, known agents, now)      at recovery
returns.registered(agent)                                the agent is there
for agent in returns.lost(now): apply MarkUnreachable    from the timeout on, at a bounded rate

garbage.due(registry, now) -> Prune | None               from time to time
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError, TerminalError
from virtuallog_database.registrar.core.tables import Registry
from virtuallog_lab.agents.agent_operations import Prune
from virtuallog_lab.agents.records import ADMITTED, GONE, UNREACHABLE

RETURN_SECONDS: Final = 600.0
"""Time that agents get to register again: Mesos' default, and its minimum."""
DAY_SECONDS: Final = 86400.0
PRUNE_MAX: Final = 20_000
"""Most records of one removal. Mesos prunes all at once; here an operation is one command of the log, of at most 2 MiB."""


@attrs.define
class RemovalLimitError(TerminalError):
    """Too many agents did not come back after a failover: find the reason, or raise the limit.

    A network that is cut would otherwise cost all their tasks.
    """

    missing: int
    known: int
    limit_percent: int

    def __str__(self) -> str:
        return f"{self.missing} of {self.known} agents did not register again, more than {self.limit_percent} percent"


@attrs.frozen
class RemovalRate:
    """Bound on removals: `count` at once, and on average `count` in each period."""

    count: int = attrs.field(validator=attrs.validators.ge(1))
    seconds: float = attrs.field(validator=attrs.validators.gt(0))


@attrs.define(eq=False)
class TokenBucket:
    """Tokens that come at a constant rate. It is full at first."""

    _rate: RemovalRate
    _full_time: float = attrs.field(default=float("-inf"), init=False)
    """Time at which it is full again."""

    def take(self, wanted: int, now: float) -> int:
        """Take up to so many tokens; returns how many."""
        for taken in range(wanted):
            if now < self.next_time():
                return taken
            self._full_time = max(self._full_time, now) + self._rate.seconds / self._rate.count
        return wanted

    def next_time(self) -> float:
        """Time from which there is a token."""
        return self._full_time - (self._rate.count - 1) * self._rate.seconds / self._rate.count


@attrs.frozen
class ReturnSettings:
    """Policy for agents after a failover."""

    timeout_seconds: float = RETURN_SECONDS
    limit_percent: int = 100
    """Most agents that are removed without a human, of those known at recovery. 100: there is no limit."""
    rate: RemovalRate | None = None
    """None if they are all removed at once."""

    def __attrs_post_init__(self) -> None:
        if self.timeout_seconds < RETURN_SECONDS:
            raise InvalidSettingError("timeout_seconds", f"agents need at least {RETURN_SECONDS:g} s to register again")
        if not 0 <= self.limit_percent <= 100:
            raise InvalidSettingError("limit_percent", "a share is between 0 and 100 percent")


@attrs.define(eq=False)
class AgentReturns:
    """Agents that a new master has found in the registry and not seen so far.

    Args:
        settings: policy.
        known: agents that were admitted at recovery.
        started: time of the recovery. All times are of one clock.
    """

    settings: ReturnSettings
    known: tuple[str, ...]
    started: float
    _missing: dict[str, None] = attrs.field(init=False)
    """In the order in which they were admitted."""
    _bucket: TokenBucket | None = attrs.field(init=False)
    _is_checked: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._missing = dict.fromkeys(self.known)
        self._bucket = None if self.settings.rate is None else TokenBucket(self.settings.rate)

    @classmethod
    def of(cls, settings: ReturnSettings, registry: Registry, now: float) -> AgentReturns:
        """The admitted agents of a recovered registry."""
        return cls(settings, tuple(key for key, _ in registry.items(ADMITTED)), now)

    @property
    def missing(self) -> tuple[str, ...]:
        """Agents that have not come back, and have not been given out as lost."""
        return tuple(self._missing)

    def registered(self, agent: str) -> None:
        """Strike out an agent: it is there, or an operator has removed it. It is not lost, unless that was said before."""
        self._missing.pop(agent, None)

    def lost(self, now: float) -> tuple[str, ...]:
        """Agents to mark unreachable now: none before the timeout, and each once.

        Raises:
            RemovalLimitError: more than the limit are missing at the timeout. Raised again until enough are back.
        """
        if now < self.started + self.settings.timeout_seconds or not self._missing:
            return ()
        if not self._is_checked:
            missing, known = len(self._missing), len(self.known)
            if missing * 100 > known * self.settings.limit_percent:
                raise RemovalLimitError(missing, known, self.settings.limit_percent)
            self._is_checked = True
        count = len(self._missing) if self._bucket is None else self._bucket.take(len(self._missing), now)
        found = tuple(agent for agent, _ in zip(self._missing, range(count), strict=False))
        for agent in found:
            del self._missing[agent]
        return found

    def next_time(self) -> float | None:
        """Time at which `lost` has something to say; None if no agent is missing."""
        if not self._missing:
            return None
        timeout = self.started + self.settings.timeout_seconds
        return timeout if self._bucket is None or not self._is_checked else self._bucket.next_time()


@attrs.frozen
class GarbageSettings:
    """Policy for records of agents that are unreachable or gone. It bounds each of the two lists."""

    age_seconds: float = 14 * DAY_SECONDS
    """Oldest record that is kept."""
    count_max: int = 102_400
    """Most records that are kept; the oldest go first."""
    interval_seconds: float = 900.0


@attrs.define(eq=False)
class GarbageCollection:
    """Removal of old records, as an ordinary operation. With it, "gone for good" holds only as long as a record is kept."""

    settings: GarbageSettings
    next_time: float
    """Time of the next removal."""

    def due(self, registry: Registry, now: float) -> Prune | None:
        """The operation for now; None if it is not yet time, or nothing is old."""
        if now < self.next_time:
            return None
        found = garbage(self.settings, registry, now)
        is_full = found is not None and len(found.unreachable) + len(found.gone) >= PRUNE_MAX
        self.next_time = now if is_full else now + self.settings.interval_seconds
        return found


def garbage(settings: GarbageSettings, registry: Registry, now: float) -> Prune | None:
    """One operation that prunes both lists by count and then by age, at most PRUNE_MAX records; None if nothing is old."""
    lost = _old(settings, [(key, lost.time) for key, lost in registry.items(UNREACHABLE)], now)
    unreachable = tuple(islice(lost, PRUNE_MAX))
    gone = tuple(
        islice(
            _old(settings, [(key, gone.time) for key, gone in registry.items(GONE)], now), PRUNE_MAX - len(unreachable)
        )
    )
    return Prune(unreachable, gone) if unreachable or gone else None


def _old(settings: GarbageSettings, agents: list[tuple[str, float]], now: float) -> Iterator[str]:
    excess = len(agents) - settings.count_max
    for index, (agent, time) in enumerate(agents):
        if index < excess or now - time > settings.age_seconds:
            yield agent
