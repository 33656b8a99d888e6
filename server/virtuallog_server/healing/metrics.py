"""Metrics of a node's healing."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import SECONDS, Counters, Histograms, MetricFamily

ACTIONS: Final = ("extend", "rebuild")
DONE: Final = "done"
FAILED: Final = "failed"


@attrs.define(eq=False)
class HealingMetrics:
    """Counts for one node. If several nodes see the same failure, usually one acts."""

    actions: Counters = attrs.field(
        factory=lambda: Counters(
            "virtuallog_healing_actions_total",
            "Changes that this node has made without being asked, by outcome.",
            ("action", "outcome"),
            {(action, outcome): 0 for action in ACTIONS for outcome in (DONE, FAILED)},
        )
    )
    seconds: Histograms = attrs.field(
        factory=lambda: Histograms.of(
            "virtuallog_healing_seconds", "One such change, from its begin to its end.", "action", ACTIONS, SECONDS
        )
    )

    def ended(self, action: str, outcome: str, seconds: float) -> None:
        """Count an action that has ended."""
        self.actions.add(action, outcome)
        self.seconds.observe(action, seconds)

    def metrics(self, suspects: int) -> list[MetricFamily]:
        """The current values."""
        return [
            self.actions.family(),
            self.seconds.family(),
            metrics.gauge("virtuallog_healing_suspects", "Nodes that this one takes for failed.", suspects),
        ]
