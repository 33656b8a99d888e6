"""The demo's judge, its picture, and the figures of the benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.bench.appends import percentile
from server.demo.picture import draw
from server.demo.story import Event, Outcome, tour
from server.demo.verdict import Verdict, judge
from server.demo.workload import Entry, Sample, Workload
from virtuallog.batch import SessionId
from virtuallog.clock import SystemClock
from virtuallog.types import Data, LogPosition

SESSION = SessionId(b"s" * 16)


def record(position: int, payload: bytes, sequence: int | None = None) -> Data:
    return Data(LogPosition(position), payload, 0, SESSION, position if sequence is None else sequence)


def acknowledged(*places: tuple[int, int, int]) -> dict[Entry, LogPosition]:
    return {Entry(writer, number): LogPosition(position) for writer, number, position in places}


RIGHT = [record(0, b"1/0"), record(1, b"2/0"), record(2, b"1/1"), record(3, b"1/2")]
TOLD = acknowledged((1, 0, 0), (2, 0, 1), (1, 1, 2))


def test_a_right_log_is_found_right() -> None:
    """Entries of several writers between each other, one of them appended but never acknowledged."""
    assert judge(TOLD, RIGHT) == Verdict(4, ())


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        (RIGHT[:2], "number=1) was acknowledged at 2 but is at no position"),
        ([*RIGHT, record(4, b"1/2")], "is at 3 and at 4"),
        ([RIGHT[2], RIGHT[0], RIGHT[1], RIGHT[3]], "where number 0 belongs"),
        ([RIGHT[0], RIGHT[1], RIGHT[3]], "where number 1 belongs"),
        ([record(0, b"1/0"), record(1, b"1/1"), record(2, b"2/0")], "acknowledged at 1 but is at 2"),
        ([*RIGHT, record(4, b"noise")], "holds what nobody wrote: b'noise'"),
        ([*RIGHT, record(4, b"1/3", sequence=9)], "sequence 9 of a session, where 4 belongs"),
    ],
    ids=["lost", "doubled", "swapped", "hole", "elsewhere", "foreign", "session"],
)
def test_each_kind_of_wrong_is_found(records: list[Data], problem: str) -> None:
    """A judge that cannot find it is worth nothing."""
    assert any(problem in found for found in judge(TOLD, records).problems)


def test_the_tour_ends_where_the_story_kills() -> None:
    """The last stop of the tour has its sequencer on node 3, the victim."""
    assert list(tour())[-1] == ("native", {"sequencer": "3"})


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """With stretches in which nothing was acknowledged, too."""
    workload = Workload(SystemClock())
    workload.samples = [Sample(0.01 * step, 0.001 * step) for step in range(100)] + [Sample(3.0, 2.0)]
    path = tmp_path / "demo.png"
    draw(Outcome(workload, (Event(1.0, "kill -9 node 3", is_fault=True),), Verdict(101, ())), path)

    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    """And the smallest such value, against the slow way to say it."""
    values.sort()
    enough = [value for value in values if sum(other <= value for other in values) >= share * len(values)]

    assert percentile(values, share) == enough[0]
