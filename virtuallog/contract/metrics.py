"""What a component tells about itself, in the words of Prometheus but without its library: families of samples. Pure.

A component keeps its figures in instruments (`virtuallog.contract.metrics`) and hands out frozen families when somebody
asks; `server/virtuallog_server/process/console/` turns them into text. So the core imports no metrics library, and runs in the simulator as is.

Rules:
* Whoever is `MetricsSource` answers at once, from memory: no await, no disk, no lock.
* Names follow https://prometheus.io/docs/practices/naming/: seconds, bytes, `_total` for what only grows.
* Labels have few values that are known beforehand: a kind, a role, a phase, a node. Never a segment or a session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol, runtime_checkable

import attrs


class MetricKind(Enum):
    """What a family counts."""

    COUNTER = "counter"
    """Only grows, while the process lives."""
    GAUGE = "gauge"
    """Now so, now so."""
    HISTOGRAM = "histogram"
    """A `Distribution`."""


@attrs.frozen
class Distribution:
    """How values are spread over buckets, since the start of the process."""

    bounds: tuple[float, ...]
    """Upper bounds, inclusive, ascending; a last bucket takes what is above them all."""
    counts: tuple[int, ...]
    """Values in each bucket: one more than there are bounds."""
    total: float
    """Of all values."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """0 if there are no values."""
        return self.total / count if (count := self.count) else 0.0

    def quantile(self, share: float) -> float:
        """An upper bound of the smallest value that at least `share` of all are not above: as exact as the buckets.

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
    """All samples of one name, as of one moment."""

    name: str
    kind: MetricKind
    meaning: str
    """One sentence: what is counted."""
    samples: tuple[Sample, ...]


@runtime_checkable
class MetricsSource(Protocol):
    """Whoever has figures to tell. A loglet provider or a MetaStore provider may be one; none must."""

    def metrics(self) -> Sequence[MetricFamily]:
        """The figures as of now; the same names, of the same kinds, each time. Several components may tell samples of
        one name, with different labels."""
        ...


def gauge(name: str, meaning: str, value: float, **labels: str) -> MetricFamily:
    """A family of one value, which was found when somebody asked."""
    return MetricFamily(name, MetricKind.GAUGE, meaning, (Sample(labels, value),))


def gauges(name: str, meaning: str, label: str, values: Mapping[str, float]) -> MetricFamily:
    """A family of such values, one for each value of `label`."""
    return MetricFamily(
        name, MetricKind.GAUGE, meaning, tuple(Sample({label: each}, value) for each, value in values.items())
    )


def counter(name: str, meaning: str, value: float) -> MetricFamily:
    """A count that somebody keeps for reasons of his own."""
    return MetricFamily(name, MetricKind.COUNTER, meaning, (Sample({}, value),))


def queue_bytes(queue: str, used: float, limit: float) -> list[MetricFamily]:
    """A queue that is bounded by bytes: one alert on used / limit watches all of them."""
    return [
        gauge("virtuallog_queue_bytes", "Bytes that wait in a queue.", used, queue=queue),
        gauge("virtuallog_queue_limit_bytes", "Bytes that a queue takes before it refuses more.", limit, queue=queue),
    ]


def queue_items(queue: str, used: float, limit: float) -> list[MetricFamily]:
    """A queue that is bounded by number."""
    return [
        gauge("virtuallog_queue_items", "Items that wait in a queue.", used, queue=queue),
        gauge("virtuallog_queue_limit_items", "Items that a queue takes before it refuses more.", limit, queue=queue),
    ]


def of(parts: Iterable[object]) -> list[MetricFamily]:
    """The families of those parts that are `MetricsSource`, one for each name."""
    found: dict[str, MetricFamily] = {}
    for family in (family for part in parts if isinstance(part, MetricsSource) for family in part.metrics()):
        first = found.get(family.name)
        if first is None:
            found[family.name] = family
        else:
            assert first.kind is family.kind, f"{family.name} is both a {first.kind.value} and a {family.kind.value}"
            found[family.name] = attrs.evolve(first, samples=(*first.samples, *family.samples))
    return list(found.values())


# FOLDED from virtuallog.instruments: What components keep their figures in: counters and histograms that cost next to nothing.                        Pure.
#
# Made once, with their name; fed once per batch, wave, group or call, never per entry (counts of entries are added per
# batch). Feeding one costs an addition, or a search among a dozen bounds: 0.1 to 0.4 us. One event loop feeds and reads
# them, so they need no lock.

SECONDS: Final = (
    0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
"""From a call within a machine to the patience of an operator."""
BYTES: Final = tuple(float(64 * 4**power) for power in range(10))
"""64 bytes to 16 MiB: an entry to a frame."""
COUNTS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
"""Of entries in a batch, batches in a wave, records in a group."""


@attrs.define(eq=False)
class Counter:
    """Only grows: `counter.value += n`."""

    name: str
    meaning: str
    value: float = attrs.field(default=0, init=False)

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, MetricKind.COUNTER, self.meaning, (Sample({}, self.value),))


@attrs.define(eq=False)
class Counters:
    """A counter for each combination of values of some labels. Who feeds it sees to it that they are few."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    values: dict[tuple[str, ...], float] = attrs.field(factory=dict)
    """Those given at the start are told from the start: a rate over a counter that is missing says nothing."""

    @classmethod
    def of(cls, name: str, meaning: str, label: str, known: Iterable[str]) -> Counters:
        """With one label."""
        return cls(name, meaning, (label,), {(each,): 0 for each in known})

    def add(self, *label_values: str, amount: float = 1) -> None:
        self.values[label_values] = self.values.get(label_values, 0) + amount

    def family(self) -> MetricFamily:
        samples = [Sample(dict(zip(self.labels, key, strict=True)), value) for key, value in self.values.items()]
        return MetricFamily(self.name, MetricKind.COUNTER, self.meaning, tuple(samples))


@attrs.define(eq=False)
class Histogram:
    """How often values fell between fixed bounds."""

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
        """As of now."""
        return Distribution(self.bounds, tuple(self._counts), self.total)

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, MetricKind.HISTOGRAM, self.meaning, (Sample({}, self.distribution()),))


@attrs.define(eq=False)
class Histograms:
    """A histogram for each value of one label. Who feeds it sees to it that they are few."""

    name: str
    meaning: str
    label: str
    bounds: tuple[float, ...]
    _histograms: dict[str, Histogram] = attrs.field(factory=dict)

    @classmethod
    def of(cls, name: str, meaning: str, label: str, known: Iterable[str], bounds: tuple[float, ...]) -> Histograms:
        """With histograms that are told from the start."""
        return cls(name, meaning, label, bounds, {each: Histogram(name, meaning, bounds) for each in known})

    def observe(self, label_value: str, value: float) -> None:
        histogram = self._histograms.get(label_value)
        if histogram is None:
            histogram = self._histograms[label_value] = Histogram(self.name, self.meaning, self.bounds)
        histogram.observe(value)

    def distribution(self, label_value: str) -> Distribution:
        """As of now; of a value that was given at the start."""
        return self._histograms[label_value].distribution()

    def family(self) -> MetricFamily:
        samples = [Sample({self.label: each}, one.distribution()) for each, one in self._histograms.items()]
        return MetricFamily(self.name, MetricKind.HISTOGRAM, self.meaning, tuple(samples))
