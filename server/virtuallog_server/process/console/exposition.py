"""Metric families as text in the format of Prometheus. The only module that knows prometheus_client.

The figures are taken at once, so that they belong together. The text is made family by family, with a checkpoint after each: a
scrape takes some milliseconds, and an append that arrives meanwhile must not wait for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, Protocol

import prometheus_client as prometheus
import trio
from prometheus_client import core as library

from virtuallog.contract.metrics import Distribution, MetricFamily, MetricKind

CONTENT_TYPE: Final = prometheus.exposition.CONTENT_TYPE_PLAIN_0_0_4


class Collector(Protocol):
    """The interface of prometheus_client's collectors."""

    def collect(self) -> Iterable[library.Metric]: ...


async def expose(families: Sequence[MetricFamily], collectors: Sequence[Collector] = ()) -> bytes:
    """The text of `families` and of the library's own `collectors`. Gives way to other tasks in between."""
    text = []
    for family in families:
        text.append(_text(translate(family)))
        await trio.lowlevel.checkpoint()
    for collector in collectors:
        text += [_text(metric) for metric in collector.collect()]
        await trio.lowlevel.checkpoint()
    return b"".join(text)


def translate(family: MetricFamily) -> library.Metric:
    """The library's form of a family."""
    labels = sorted(family.samples[0].labels) if family.samples else []
    metric: library.CounterMetricFamily | library.GaugeMetricFamily | library.HistogramMetricFamily
    match family.kind:
        case MetricKind.COUNTER:
            metric = library.CounterMetricFamily(family.name, family.meaning, labels=labels)
        case MetricKind.GAUGE:
            metric = library.GaugeMetricFamily(family.name, family.meaning, labels=labels)
        case MetricKind.HISTOGRAM:
            metric = library.HistogramMetricFamily(family.name, family.meaning, labels=labels)
    for sample in family.samples:
        values = [sample.labels[label] for label in labels]
        if isinstance(metric, library.HistogramMetricFamily):
            assert isinstance(sample.value, Distribution)
            metric.add_metric(values, _buckets(sample.value), sum_value=sample.value.total)
        else:
            assert not isinstance(sample.value, Distribution)
            metric.add_metric(values, float(sample.value))
    return metric


def _buckets(distribution: Distribution) -> list[tuple[str, float]]:
    """Cumulative counts, as Prometheus wants them."""
    bounds = [*(str(bound) for bound in distribution.bounds), "+Inf"]
    return list(zip(bounds, accumulate(distribution.counts), strict=True))


class _One:
    """A collector of one metric: the library makes text from collectors only."""

    def __init__(self, metric: library.Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[library.Metric]:
        return (self._metric,)


def _text(metric: library.Metric) -> bytes:
    return prometheus.generate_latest(_One(metric))
