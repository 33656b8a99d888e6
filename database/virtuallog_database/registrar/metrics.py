"""Metrics of a registrar, under the names of Mesos: a slash is an underscore, and milliseconds stay milliseconds."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.metrics import COUNTS, Histogram, MetricFamily, MetricKind, Sample

MILLISECONDS: Final = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000)


@attrs.define(eq=False)
class RegistrarMetrics:
    """Figures of one registrar, with its name as a label."""

    name: str
    fetches: Histogram = attrs.field(init=False)
    stores: Histogram = attrs.field(init=False)
    batches: Histogram = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.fetches = Histogram("registrar_state_fetch_ms", "Milliseconds of the load of a recovery.", MILLISECONDS)
        self.stores = Histogram("registrar_state_store_ms", "Milliseconds until a batch was stored.", MILLISECONDS)
        self.batches = Histogram("registrar_batch_operations", "Operations of a stored batch.", COUNTS)

    def families(self, queued: int, size: int | None, *, aborted: bool) -> list[MetricFamily]:
        """Metrics as of now; `size` is None before the recovery, and its family has no sample then."""
        label = {"name": self.name}
        return [
            self._gauge("registrar_queued_operations", "Operations without an answer.", queued),
            MetricFamily(
                "registrar_registry_size_bytes", MetricKind.GAUGE, "Bytes of all records, as last stored.",
                () if size is None else (Sample(label, size),),
            ),
            self._gauge("registrar_aborted", "1 if this registrar can write nothing any more.", aborted),
            *(
                MetricFamily(one.name, MetricKind.HISTOGRAM, one.meaning, (Sample(label, one.distribution()),))
                for one in (self.fetches, self.stores, self.batches)
            ),
        ]  # fmt: skip

    def _gauge(self, name: str, meaning: str, value: float) -> MetricFamily:
        return MetricFamily(name, MetricKind.GAUGE, meaning, (Sample({"name": self.name}, value),))
