"""Instruments, and the families that they report."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract import metrics
from virtuallog.contract.metrics import (
    BYTES,
    COUNTS,
    SECONDS,
    Counter,
    Counters,
    Distribution,
    Histogram,
    Histograms,
    MetricFamily,
    MetricKind,
    Sample,
)


@given(st.lists(st.floats(min_value=0, max_value=20)))
def test_a_histogram_counts_each_value_once_in_the_first_bucket_that_takes_it(values: list[float]) -> None:
    """Bounds are inclusive, larger values go last, and the total is the sum of the values."""
    histogram = Histogram("x_seconds", "x", (0.5, 1.0, 10.0))
    for value in values:
        histogram.observe(value)

    found = histogram.distribution()
    slow = [
        sum(value <= 0.5 for value in values),
        sum(0.5 < value <= 1.0 for value in values),
        sum(1.0 < value <= 10.0 for value in values),
        sum(value > 10.0 for value in values),
    ]
    assert list(found.counts) == slow
    assert found.count == len(values)
    assert found.total == pytest.approx(sum(values))


@pytest.mark.parametrize("bounds", [SECONDS, BYTES, COUNTS])
def test_a_quantile_is_an_upper_bound_within_its_bucket(bounds: tuple[float, ...]) -> None:
    """A quantile is never below the true one, and at most one bound above it."""
    source = random.Random(7)
    values = sorted(source.uniform(0, bounds[-1]) for _ in range(500))
    histogram = Histogram("x", "x", bounds)
    for value in values:
        histogram.observe(value)

    for share in (0.01, 0.5, 0.99, 1.0):
        true = values[max(0, int(len(values) * share) - 1)]
        assert histogram.distribution().quantile(share) == next(bound for bound in bounds if bound >= true)


def test_a_distribution_without_values_says_zero_and_one_above_all_bounds_infinity() -> None:
    """A distribution without values reports 0; values above all bounds give infinity."""
    empty = Distribution((1.0,), (0, 0), 0.0)
    above = Distribution((1.0,), (0, 3), 30.0)

    assert (empty.count, empty.mean, empty.quantile(0.5)) == (0, 0.0, 0.0)
    assert (above.count, above.mean, above.quantile(0.5)) == (3, 10.0, float("inf"))


def test_what_was_told_does_not_change_when_more_is_counted() -> None:
    """Families are snapshots: later counts do not change them."""
    histogram, counter = Histogram("x_seconds", "x", (1.0,)), Counter("y_total", "y")
    before = (histogram.family(), counter.family())
    histogram.observe(0.5)
    counter.value += 2

    assert before == (
        MetricFamily("x_seconds", MetricKind.HISTOGRAM, "x", (Sample({}, Distribution((1.0,), (0, 0), 0.0)),)),
        MetricFamily("y_total", MetricKind.COUNTER, "y", (Sample({}, 0),)),
    )
    assert counter.family().samples == (Sample({}, 2),)


def test_labelled_instruments_tell_known_values_from_the_start() -> None:
    """Known label values are reported from the start; others once they are met. A rate over a
    missing counter is undefined."""
    counters = Counters.of("x_total", "x", "error", ["A"])
    counters.add("B", amount=3)
    histograms = Histograms.of("y_seconds", "y", "phase", ["seal"], (1.0,))
    histograms.observe("put", 0.5)

    assert counters.family().samples == (Sample({"error": "A"}, 0), Sample({"error": "B"}, 3))
    assert histograms.family().samples == (
        Sample({"phase": "seal"}, Distribution((1.0,), (0, 0), 0.0)),
        Sample({"phase": "put"}, Distribution((1.0,), (1, 0), 0.5)),
    )


class Part:
    """A component with two queues."""

    def __init__(self, *families: MetricFamily) -> None:
        self._families = families

    def metrics(self) -> Sequence[MetricFamily]:
        return self._families


def test_components_that_tell_samples_of_one_name_are_put_together() -> None:
    """Samples of one name form one family, in the order in which they were met; parts without
    metrics are passed over."""
    one, two = metrics.queue_bytes("wal", 1, 10), metrics.queue_bytes("sequencer", 2, 20)

    found = metrics.of([Part(*one), object(), None, Part(*two)])

    assert [family.name for family in found] == ["virtuallog_queue_bytes", "virtuallog_queue_limit_bytes"]
    assert found[0].samples == (Sample({"queue": "wal"}, 1), Sample({"queue": "sequencer"}, 2))


def test_one_name_has_one_kind() -> None:
    """Two components that give one name different kinds are a bug, found when they are collected
    together."""
    with pytest.raises(AssertionError, match="both a gauge and a counter"):
        metrics.of([Part(metrics.gauge("x", "x", 1)), Part(metrics.counter("x", "x", 1))])
