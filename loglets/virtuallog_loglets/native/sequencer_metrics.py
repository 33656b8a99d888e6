"""What the sequencers of a node tell about themselves.                                                           Pure.

Figures are added per wave. Those of all sequencers that a node has had add up; places are those of the newest one that
still takes appends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from virtuallog import metrics
from virtuallog.instruments import BYTES, COUNTS, SECONDS, Counter, Counters, Histogram
from virtuallog.metrics import Family, Kind, Sample
from virtuallog.types import NodeId
from virtuallog_loglets.native.sequencer import QUEUE_BYTES_MAX, Sequencer
from virtuallog_loglets.native.wave import Wave


@attrs.define(eq=False)
class SequencerMeter:
    """Counts for the sequencers of one node."""

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

    def metrics(self, sequencers: Iterable[Sequencer]) -> list[Family]:
        """Of all `sequencers`, oldest first."""
        times = (self.commit_seconds, self.first_commit_seconds)
        own = (*times, self.wave_entries, self.wave_batches, self.wave_bytes, self.made, self.resumes)
        working = [core for core in sequencers if core.stopped is None]
        return [*(instrument.family() for instrument in own), *_places(working)]

    def committed(self, wave: Wave, seconds: float) -> None:
        """A wave is on a majority. One that no majority takes is not counted: its batches are offered elsewhere."""
        self.commit_seconds.observe(seconds)
        self.wave_entries.observe(wave.entries)
        self.wave_batches.observe(wave.batches)
        self.wave_bytes.observe(len(wave.blob))

    def sent_again(self, server: NodeId) -> None:
        self.resumes.add(str(server))


@attrs.define(eq=False)
class WaveTimes:
    """When the waves of one sequencer left."""

    _meter: SequencerMeter
    _made_at: float | None
    """None once something is committed."""
    _sent: deque[tuple[Wave, float]] = attrs.field(factory=deque)
    """Waves that are not committed, and when they left: at most `WAVES_MAX`."""
    _stop: int = 0

    def is_new(self, wave: Wave) -> bool:
        """Whether this is the first send of the wave: the others are to other servers, or repeated."""
        return wave.first >= self._stop

    def sent(self, wave: Wave, now: float) -> None:
        """For a new wave."""
        self._stop = wave.stop
        self._sent.append((wave, now))

    def committed(self, tail: int, now: float) -> None:
        """All below `tail` is on a majority."""
        if self._made_at is not None:
            self._meter.first_commit_seconds.observe(now - self._made_at)
            self._made_at = None
        while self._sent and self._sent[0][0].stop <= tail:
            wave, sent = self._sent.popleft()
            self._meter.committed(wave, now - sent)


def _places(working: list[Sequencer]) -> list[Family]:
    """Where the newest sequencer at work stands; no samples if there is none."""
    newest = working[-1:]
    lags = {str(server): lag for core in newest for server, lag in core.lags.items()}
    return [
        metrics.gauge("virtuallog_sequencers_working", "Sequencers that take appends.", len(working)),
        _place("virtuallog_sequencer_tail", "Next offset to assign.", [core.tail for core in newest]),
        _place("virtuallog_sequencer_known_tail", "First offset not committed.", [core.committed for core in newest]),
        _place(
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


def _place(name: str, meaning: str, values: list[int]) -> Family:
    return Family(name, Kind.GAUGE, meaning, tuple(Sample({}, value) for value in values))
