"""Metrics of a node's acceptor. The register changes rarely: every request is counted."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import SECONDS, Histograms, MetricFamily
from virtuallog_metastore.messages import Accept, Ask, Learn, Prepare

_REQUESTS: Final[dict[type, str]] = {Ask: "ask", Prepare: "prepare", Accept: "accept", Learn: "learn"}


@attrs.define(eq=False)
class AcceptorMetrics:
    """Counters of one acceptor."""

    known_version: int = -1
    """Newest version of the register that it knows; -1 if none."""
    request_seconds: Histograms = attrs.field(
        factory=lambda: Histograms.of(
            "virtuallog_metastore_request_seconds",
            "One request to the acceptor: from its turn until what it changes is durable.",
            "request",
            _REQUESTS.values(),
            SECONDS,
        )
    )
    waiting: int = 0
    """Number of requests that wait for their turn."""

    def performed(self, request: object, seconds: float) -> None:
        """Count one completed request."""
        self.request_seconds.observe(_REQUESTS[type(request)], seconds)

    def metrics(self, waiting_max: int) -> list[MetricFamily]:
        """Return the metrics as of now."""
        return [
            self.request_seconds.family(),
            metrics.gauge(
                "virtuallog_metastore_known_version",
                "Newest version of the register that this acceptor knows; -1: none.",
                self.known_version,
            ),
            *metrics.queue_items("metastore", self.waiting, waiting_max),
        ]
