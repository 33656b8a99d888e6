"""An audit reads around damage: all rows that can be read, and where they cannot be, a gap exactly as long as the damage."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.audit.core import damaged_ranges
from pyspark_virtuallog.audit.core.damaged_ranges import DAMAGES_MAX, read_around
from virtuallog.contract.errors import CorruptionError, UnavailableError

LENGTH = 300


class Damaged:
    """A log whose entries lie at every third position, with fillers behind each; some groups of positions cannot be read."""

    def __init__(self, group: int, broken: set[int]) -> None:
        self.group = group
        self.broken = broken
        self.reads = 0
        self.told: list[tuple[int, int]] = []

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        at = start
        while at < stop:
            if at // self.group in self.broken:
                raise CorruptionError(f"group {at // self.group}")
            end = min(stop, (at // self.group + 1) * self.group)
            yield pa.record_batch({"position": [at, *(each for each in range(at + 1, end) if each % 3 < 2)]})
            at = end

    def damage(self, start: int, stop: int, reason: str) -> pa.RecordBatch:
        self.told.append((start, stop))
        return pa.record_batch({"position": [start]})

    def positions(self, start: int, stop: int) -> list[int]:
        batches = read_around(self.read, start, stop, self.damage)
        return [at for batch in batches for at in batch["position"].to_pylist()]


positions = st.integers(0, LENGTH)


@given(group=st.integers(1, 20), broken=st.sets(st.integers(0, 30), max_size=8), ends=st.tuples(positions, positions))
def test_what_cannot_be_read_is_told_exactly(group: int, broken: set[int], ends: tuple[int, int]) -> None:
    """However long it is, and also if what lies before it is a gap. Groups side by side are one damage, and so may be those with little
    between them."""
    start, stop = sorted(ends)
    log = Damaged(group, broken)
    found = log.positions(start, stop)
    bad = {at for at in range(start, stop) if at // group in broken}
    told = [set(range(*each)) for each in log.told]

    assert bad <= set().union(*told)
    assert all(min(each) in bad and max(each) in bad for each in told)
    assert found == sorted(set(found))
    assert {at for at in range(start, stop) if at % 3 < 2}.difference(*told) <= set(found)


def test_looking_for_the_end_of_a_damage_takes_few_reads() -> None:
    """A million positions: what is wrong in the middle of them is found by halves."""
    log = Damaged(1000, {*range(300, 700)})
    log.read = lambda start, stop: Damaged.read(log, start, min(stop, start + 5000))  # type: ignore[method-assign]
    begin, end = 300_000, 700_000
    assert damaged_ranges._end(log.read, begin, 1_000_000) == end
    assert log.reads < 60


def test_what_is_damaged_everywhere_is_one_damage_in_the_end() -> None:
    """A damaged task of a million positions takes bounded time."""
    log = Damaged(1, {*range(0, LENGTH, 2)})
    found = log.positions(0, LENGTH)

    assert len(log.told) == DAMAGES_MAX + 1
    assert log.told[-1][1] == LENGTH
    assert found[-1] == log.told[-1][0]


def test_other_errors_are_not_damage() -> None:
    """A server that does not answer may answer later: the audit fails."""

    def read(start: int, stop: int) -> Iterator[pa.RecordBatch]:
        raise UnavailableError("no node")

    with pytest.raises(UnavailableError):
        list(read_around(read, 0, 9, Damaged(1, set()).damage))
