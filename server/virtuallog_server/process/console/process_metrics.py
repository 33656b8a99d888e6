"""Metrics of this process and its disk, from the operating system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import attrs
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
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
