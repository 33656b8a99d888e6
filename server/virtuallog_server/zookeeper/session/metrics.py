"""Metrics of a server's connections. Counts are added per connection, and per sampled write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import SECONDS, Counter, Counters, Histogram, MetricFamily
from virtuallog_server.zookeeper.admin.facts import Latency
from virtuallog_server.zookeeper.wire.connection import Connection
from virtuallog_server.zookeeper.wire.pipeline import PendingReply

_PREFIX: Final = "virtuallog_zookeeper"


@attrs.define(eq=False)
class ZooKeeperMetrics:
    """Counts for one server."""

    rejected: Counter = attrs.field(
        factory=lambda: Counter(f"{_PREFIX}_connections_rejected_total", "Connections of clients that were not let in.")
    )
    complaints: Counters = attrs.field(
        factory=lambda: Counters.of(
            f"{_PREFIX}_complaints_total",
            "What clients did wrong, or one too many: the lines in the log, those not written included.",
            "what",
            ("connection refused",),
        )
    )
    write_seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            f"{_PREFIX}_write_seconds",
            "From a write's arrival to its answer; one at a time of each connection.",
            SECONDS,
        )
    )
    received: int = 0
    """Frames received on connections that are gone."""
    sent: int = 0
    _least: float = attrs.field(default=0.0, init=False)
    _most: float = attrs.field(default=0.0, init=False)
    _total: float = attrs.field(default=0.0, init=False)
    _count: int = attrs.field(default=0, init=False)
    _since_reset: tuple[int, int] = attrs.field(default=(0, 0), init=False)
    """Frames received and sent at the last reset."""

    def took(self, seconds: float) -> None:
        """Count a write that has been answered."""
        self.write_seconds.observe(seconds)
        self._least = seconds if not self._count else min(self._least, seconds)
        self._most = max(self._most, seconds)
        self._total += seconds
        self._count += 1

    def left(self, connection: Connection) -> None:
        """Add the counts of a connection that has ended."""
        self.received += connection.received_frames
        self.sent += connection.sent_frames

    def latency(self) -> Latency:
        """Latencies since the last reset, in milliseconds."""
        mean = self._total / self._count if self._count else 0.0
        return Latency(least=self._least * 1000, mean=mean * 1000, most=self._most * 1000)

    def frames(self, connections: Iterable[Connection]) -> tuple[int, int]:
        """Frames received and sent since the last reset."""
        received, sent = self._frames(connections)
        return received - self._since_reset[0], sent - self._since_reset[1]

    def reset(self, connections: Iterable[Connection]) -> None:
        """Reset the counts of four-letter words. Those for Prometheus only grow."""
        self._since_reset = self._frames(connections)
        self._least = self._most = self._total = 0.0
        self._count = 0

    def metrics(
        self, connections: Sequence[Connection], connections_max: int, held_bytes: int, held_bytes_max: int
    ) -> list[MetricFamily]:
        """The current values."""
        received, sent = self._frames(connections)
        outstanding = sum(len(each.pipeline) for each in connections)
        return [
            self.rejected.family(),
            self.complaints.family(),
            self.write_seconds.family(),
            metrics.counter(f"{_PREFIX}_received_frames_total", "Requests that came from clients.", received),
            metrics.counter(f"{_PREFIX}_sent_frames_total", "Answers and events that went to clients.", sent),
            metrics.gauge(f"{_PREFIX}_outstanding_requests", "Requests of clients without an answer.", outstanding),
            *metrics.queue_items("zookeeper_connections", len(connections), connections_max),
            *metrics.queue_bytes("zookeeper_held", held_bytes, held_bytes_max),
        ]

    def _frames(self, connections: Iterable[Connection]) -> tuple[int, int]:
        received, sent = self.received, self.sent
        for each in connections:
            received += each.received_frames
            sent += each.sent_frames
        return received, sent


@attrs.define(eq=False)
class WriteSampler:
    """Measures one write at a time of one connection: the next one after the last was answered. With one write outstanding these are
    all of them, with many a share that costs nothing.
    """

    _now: Callable[[], float]
    _took: Callable[[float], None]
    _turn: PendingReply | None = attrs.field(default=None, init=False)
    _since: float = attrs.field(default=0.0, init=False)

    def begin(self, turn: PendingReply) -> None:
        if self._turn is None:
            self._turn, self._since = turn, self._now()

    def end(self, turn: PendingReply) -> None:
        if self._turn is turn:
            self._turn = None
            self._took(self._now() - self._since)
