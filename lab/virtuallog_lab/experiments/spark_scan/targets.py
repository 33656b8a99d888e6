"""Targets of the scan, and how far they were met.

Rates are medians of rounds that were measured in turn; the plain reader is that of
`plain_reader.py`. Both ways of reading an archive have the same target: the data source, whose rows
go through Python, and `read_archives`, whose rows do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

import attrs

from virtuallog_lab.experiments.spark_scan.processes import ProcessUsage
from virtuallog_lab.experiments.spark_scan.run import (
    ARCHIVE,
    FILES,
    LIVE,
    PLAIN,
    WARM_UP,
    ScanFindings,
    ScanResult,
    stage_of,
)

LIVE_MIN: Final = 0.6
"""Least rate of the live log, relative to the plain reader: the servers, workers and Java share the
cores that the plain reader has for itself and the servers."""
ARCHIVE_MIN: Final = 5.0
"""Least rate of the archive, relative to the plain reader."""
CORES_MIN: Final = 1.3
"""Least speed-up of the archive, all cores against one."""
COST_MAX: Final = 1.15
"""CPU for a million rows, the largest size against the smallest."""
MEMORY_MAX: Final = 1.15
"""Most memory of Java and the workers together: a second half against the first, and the largest
size against the smallest."""


@attrs.frozen
class Group:
    """The rounds of one reader and size; there may be none."""

    rounds: Sequence[ScanResult]

    def __bool__(self) -> bool:
        return bool(self.rounds)

    @property
    def rate(self) -> float:
        """Median; 0 of none."""
        return median(one.rate for one in self.rounds) if self.rounds else 0.0

    def cpu(self, *roles: str) -> float:
        """Median of the CPU seconds for a million entries; 0 of none."""
        return median(one.cpu_per_million(*roles) for one in self.rounds) if self.rounds else 0.0


@attrs.frozen
class ScanTarget:
    """A ratio, and what it is to be at least, or at most."""

    what: str
    value: float
    over: float
    """0, as `value`: was not measured."""
    limit: float
    is_least: bool

    def row(self) -> list[str]:
        """Row of the table."""
        wanted = f"at {'least' if self.is_least else 'most'} {self.limit:g}"
        if not self.value or not self.over:
            return [self.what, "-", wanted, "-"]
        ratio = self.value / self.over
        is_met = ratio >= self.limit if self.is_least else ratio <= self.limit
        return [self.what, f"{ratio:.2f}", wanted, "yes" if is_met else "no"]


def group(found: ScanFindings, what: str, cores: int = 0, entries: int | None = None) -> Group:
    """The rounds of a reader, of all entries unless it is said how many."""
    wanted = (what, cores, entries or found.plan.entries)
    return Group([one for one in found.readings if (one.what, one.cores, one.entries) == wanted])


def memory(looks: Iterable[ProcessUsage]) -> float:
    """The most bytes that Java and the workers together took."""
    return float(max((look.jvm + look.python for look in looks), default=0))


def long_looks(found: ScanFindings) -> list[ProcessUsage]:
    """Looks while Spark read all of the live log, on all cores."""
    return [look for look in found.looks if look.stage == stage_of(LIVE, found.plan.cores, found.plan.entries)]


def short_looks(found: ScanFindings) -> list[ProcessUsage]:
    """Looks while it read a tenth, before it ever read all: memory that was taken once is seldom
    given back."""
    tenth, long = found.plan.sizes[0], long_looks(found)
    stages = {stage_of(LIVE, cores, tenth) for cores in (WARM_UP, found.plan.cores)}
    return [look for look in found.looks if look.stage in stages and (not long or look.at < long[0].at)]


def halves(looks: Sequence[ProcessUsage]) -> tuple[Sequence[ProcessUsage], Sequence[ProcessUsage]]:
    """The first ones and the last ones."""
    return looks[: len(looks) // 2], looks[len(looks) // 2 :]


def targets(found: ScanFindings) -> list[ScanTarget]:
    """All of them."""
    cores, tenth = found.plan.cores, found.plan.sizes[0]
    plain, live = group(found, PLAIN).rate, group(found, LIVE, cores)
    first, second = halves(long_looks(found))
    rates = [("live log, of the plain reader", live.rate, plain, LIVE_MIN)]
    for what in (ARCHIVE, FILES):
        both, single = (group(found, what, count).rate for count in (cores, 1))
        rates.append((f"{what}, of the plain reader", both, plain, ARCHIVE_MIN))
        if cores > 1:
            rates.append((f"{what}, local[{cores}] of local[1]", both, single, CORES_MIN))
    limits = [
        ("live log, CPU for a million, all of it of a tenth", live.cpu(), group(found, LIVE, cores, tenth).cpu(), COST_MAX),
        ("memory, second half of first", memory(second), memory(first), MEMORY_MAX),
        ("memory, all of it of a tenth", memory([*first, *second]), memory(short_looks(found)), MEMORY_MAX),
    ]  # fmt: skip
    return [
        *(ScanTarget(*each, is_least=True) for each in rates),
        *(ScanTarget(*each, is_least=False) for each in limits),
    ]
