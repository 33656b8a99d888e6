"""Metrics of log servers and sequencers.

Figures of a log server are added per request that is written or read (wave, seal, trim), never per
entry. Its gauges are those of the newest loglet on the node.

Figures of sequencers are added per wave and summed over all sequencers that the node has had. Their
gauges are those of the newest sequencer that still takes appends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import (
    BYTES,
    COUNTS,
    SECONDS,
    Counter,
    Counters,
    Histogram,
    Histograms,
    MetricFamily,
    MetricKind,
    Sample,
)
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.core.durable_state import Change, LogletSealed, LogletTrimmed
from virtuallog_loglets.native.core.log_server import WAITERS_MAX, LogServer
from virtuallog_loglets.native.core.sequencer import QUEUE_BYTES_MAX, Sequencer
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.tombstones import VersionFloor


@attrs.define(eq=False)
class SequencerMetrics:
    """Counters and histograms of the sequencers of one node."""

    commit_seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_sequencer_commit_seconds",
            "From the first send of a wave until a majority has stored it.",
            SECONDS,
        )
    )
    first_commit_seconds: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_sequencer_first_commit_seconds",
            "From the making of a sequencer, at its first append, until its first commit.",
            SECONDS,
        )
    )
    wave_entries: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_sequencer_wave_entries", "Entries in a committed wave.", COUNTS)
    )
    wave_batches: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_sequencer_wave_batches", "Batches in a committed wave.", COUNTS)
    )
    wave_bytes: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_sequencer_wave_bytes", "Bytes of a committed wave.", BYTES)
    )
    made: Counter = attrs.field(
        factory=lambda: Counter("virtuallog_sequencers_total", "Sequencers that this node has made.")
    )
    resumes: Counters = attrs.field(
        factory=lambda: Counters(
            "virtuallog_sequencer_resends_total",
            "Times that a LogServer did not take a wave, and was sent it and all behind it again.",
            ("server",),
        )
    )

    def metrics(self, sequencers: Iterable[Sequencer]) -> list[MetricFamily]:
        """Metric families of all `sequencers`, given oldest first."""
        times = (self.commit_seconds, self.first_commit_seconds)
        own = (*times, self.wave_entries, self.wave_batches, self.wave_bytes, self.made, self.resumes)
        working = [core for core in sequencers if core.stopped is None]
        return [*(instrument.family() for instrument in own), *_sequencer_gauges(working)]

    def committed(self, wave: Wave, seconds: float) -> None:
        """Record a committed wave. A wave that no majority takes is not counted: its batches are
        offered elsewhere."""
        self.commit_seconds.observe(seconds)
        self.wave_entries.observe(wave.entries)
        self.wave_batches.observe(wave.batches)
        self.wave_bytes.observe(len(wave.blob))

    def sent_again(self, server: NodeId) -> None:
        self.resumes.add(str(server))


@attrs.define(eq=False)
class WaveTimes:
    """Send times of one sequencer's uncommitted waves."""

    _meter: SequencerMetrics
    _made_at: float | None
    """When the sequencer was made, in seconds of the monotonic clock; None once something is
    committed."""
    _sent: deque[tuple[Wave, float]] = attrs.field(factory=deque)
    """Uncommitted waves and their send times; at most `WAVES_MAX`."""
    _stop: int = 0

    def sent(self, wave: Wave, now: float) -> None:
        """Record the send of a wave, if it is the first. Later ones go to other servers, or are
        repeated."""
        if wave.first >= self._stop:
            self._stop = wave.stop
            self._sent.append((wave, now))

    def committed(self, tail: int, now: float) -> None:
        """Record that everything below `tail` is on a majority."""
        if self._made_at is not None:
            self._meter.first_commit_seconds.observe(now - self._made_at)
            self._made_at = None
        while self._sent and self._sent[0][0].stop <= tail:
            wave, sent = self._sent.popleft()
            self._meter.committed(wave, now - sent)


def _sequencer_gauges(working: list[Sequencer]) -> list[MetricFamily]:
    """Gauges of the newest sequencer at work; no samples if there is none."""
    newest = working[-1:]
    lags = {str(server): lag for core in newest for server, lag in core.lags.items()}
    return [
        metrics.gauge("virtuallog_sequencers_working", "Sequencers that take appends.", len(working)),
        _sequencer_gauge("virtuallog_sequencer_tail", "Next offset to assign.", [core.tail for core in newest]),
        _sequencer_gauge(
            "virtuallog_sequencer_known_tail", "First offset not committed.", [core.committed for core in newest]
        ),
        _sequencer_gauge(
            "virtuallog_sequencer_waves_in_flight", "Waves not committed.", [core.waves_in_flight for core in newest]
        ),
        metrics.gauges(
            "virtuallog_sequencer_server_lag_entries",
            "Ordered entries that a LogServer has not said to be durable; committed ones it may leave out.",
            "server",
            lags,
        ),
        *metrics.queue_bytes("sequencer", sum(core.queued_bytes for core in newest), QUEUE_BYTES_MAX),
    ]


def _sequencer_gauge(name: str, meaning: str, values: list[int]) -> MetricFamily:
    return MetricFamily(name, MetricKind.GAUGE, meaning, tuple(Sample({}, value) for value in values))


_REQUESTS: Final[dict[type[Change], str]] = {LogletSealed: "seal", LogletTrimmed: "trim", VersionFloor: "forget"}


@attrs.define(eq=False)
class LogServerMetrics:
    """Counters and histograms of one log server."""

    write_seconds: Histograms = attrs.field(
        factory=lambda: Histograms.of(
            "virtuallog_log_server_write_seconds",
            "From a request that changes something until that is durable here.",
            "request",
            ("store", "repair", "seal", "trim", "forget"),
            SECONDS,
        )
    )
    read_seconds: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_log_server_read_seconds", "Reading waves from the disk.", SECONDS)
    )
    read_bytes: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_log_server_read_bytes", "Bytes of waves in one answer.", BYTES)
    )

    def written(self, changes: Sequence[Change], seconds: float, *, repairs: bool) -> None:
        """Record one durable request."""
        request = "repair" if repairs else _REQUESTS.get(type(changes[0]), "store")
        self.write_seconds.observe(request, seconds)

    def read(self, blobs: Sequence[bytes], seconds: float) -> None:
        """Record one complete answer to a read."""
        self.read_seconds.observe(seconds)
        self.read_bytes.observe(sum(map(len, blobs)))

    def metrics(self, core: LogServer, reads_waiting: int, reads_max: int) -> list[MetricFamily]:
        """Metric families at this moment."""
        own = (self.write_seconds, self.read_seconds, self.read_bytes)
        return [
            *(instrument.family() for instrument in own),
            *_log_server_gauges(core),
            *metrics.queue_items("log_server_reads", reads_waiting, reads_max),
            *metrics.queue_items("log_server_waiters", core.waiting, WAITERS_MAX),
        ]


def _log_server_gauges(core: LogServer) -> list[MetricFamily]:
    newest = core.newest_state
    return [
        metrics.gauge("virtuallog_log_server_loglets", "Loglets with state here.", core.loglets),
        metrics.gauge("virtuallog_log_server_local_tail", "First offset not durable here.", newest.local_tail),
        metrics.gauge("virtuallog_log_server_known_tail", "All below is known to be committed.", newest.known_tail),
        metrics.gauge("virtuallog_log_server_trim_point", "First offset that is not trimmed here.", newest.trim),
        metrics.gauge(
            "virtuallog_log_server_lag_entries",
            "Committed entries that are not here, as far as this server knows.",
            max(0, newest.known_tail - newest.local_tail),
        ),
        metrics.gauge("virtuallog_log_server_sealed", "1 if the newest loglet here is sealed.", newest.sealed),
    ]
