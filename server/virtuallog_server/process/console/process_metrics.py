"""Metrics of this process, its disk, its clock and its certificate."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

import attrs
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily, MetricKind, Sample
from virtuallog.contract.ports import Clock
from virtuallog.rpc.security.credentials import Credentials
from virtuallog_server.process.console.exposition import Collector


def process_collectors() -> Sequence[Collector]:
    """The library's own collectors: memory, processor time, open files (`process_*`), garbage collection, Python's version."""
    registry = CollectorRegistry()
    return [ProcessCollector(registry=registry), GCCollector(registry=registry), PlatformCollector(registry=registry)]


@attrs.frozen
class DataDirectoryMetrics:
    """Metrics of the disk under the data directory, from the file system's own counters, which it keeps in memory."""

    path: Path

    def metrics(self) -> Sequence[MetricFamily]:
        disk = os.statvfs(self.path)
        return [
            metrics.gauge(
                "virtuallog_disk_free_bytes", "Free on the data directory's disk.", disk.f_bavail * disk.f_frsize
            ),
            metrics.gauge("virtuallog_disk_bytes", "Size of the data directory's disk.", disk.f_blocks * disk.f_frsize),
        ]


@attrs.frozen
class ClockMetrics:
    """The clock of this machine. Prometheus compares it with its own, and so with those of other nodes."""

    clock: Clock

    def metrics(self) -> Sequence[MetricFamily]:
        return [
            metrics.gauge("virtuallog_clock_seconds", "The node's clock, in seconds since 1970.", self.clock.wall())
        ]


@attrs.frozen
class CertificateMetrics:
    """The certificate in use."""

    credentials: Credentials | None
    """None if there is no TLS. Then the family has no sample."""

    def metrics(self) -> Sequence[MetricFamily]:
        loaded = [] if self.credentials is None else [self.credentials.current()]
        ends = tuple(Sample({}, ssl.cert_time_to_seconds(each.expires)) for each in loaded)
        meaning = "End of the certificate in use, in seconds since 1970. No sample without TLS."
        return [MetricFamily("virtuallog_certificate_expires_seconds", MetricKind.GAUGE, meaning, ends)]
