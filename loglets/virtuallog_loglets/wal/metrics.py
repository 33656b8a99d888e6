"""Metrics of a write-ahead log. Figures are added per group."""

from __future__ import annotations

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import BYTES, COUNTS, SECONDS, Histogram, MetricFamily


@attrs.frozen(kw_only=True)
class WalStatistics:
    """State of a log at one moment. Counts begin at `open`."""

    segments: int
    bytes: int
    free_bytes: int
    groups: int
    records: int
    syncs: int
    queued_bytes: int
    poisoned: bool
    full: bool


@attrs.define(eq=False)
class WalMetrics:
    """Counters and histograms of one log."""

    sync_seconds: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_wal_sync_seconds", "One write of a group and its sync.", SECONDS)
    )
    group_records: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_wal_group_records", "Records made durable by one sync.", COUNTS)
    )
    group_bytes: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_wal_group_bytes", "Bytes made durable by one sync.", BYTES)
    )

    def synced(self, records: int, size: int, seconds: float) -> None:
        """Record one durable group."""
        self.sync_seconds.observe(seconds)
        self.group_records.observe(records)
        self.group_bytes.observe(size)

    def metrics(self, now: WalStatistics, queue_bytes_max: int) -> list[MetricFamily]:
        """Metric families: the groups so far, and the files as they are."""
        own = (self.sync_seconds, self.group_records, self.group_bytes)
        return [
            *(instrument.family() for instrument in own),
            metrics.counter("virtuallog_wal_syncs_total", "Syncs, those that close a segment included.", now.syncs),
            metrics.gauge("virtuallog_wal_segments", "Segment files that can be read.", now.segments),
            metrics.gauge("virtuallog_wal_bytes", "Size of all files, the one made ahead included.", now.bytes),
            metrics.gauge("virtuallog_wal_free_bytes", "Room in the files that there are.", now.free_bytes),
            metrics.gauge("virtuallog_wal_full", "1 if the disk had no room for the next segment.", now.full),
            metrics.gauge("virtuallog_wal_poisoned", "1 if a write or a sync has failed.", now.poisoned),
            *metrics.queue_bytes("wal", now.queued_bytes, queue_bytes_max),
        ]
