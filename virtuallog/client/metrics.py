"""Metrics of the appenders of one client, updated once per batch."""

from __future__ import annotations

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import BYTES, COUNTS, SECONDS, Counter, Counters, Distribution, Histogram, MetricFamily


@attrs.frozen(kw_only=True)
class AppendStatistics:
    """The appends of a client since it was made, over all its appenders, closed ones included."""

    entries: int
    """Acknowledged entries."""
    batches: int
    """Acknowledged batches."""
    failed_entries: int
    """Entries whose append raised; some may be in the log all the same (`UnavailableError`)."""
    offers_again: int
    """Batches offered once more, after a retryable error."""
    seconds: Distribution
    """Seconds per batch from its first `append` to the acknowledgement. Its other callers waited less."""
    batch_entries: Distribution
    batch_bytes: Distribution
    interruption_seconds: Distribution
    """Seconds per change of the segment, from the end of the old one to the first acknowledgement of the new."""
    queued_bytes: int
    """Bytes that wait for a batch now."""
    batches_in_flight: int
    """Batches cut and not settled now."""


@attrs.define(eq=False)
class AppendMetrics:
    """Counts for the appenders of one client."""

    seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_append_seconds", "Of a batch: from its first append call until its acknowledgement.", SECONDS
        )
    )
    batch_entries: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_append_batch_entries", "Entries in an acknowledged batch.", COUNTS)
    )
    batch_bytes: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_append_batch_bytes", "Bytes of an acknowledged batch.", BYTES)
    )
    interruption_seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_append_interruption_seconds",
            "From the moment when a segment took no more appends until its successor acknowledged the first.",
            SECONDS,
        )
    )
    failed_entries: Counter = attrs.field(
        factory=lambda: Counter("virtuallog_append_failed_entries_total", "Entries whose callers were told an error.")
    )
    again: Counters = attrs.field(
        factory=lambda: Counters(
            "virtuallog_append_offers_again_total", "Batches offered once more, by the error before.", ("error",)
        )
    )

    def acknowledged(self, entries: int, size: int, seconds: float) -> None:
        """Count a batch that is in the log; `size` in bytes."""
        self.seconds.observe(seconds)
        self.batch_entries.observe(entries)
        self.batch_bytes.observe(size)

    def statistics(self, queued_bytes: int, batches_in_flight: int) -> AppendStatistics:
        """Figures of this moment."""
        seconds, entries = self.seconds.distribution(), self.batch_entries.distribution()
        return AppendStatistics(
            entries=int(entries.total),
            batches=entries.count,
            failed_entries=int(self.failed_entries.value),
            offers_again=int(sum(self.again.values.values())),
            seconds=seconds,
            batch_entries=entries,
            batch_bytes=self.batch_bytes.distribution(),
            interruption_seconds=self.interruption_seconds.distribution(),
            queued_bytes=queued_bytes,
            batches_in_flight=batches_in_flight,
        )

    def metrics(self, queued_bytes: int, queue_bytes_max: int, batches_in_flight: int) -> list[MetricFamily]:
        """The same figures as metric families."""
        own = (self.seconds, self.batch_entries, self.batch_bytes, self.interruption_seconds, self.failed_entries)
        return [
            *(instrument.family() for instrument in own),
            self.again.family(),
            metrics.gauge("virtuallog_append_batches_in_flight", "Batches not settled.", batches_in_flight),
            *metrics.queue_bytes("appender", queued_bytes, queue_bytes_max),
        ]
