"""What components keep their figures in: counters and histograms that cost next to nothing.                        Pure.

Made once, with their name; fed once per batch, wave, group or call, never per entry (counts of entries are added per
batch). Feeding one costs an addition, or a search among a dozen bounds: 0.1 to 0.4 us. One event loop feeds and reads
them, so they need no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import attrs

from virtuallog.metrics import Distribution, Family, Kind, Sample

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

    def family(self) -> Family:
        return Family(self.name, Kind.COUNTER, self.meaning, (Sample({}, self.value),))


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

    def family(self) -> Family:
        samples = [Sample(dict(zip(self.labels, key, strict=True)), value) for key, value in self.values.items()]
        return Family(self.name, Kind.COUNTER, self.meaning, tuple(samples))


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

    def family(self) -> Family:
        return Family(self.name, Kind.HISTOGRAM, self.meaning, (Sample({}, self.distribution()),))


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

    def family(self) -> Family:
        samples = [Sample({self.label: each}, one.distribution()) for each, one in self._histograms.items()]
        return Family(self.name, Kind.HISTOGRAM, self.meaning, tuple(samples))
