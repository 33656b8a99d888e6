"""Metrics of a write-ahead log. Figures are added per group."""

from __future__ import annotations

from collections.abc import Callable

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
    writing_seconds: float
    poisoned: bool
    full: bool


@attrs.define(eq=False)
class WalMetrics:
    """Counters and histograms of one log. A node has two logs, so each has names of its own."""

    sync_seconds: Histogram
    group_records: Histogram
    group_bytes: Histogram
    _files: Callable[[WalStatistics], list[MetricFamily]]
    _queue: str
    """Name of the queue in front of the disk."""

    @classmethod
    def of_log_server(cls) -> WalMetrics:
        """Metrics of the log of a LogServer."""
        return cls(*_groups("virtuallog_wal"), lambda now: _files("virtuallog_wal", now), "wal")

    @classmethod
    def of_raft(cls) -> WalMetrics:
        """Metrics of the log of a node's raft replicas."""
        return cls(*_groups("virtuallog_raft_wal"), lambda now: _files("virtuallog_raft_wal", now), "raft_wal")

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
            *self._files(now),
            *metrics.queue_bytes(self._queue, now.queued_bytes, queue_bytes_max),
        ]


def _groups(prefix: str) -> tuple[Histogram, Histogram, Histogram]:
    return (
        Histogram(f"{prefix}_sync_seconds", "One write of a group and its sync.", SECONDS),
        Histogram(f"{prefix}_group_records", "Records made durable by one sync.", COUNTS),
        Histogram(f"{prefix}_group_bytes", "Bytes made durable by one sync.", BYTES),
    )


def _files(prefix: str, now: WalStatistics) -> list[MetricFamily]:
    return [
        metrics.counter(f"{prefix}_syncs_total", "Syncs, those that close a segment included.", now.syncs),
        metrics.gauge(
            f"{prefix}_writing_seconds", "Age of the write and sync under way; 0 if there is none.", now.writing_seconds
        ),
        metrics.gauge(f"{prefix}_segments", "Segment files that can be read.", now.segments),
        metrics.gauge(f"{prefix}_bytes", "Size of all files, the one made ahead included.", now.bytes),
        metrics.gauge(f"{prefix}_free_bytes", "Room in the files that there are.", now.free_bytes),
        metrics.gauge(f"{prefix}_full", "1 if the disk had no room for the next segment.", now.full),
        metrics.gauge(f"{prefix}_poisoned", "1 if a write or a sync has failed.", now.poisoned),
    ]
