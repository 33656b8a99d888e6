"""Metrics of the chain as a client knows it, and of the changes that this client has made.

A change counts at the client that makes it: for an operator's `reconfigure` that is the node that was asked.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import SECONDS, Counter, Counters, Distribution, Histograms, MetricFamily
from virtuallog.contract.register import REGISTER_BYTES_MAX, Register
from virtuallog.reconfiguration.core.chain_change import (
    Change,
    ChangeMembers,
    CheckSegmentTail,
    Close,
    Effect,
    Extend,
    Modify,
    PutRegister,
    ReadRegister,
    SealSegment,
    Truncate,
)

CHANGES: Final[dict[type[Change], str]] = {
    Extend: "extend",
    Close: "close",
    Truncate: "truncate",
    Modify: "modify",
    ChangeMembers: "members",
}
PHASES: Final[dict[type[Effect], str]] = {
    SealSegment: "seal",
    CheckSegmentTail: "tail",
    PutRegister: "put",
    ReadRegister: "read",
}
WON: Final = "won"
LOST: Final = "lost"
"""Outcome if another client's change came first, or there was nothing to do."""
FAILED: Final = "failed"
"""Outcome if the change ended with an error, mostly an unknown outcome."""
OUTCOMES: Final = (WON, LOST, FAILED)


@attrs.frozen(kw_only=True)
class ChainStatistics:
    """Changes of the chain by one client since it was made, at one moment."""

    version: int
    """Version of the register as the client knows it; 0 before it has seen one."""
    segments: int
    """Segments of that chain."""
    won: int
    """Changes made."""
    lost: int
    """Changes not made, as another client's came first, or there was nothing to do."""
    failed: int
    """Changes that ended with an error, mostly an unknown outcome."""
    roll_forwards: int
    """Changes begun because another client's was left half done, or the loglet asked for a successor."""
    seal_seconds: Distribution
    tail_seconds: Distribution
    put_seconds: Distribution


@attrs.define(eq=False)
class ChainMetrics:
    """Counts for one client."""

    changes: Counters = attrs.field(
        factory=lambda: Counters(
            "virtuallog_reconfigurations_total",
            "Changes of the chain, or of who decides it, by outcome.",
            ("change", "outcome"),
            {(change, outcome): 0 for change in CHANGES.values() for outcome in OUTCOMES},
        )
    )
    seconds: Histograms = attrs.field(
        factory=lambda: Histograms.of(
            "virtuallog_reconfiguration_seconds",
            "A change that won, from its first phase until it was decided.",
            "change",
            CHANGES.values(),
            SECONDS,
        )
    )
    phase_seconds: Histograms = attrs.field(
        factory=lambda: Histograms.of(
            "virtuallog_reconfiguration_phase_seconds",
            "One phase of a change: seal, tail, put; read where another client came first.",
            "phase",
            PHASES.values(),
            SECONDS,
        )
    )
    roll_forwards: Counter = attrs.field(
        factory=lambda: Counter(
            "virtuallog_roll_forwards_total", "Changes begun because a loglet was sealed, or failed, without successor."
        )
    )

    def phase(self, effect: Effect, seconds: float) -> None:
        """Count one phase of a change."""
        self.phase_seconds.observe(PHASES[type(effect)], seconds)

    def ended(self, change: Change, outcome: str, seconds: float) -> None:
        """Count a change that has ended."""
        kind = CHANGES[type(change)]
        self.changes.add(kind, outcome)
        if outcome == WON:
            self.seconds.observe(kind, seconds)

    def statistics(self, register: Register | None) -> ChainStatistics:
        """Figures of this moment; `register` is the one that the client knows, None before the first."""
        return ChainStatistics(
            version=register.version if register else 0,
            segments=len(register.chain.segments) if register else 0,
            roll_forwards=int(self.roll_forwards.value),
            won=self._count(WON),
            lost=self._count(LOST),
            failed=self._count(FAILED),
            seal_seconds=self.phase_seconds.distribution("seal"),
            tail_seconds=self.phase_seconds.distribution("tail"),
            put_seconds=self.phase_seconds.distribution("put"),
        )

    def metrics(self, register: Register | None) -> list[MetricFamily]:
        """The same figures as metric families."""
        own = (self.changes, self.seconds, self.phase_seconds, self.roll_forwards)
        return [*(instrument.family() for instrument in own), *_register(register)]

    def _count(self, outcome: str) -> int:
        return int(sum(count for (_, how), count in self.changes.values.items() if how == outcome))


def _register(register: Register | None) -> list[MetricFamily]:
    """Metrics of the register; zeros before it is known."""
    version, segments, members, size = 0, 0, 0, 0
    if register is not None:
        version, segments = register.version, len(register.chain.segments)
        members, size = len(register.members), len(register.encode())
    return [
        metrics.gauge("virtuallog_chain_version", "Version of the register as this node knows it.", version),
        metrics.gauge("virtuallog_chain_segments", "Segments of the chain.", segments),
        metrics.gauge(
            "virtuallog_chain_trim_point", "Where the chain begins.", register.chain.start if register else 0
        ),
        metrics.gauge("virtuallog_chain_open", "1 unless the log is closed on purpose.", _is_open(register)),
        metrics.gauges(
            "virtuallog_chain_active",
            "1 for the kind of the loglet that takes appends. No sample while the log is closed.",
            "kind",
            _active_kind(register),
        ),
        metrics.gauge("virtuallog_metastore_members", "Nodes that decide the register.", members),
        metrics.gauge("virtuallog_register_bytes", "Size of the register.", size),
        metrics.gauge("virtuallog_register_limit_bytes", "Planned changes stop at this size.", REGISTER_BYTES_MAX),
    ]


def _is_open(register: Register | None) -> bool:
    return register is not None and register.chain.active is not None


def _active_kind(register: Register | None) -> dict[str, float]:
    active = register.chain.active if register else None
    return {active.kind: 1} if active else {}
