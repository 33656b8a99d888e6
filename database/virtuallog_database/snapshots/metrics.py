"""Metrics of the snapshots that a host takes and restores, updated per snapshot, restore and piece."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.metrics import SECONDS, Counter, Histogram, MetricFamily, gauge

RESTORE_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
"""Histogram bounds: from a small tree on the same machine to tens of gigabytes, or a peer that
first has to come back."""


@attrs.define(eq=False)
class SnapshotMetrics:
    """Counts for one host. It exists before the first incarnation of its replica and between two of
    them: that is when snapshots are restored, and when operators want to see the progress."""

    snapshot_seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_database_snapshot_seconds", "Taking one snapshot, until it is durable.", SECONDS
        )
    )
    newest_bytes: int = attrs.field(default=0, init=False)
    """Bytes of all files of the newest snapshot, including files shared with other snapshots."""
    restore_seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_database_restore_seconds",
            "From the moment when the log can no longer help until a peer's snapshot is installed.",
            RESTORE_SECONDS,
        )
    )
    restore_bytes: Counter = attrs.field(
        factory=lambda: Counter(
            "virtuallog_database_restore_bytes_total", "Bytes of snapshots that were fetched from peers."
        )
    )

    def took(self, seconds: float, size: int) -> None:
        """Record a durable snapshot."""
        self.snapshot_seconds.observe(seconds)
        self.newest_bytes = size

    def restored(self, seconds: float) -> None:
        """Record an installed snapshot."""
        self.restore_seconds.observe(seconds)

    @property
    def restores(self) -> int:
        """Number of restores so far."""
        return self.restore_seconds.distribution().count

    def metrics(self) -> list[MetricFamily]:
        """Metrics as of now."""
        return [
            self.snapshot_seconds.family(),
            gauge("virtuallog_database_snapshot_bytes", "Size of the newest snapshot taken.", self.newest_bytes),
            self.restore_seconds.family(),
            self.restore_bytes.family(),
        ]
