"""What happened over time: rows over one time axis, with a line through all of them for each thing that was done.      Pure.

A band is a row of coloured blocks: which loglet was active, or the phases of a reconfiguration. A chart has an axis and series
of points. `places` puts the marks' badges so that none covers another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from virtuallog_server.report.figures.axes import Axis, spell
from virtuallog_server.report.figures.palette import Tone
from virtuallog_server.report.figures.svg_paths import Points, area, line

BADGE_SHARE: Final = 0.06
"""Of the width: what a badge takes on a phone."""


@attrs.frozen(kw_only=True)
class Span:
    """A block of a band."""

    start: float
    stop: float
    label: str
    tone: Tone
    details: str = ""
    """Shown when the reader points at it."""


@attrs.frozen(kw_only=True)
class Band:
    """A row of blocks, which do not overlap."""

    title: str
    spans: Sequence[Span]


@attrs.frozen(kw_only=True)
class Series:
    """Points that belong together."""

    label: str
    tone: Tone
    points: Points
    shape: Literal["line", "area"] = "line"
    """An area is for what holds from one point to the next, such as a rate; its last point only ends it."""


Drawn: TypeAlias = tuple[Series, str, str]
"""A series, the class of its shape in the style sheet, and its path."""


@attrs.frozen(kw_only=True)
class Chart:
    """A row with an axis of values."""

    title: str
    """With the unit, and with 'log scale' if it is one."""
    y: Axis
    series: Sequence[Series]

    def __attrs_post_init__(self) -> None:
        assert ("log scale" in self.title) == self.y.is_logarithmic, (
            "readers must be told, and not be told what is not so"
        )


@attrs.frozen(kw_only=True)
class Mark:
    """Something that was done."""

    at: float
    badge: str
    """A number or a letter; also names the row `#mark-BADGE` of a table on the page that says more."""
    label: str
    group: str
    """What sort of thing it is, such as 'swap'."""
    tone: Tone


@attrs.frozen(kw_only=True)
class Timeline:
    """The rows, from above."""

    part: ClassVar = "timeline"

    seconds: float
    """How long it took: the length of the time axis."""
    bands: Sequence[Band] = ()
    charts: Sequence[Chart] = ()
    marks: Sequence[Mark] = ()
    unit: str = "seconds since the first append"
    x: Axis = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "x", Axis.exactly_to(self.seconds))

    def percent(self, at: float) -> str:
        """Where on the time axis, as CSS wants it."""
        return f"{100 * self.x.share(at):.2f}%"

    def width(self, span: Span) -> str:
        return f"{100 * (self.x.share(span.stop) - self.x.share(span.start)):.2f}%"

    def drawn(self, chart: Chart) -> Sequence[Drawn]:
        """What stands in a chart."""
        return [
            (series, series.shape, {"line": line, "area": area}[series.shape](series.points, self.x, chart.y))
            for series in chart.series
        ]

    def lane(self, mark: Mark) -> int:
        """The row of badges that a mark's is in, 0 for the lowest."""
        return self._lanes()[self.marks.index(mark)]

    @property
    def lanes(self) -> int:
        """How many rows of badges there are."""
        return max(self._lanes(), default=-1) + 1

    def _lanes(self) -> list[int]:
        ends: list[float] = []
        lanes = []
        for mark in self.marks:
            here = self.x.share(mark.at)
            lane = next((lane for lane, end in enumerate(ends) if end <= here), len(ends))
            ends[lane : lane + 1] = [here + BADGE_SHARE]
            lanes.append(lane)
        return lanes

    def plain(self) -> Mapping[str, Any]:
        """For the crosshair: what it tells about each time."""
        return {
            "seconds": self.seconds,
            "spans": [[span.start, span.stop, span.label] for band in self.bands[:1] for span in band.spans],
            "series": [
                {
                    "label": series.label,
                    "tone": series.tone,
                    "held": series.shape == "area",
                    "points": _told(series.points),
                }
                for chart in self.charts
                for series in chart.series
            ],
        }


def _told(points: Points) -> list[tuple[float, str | None]]:
    return [(round(at, 3), None if value is None else spell(float(f"{value:.3g}"))) for at, value in points]
