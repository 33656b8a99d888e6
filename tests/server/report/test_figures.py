"""Figures of pages: axes, paths with holes, badges that do not cover each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_server.report import Axis, Band, Chart, Mark, Series, Span, Timeline
from virtuallog_server.report.figures.axes import spell
from virtuallog_server.report.figures.svg_paths import area, line

UNIT = Axis(0.0, 10.0)
values = st.floats(1e-3, 1e6)


@given(st.lists(values, min_size=1))
def test_an_axis_encloses_what_it_shows(shown: list[float]) -> None:
    """From zero, or, if it is logarithmic, from a round number; its ticks are on it, in order, and neither too few nor a crowd."""
    for axis in (Axis.above_zero(shown), Axis.logarithmic(shown)):
        assert axis.low <= min(shown) * (1 + 1e-6)
        assert axis.high >= max(shown) * (1 - 1e-6)
        assert list(axis.ticks) == sorted(set(axis.ticks))
        assert 2 <= len(axis.ticks) <= 12
        assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks)


@given(values, values)
def test_what_is_larger_lies_higher(one: float, other: float) -> None:
    """On any axis; the ends of the axis are 0 and 1, and beyond them lies nothing."""
    for axis in (Axis(0.0, 1e6), Axis(1e-3, 1e6, is_logarithmic=True)):
        low, high = sorted((one, other))
        assert 0 <= axis.share(low) <= axis.share(high) <= 1
        assert (axis.share(axis.low), axis.share(axis.high), axis.share(2e6)) == (0, 1, 1)


def test_a_logarithmic_axis_has_a_decade_wherever_there_is_one() -> None:
    """Equal factors are equal distances; zero, which has no logarithm, lies at the bottom."""
    axis = Axis.logarithmic([0.3, 700])

    assert (axis.low, axis.high) == (0.2, 1000)
    assert list(axis.ticks) == [1, 10, 100, 1000]
    assert axis.share(100) - axis.share(10) == pytest.approx(axis.share(10) - axis.share(1))
    assert axis.share(0) == 0


def test_a_time_axis_ends_with_the_run() -> None:
    """And not at the next round number: what is beyond did not happen."""
    axis = Axis.exactly_to(37.3)

    assert axis.high == 37.3
    assert list(axis.ticks) == [0, 5, 10, 15, 20, 25, 30, 35]


def test_numbers_are_spelled_as_people_do() -> None:
    """No powers of ten, no superfluous digits."""
    assert [spell(value) for value in (0, 0.05, 2.5, 100, 1000, 25000)] == [
        "0",
        "0.05",
        "2.5",
        "100",
        "1,000",
        "25,000",
    ]


def test_no_line_leads_across_a_hole() -> None:
    """Each stretch is a stroke of its own, and a single point is a dot."""
    points = [(0.0, 0.0), (1.0, 10.0), (2.0, None), (3.0, 5.0), (4.0, None)]

    assert line(points, UNIT, UNIT) == "M0 1000L100 0M300 500h0"
    assert line([(0.0, None)], UNIT, UNIT) == ""


def test_an_area_holds_each_value_until_the_next() -> None:
    """And falls to the floor where a hole begins."""
    points = [(0.0, 5.0), (1.0, 10.0), (2.0, None), (3.0, 5.0), (4.0, 0.0)]

    assert area(points, UNIT, UNIT) == "M0 1000L0 500H100L100 0H200V1000ZM300 1000L300 500H400V1000Z"


@given(st.lists(st.floats(0, 40), max_size=30))
def test_no_badge_covers_another(times: list[float]) -> None:
    """Those that are too close are put above each other; none is higher than it must be."""
    marks = [
        Mark(at=at, badge=str(index), label="", group="swap", tone="grey") for index, at in enumerate(sorted(times))
    ]
    timeline = Timeline(seconds=40.0, marks=marks)
    lanes = [timeline.lane(mark) for mark in marks]

    for index, mark in enumerate(marks):
        near = [lanes[other] for other in range(index) if mark.at - marks[other].at < 0.06 * 40 * (1 - 1e-9)]
        assert lanes[index] not in near
        assert lanes[index] <= len(near)
    assert timeline.lanes == max(lanes, default=-1) + 1


def test_a_logarithmic_chart_must_say_so() -> None:
    """A missing one is an error at once."""
    with pytest.raises(AssertionError, match="readers must be told"):
        Chart(title="latency", y=Axis.logarithmic([1, 10]), series=[])


def test_the_crosshair_knows_the_holes() -> None:
    """It gets the same points as the lines, and which of them hold until the next."""
    chart = Chart(
        title="rate",
        y=UNIT,
        series=[Series(label="a", tone="blue", points=[(0.0, 1234.5), (1.0, None)], shape="area")],
    )
    band = Band(title="", spans=[Span(start=0.0, stop=1.0, label="native", tone="blue")])
    plain = Timeline(seconds=2.0, bands=[band], charts=[chart]).plain()

    assert plain["spans"] == [[0.0, 1.0, "native"]]
    assert plain["series"] == [{"label": "a", "tone": "blue", "held": True, "points": [(0.0, "1,230"), (1.0, None)]}]
