"""Bars and lines over time or over names, beside each other.

`Bars` has a row for each name, with a bar as long as its value. Text stays text, so it is legible on a phone and can be copied.
`Columns` stands on a time axis: stacked columns with one colour for each kind, or a line for each name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from virtuallog_server.report.figures.axes import Axis
from virtuallog_server.report.figures.palette import Tone
from virtuallog_server.report.figures.svg_paths import Points, line, rectangle
from virtuallog_server.report.figures.timeline import Drawn, Series


@attrs.frozen(kw_only=True)
class Bar:
    """One name and its value."""

    name: str
    value: float
    text: str
    """The value for readers, with its unit."""
    tone: Tone = "blue"


@attrs.frozen(kw_only=True)
class Bars:
    """Bars below each other, in the order given."""

    part: ClassVar = "bars"

    bars: Sequence[Bar]

    def percent(self, bar: Bar) -> str:
        """Length of a bar, in CSS. The longest one takes all the room."""
        longest = max((each.value for each in self.bars), default=0.0)
        return f"{100 * bar.value / longest if longest > 0 else 0:.2f}%"


@attrs.frozen(kw_only=True)
class Label:
    """A text below the horizontal axis."""

    at: float
    text: str


@attrs.frozen(kw_only=True)
class Columns:
    """Values over a horizontal axis: columns if there is a `width`, else lines."""

    part: ClassVar = "columns"

    title: str
    """Title, with the unit."""
    x: Axis
    labels: Sequence[Label]
    series: Sequence[Series]
    width: float | None = None
    """Width of a column on the horizontal axis. None for lines. Columns of several series at the same place are stacked."""
    y: Axis = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        heights = _stacked(self.series) if self.width is not None else [series.points for series in self.series]
        tops = [value for points in heights for _, value in points if value is not None]
        object.__setattr__(self, "y", Axis.above_zero(tops))

    @property
    def drawn(self) -> Sequence[Drawn]:
        """The series with their paths."""
        if self.width is None:
            return [(series, "line", line(series.points, self.x, self.y)) for series in self.series]
        tops = _stacked(self.series)
        return [
            (series, "column", self._columns(series.points, top, self.width))
            for series, top in zip(self.series, tops, strict=True)
        ]

    def percent(self, at: float) -> str:
        """Place on the horizontal axis, in CSS."""
        return f"{100 * self.x.share(at):.2f}%"

    def _columns(self, points: Points, tops: Points, width: float) -> str:
        return "".join(
            rectangle(at, at + width, top - value, top, self.x, self.y)
            for (at, value), (_, top) in zip(points, tops, strict=True)
            if value and top is not None
        )


def _stacked(series: Sequence[Series]) -> list[list[tuple[float, float]]]:
    """Tops of columns that stand on those of the series before."""
    heights: dict[float, float] = {}
    found = []
    for each in series:
        tops = []
        for at, value in each.points:
            heights[at] = heights.get(at, 0.0) + (value or 0.0)
            tops.append((at, heights[at]))
        found.append(tops)
    return found
