"""What a LogServer tells about itself.                                                                           Pure.

Figures are added per request that is written or read: a wave, a seal, a trim, never an entry. Places are those of the
newest loglet here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog import metrics
from virtuallog.instruments import BYTES, SECONDS, Histogram, Histograms
from virtuallog.metrics import Family
from virtuallog_loglets.native.durable import Change, Floor, Sealed, Trimmed
from virtuallog_loglets.native.log_server import WAITERS_MAX, LogServer

_REQUESTS: Final[dict[type[Change], str]] = {Sealed: "seal", Trimmed: "trim", Floor: "forget"}


@attrs.define(eq=False)
class LogServerMeter:
    """Counts for one LogServer."""

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
        """One request is durable."""
        request = "repair" if repairs else _REQUESTS.get(type(changes[0]), "store")
        self.write_seconds.observe(request, seconds)

    def read(self, blobs: Sequence[bytes], seconds: float) -> None:
        """One answer to a read is complete."""
        self.read_seconds.observe(seconds)
        self.read_bytes.observe(sum(map(len, blobs)))

    def metrics(self, core: LogServer, reads_waiting: int, reads_max: int) -> list[Family]:
        """As of now."""
        own = (self.write_seconds, self.read_seconds, self.read_bytes)
        return [
            *(instrument.family() for instrument in own),
            *_places(core),
            *metrics.queue_items("log_server_reads", reads_waiting, reads_max),
            *metrics.queue_items("log_server_waiters", core.waiting, WAITERS_MAX),
        ]


def _places(core: LogServer) -> list[Family]:
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
