"""What a component tells about itself, in the words of Prometheus but without its library: families of samples. Pure.

A component keeps its figures in instruments (`virtuallog.instruments`) and hands out frozen families when somebody
asks; `server/virtuallog_server/console/` turns them into text. So the core imports no metrics library, and runs in the simulator as is.

Rules:
* Whoever is `Measured` answers at once, from memory: no await, no disk, no lock.
* Names follow https://prometheus.io/docs/practices/naming/: seconds, bytes, `_total` for what only grows.
* Labels have few values that are known beforehand: a kind, a role, a phase, a node. Never a segment or a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

import attrs


class Kind(Enum):
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
class Family:
    """All samples of one name, as of one moment."""

    name: str
    kind: Kind
    meaning: str
    """One sentence: what is counted."""
    samples: tuple[Sample, ...]


@runtime_checkable
class Measured(Protocol):
    """Whoever has figures to tell. A loglet provider or a MetaStore provider may be one; none must."""

    def metrics(self) -> Sequence[Family]:
        """The figures as of now; the same names, of the same kinds, each time. Several components may tell samples of
        one name, with different labels."""
        ...


def gauge(name: str, meaning: str, value: float, **labels: str) -> Family:
    """A family of one value, which was found when somebody asked."""
    return Family(name, Kind.GAUGE, meaning, (Sample(labels, value),))


def gauges(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Family:
    """A family of such values, one for each value of `label`."""
    return Family(name, Kind.GAUGE, meaning, tuple(Sample({label: each}, value) for each, value in values.items()))


def counter(name: str, meaning: str, value: float) -> Family:
    """A count that somebody keeps for reasons of his own."""
    return Family(name, Kind.COUNTER, meaning, (Sample({}, value),))


def queue_bytes(queue: str, used: float, limit: float) -> list[Family]:
    """A queue that is bounded by bytes: one alert on used / limit watches all of them."""
    return [
        gauge("virtuallog_queue_bytes", "Bytes that wait in a queue.", used, queue=queue),
        gauge("virtuallog_queue_limit_bytes", "Bytes that a queue takes before it refuses more.", limit, queue=queue),
    ]


def queue_items(queue: str, used: float, limit: float) -> list[Family]:
    """A queue that is bounded by number."""
    return [
        gauge("virtuallog_queue_items", "Items that wait in a queue.", used, queue=queue),
        gauge("virtuallog_queue_limit_items", "Items that a queue takes before it refuses more.", limit, queue=queue),
    ]


def of(parts: Iterable[object]) -> list[Family]:
    """The families of those parts that are `Measured`, one for each name."""
    found: dict[str, Family] = {}
    for family in (family for part in parts if isinstance(part, Measured) for family in part.metrics()):
        first = found.get(family.name)
        if first is None:
            found[family.name] = family
        else:
            assert first.kind is family.kind, f"{family.name} is both a {first.kind.value} and a {family.kind.value}"
            found[family.name] = attrs.evolve(first, samples=(*first.samples, *family.samples))
    return list(found.values())
