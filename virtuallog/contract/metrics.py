"""Metrics: families of samples as in Prometheus, without its library, and instruments that collect them.

A component keeps its values in instruments (`Counter`, `Counters`, `Histogram`, `Histograms`) and
returns frozen families on request. `server/virtuallog_server/process/console/` turns them into
text. So the core imports no metrics library, and runs in the simulator as is.

Rules:
* A `MetricsSource` answers at once, from memory: no await, no disk, no lock.
* Names follow https://prometheus.io/docs/practices/naming/: seconds, bytes, `_total` for what only
  grows.
* Labels have few values that are known beforehand: a kind, a role, a phase, a node. Never a segment
  or a session.
* An instrument is made once, with its name, and fed once per batch, wave, group or call, never per
  entry; counts of entries are added per batch.

Feeding an instrument costs an addition, or a search among a dozen bounds: 0.1 to 0.4 us. One event
loop feeds and reads them, so they need no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol, runtime_checkable

import attrs


class MetricKind(Enum):
    """Type of a family."""

    COUNTER = "counter"
    """Only grows while the process lives."""
    GAUGE = "gauge"
    """May go up or down."""
    HISTOGRAM = "histogram"
    """A `Distribution`."""


@attrs.frozen
class Distribution:
    """Distribution of values over buckets, since the start of the process."""

    bounds: tuple[float, ...]
    """Upper bounds, inclusive, ascending. A last bucket takes the values above them all."""
    counts: tuple[int, ...]
    """Values in each bucket: one more than there are bounds."""
    total: float
    """Sum of all values."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of all values; 0 if there are none."""
        return self.total / count if (count := self.count) else 0.0

    def quantile(self, share: float) -> float:
        """Return an upper bound of the given quantile, as exact as the buckets.

        0 if there are no values, infinite if it lies above the last bound.
        """
        rank, seen = share * self.count, 0
        if not rank:
            return 0.0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            if seen >= rank:
                return bound
        return float("inf")


@attrs.frozen
class Sample:
    """One value of a family."""

    labels: Mapping[str, str]
    value: float | Distribution


@attrs.frozen
class MetricFamily:
    """All samples of one name at one moment."""

    name: str
    kind: MetricKind
    meaning: str
    """Help text: one sentence about what is counted."""
    samples: tuple[Sample, ...]


@runtime_checkable
class MetricsSource(Protocol):
    """A component with metrics. A provider of loglets or of a MetaStore may be one."""

    def metrics(self) -> Sequence[MetricFamily]:
        """Return the metrics as of now: the same names and kinds each time.

        Several components may return samples of one name, with different labels.
        """
        ...


def gauge(name: str, meaning: str, value: float, **labels: str) -> MetricFamily:
    """Make a family of one value that is computed on request."""
    return MetricFamily(name, MetricKind.GAUGE, meaning, (Sample(labels, value),))


def gauges(name: str, meaning: str, label: str, values: Mapping[str, float]) -> MetricFamily:
    """Make a family of values that are computed on request, one for each value of `label`."""
    return MetricFamily(
        name, MetricKind.GAUGE, meaning, tuple(Sample({label: each}, value) for each, value in values.items())
    )


def counter(name: str, meaning: str, value: float) -> MetricFamily:
    """Make a family of one count that the component keeps for its own purposes."""
    return MetricFamily(name, MetricKind.COUNTER, meaning, (Sample({}, value),))


def queue_bytes(queue: str, used: float, limit: float) -> list[MetricFamily]:
    """Make the metrics of a queue that is bounded by bytes. One alert on used / limit watches all
    of them."""
    return [
        gauge("virtuallog_queue_bytes", "Bytes that wait in a queue.", used, queue=queue),
        gauge("virtuallog_queue_limit_bytes", "Bytes that a queue takes before it refuses more.", limit, queue=queue),
    ]


def queue_items(queue: str, used: float, limit: float) -> list[MetricFamily]:
    """Make the metrics of a queue that is bounded by number."""
    return [
        gauge("virtuallog_queue_items", "Items that wait in a queue.", used, queue=queue),
        gauge("virtuallog_queue_limit_items", "Items that a queue takes before it refuses more.", limit, queue=queue),
    ]


def of(parts: Iterable[object]) -> list[MetricFamily]:
    """Collect the families of those parts that are a `MetricsSource`, one for each name."""
    found: dict[str, MetricFamily] = {}
    for family in (family for part in parts if isinstance(part, MetricsSource) for family in part.metrics()):
        first = found.get(family.name)
        if first is None:
            found[family.name] = family
        else:
            assert first.kind is family.kind, f"{family.name} is both a {first.kind.value} and a {family.kind.value}"
            found[family.name] = attrs.evolve(first, samples=(*first.samples, *family.samples))
    return list(found.values())


SECONDS: Final = (
    0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
"""Bounds from a call within a machine to the patience of an operator, in seconds."""
BYTES: Final = tuple(float(64 * 4**power) for power in range(10))
"""Bounds from an entry to a frame: 64 bytes to 16 MiB."""
COUNTS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
"""Bounds for entries in a batch, batches in a wave, records in a group."""


@attrs.define(eq=False)
class Counter:
    """A counter: `counter.value += n`."""

    name: str
    meaning: str
    value: float = attrs.field(default=0, init=False)

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, MetricKind.COUNTER, self.meaning, (Sample({}, self.value),))


@attrs.define(eq=False)
class Counters:
    """A counter for each combination of values of some labels. The caller keeps them few."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    values: dict[tuple[str, ...], float] = attrs.field(factory=dict)
    """Values by label values. Those given at the start are reported from the start: a rate over a
    missing counter is undefined."""

    @classmethod
    def of(cls, name: str, meaning: str, label: str, known: Iterable[str]) -> Counters:
        """Make counters with one label."""
        return cls(name, meaning, (label,), {(each,): 0 for each in known})

    def add(self, *label_values: str, amount: float = 1) -> None:
        self.values[label_values] = self.values.get(label_values, 0) + amount

    def family(self) -> MetricFamily:
        samples = [Sample(dict(zip(self.labels, key, strict=True)), value) for key, value in self.values.items()]
        return MetricFamily(self.name, MetricKind.COUNTER, self.meaning, tuple(samples))


@attrs.define(eq=False)
class Histogram:
    """Counts of values between fixed bounds."""

    name: str
    meaning: str
    bounds: tuple[float, ...]
    total: float = attrs.field(default=0.0, init=False)
    _counts: list[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        assert list(self.bounds) == sorted(set(self.bounds)), "bounds ascend"
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def distribution(self) -> Distribution:
        """Return the distribution as of now."""
        return Distribution(self.bounds, tuple(self._counts), self.total)

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, MetricKind.HISTOGRAM, self.meaning, (Sample({}, self.distribution()),))


@attrs.define(eq=False)
class Histograms:
    """A histogram for each value of one label. The caller keeps them few."""

    name: str
    meaning: str
    label: str
    bounds: tuple[float, ...]
    _histograms: dict[str, Histogram] = attrs.field(factory=dict)

    @classmethod
    def of(cls, name: str, meaning: str, label: str, known: Iterable[str], bounds: tuple[float, ...]) -> Histograms:
        """Make histograms that are reported from the start."""
        return cls(name, meaning, label, bounds, {each: Histogram(name, meaning, bounds) for each in known})

    def observe(self, label_value: str, value: float) -> None:
        histogram = self._histograms.get(label_value)
        if histogram is None:
            histogram = self._histograms[label_value] = Histogram(self.name, self.meaning, self.bounds)
        histogram.observe(value)

    def distribution(self, label_value: str) -> Distribution:
        """Return the distribution as of now, for a label value that was given at the start."""
        return self._histograms[label_value].distribution()

    def family(self) -> MetricFamily:
        samples = [Sample({self.label: each}, one.distribution()) for each, one in self._histograms.items()]
        return MetricFamily(self.name, MetricKind.HISTOGRAM, self.meaning, tuple(samples))
