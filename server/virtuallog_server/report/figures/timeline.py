"""A timeline: rows over one time axis, with a line through all of them for each event.

A band is a row of coloured blocks: the active loglets, or the phases of a reconfiguration. A chart has an axis and series of points.
`places` puts the marks' badges so that none covers another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from virtuallog_server.report.figures.axes import Axis, spell
from virtuallog_server.report.figures.palette import Tone
from virtuallog_server.report.figures.svg_paths import Points, area, line

BADGE_SHARE: Final = 0.06
"""Width of a badge on a phone, as a share of the whole."""


@attrs.frozen(kw_only=True)
class Span:
    """A block of a band."""

    start: float
    stop: float
    label: str
    tone: Tone
    details: str = ""
    """Details, shown when the reader points at the block."""


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
    """"area" for values that hold from one point to the next, such as a rate; the last point only ends it."""


Drawn: TypeAlias = tuple[Series, str, str]
"""A series, the class of its shape in the style sheet, and its path."""


@attrs.frozen(kw_only=True)
class Chart:
    """A row with an axis of values."""

    title: str
    """Title, with the unit, and with 'log scale' for a logarithmic axis."""
    y: Axis
    series: Sequence[Series]

    def __attrs_post_init__(self) -> None:
        assert ("log scale" in self.title) == self.y.is_logarithmic, (
            "readers must be told, and not be told what is not so"
        )


@attrs.frozen(kw_only=True)
class Mark:
    """An event."""

    at: float
    badge: str
    """A number or a letter. It also names the row `#mark-BADGE` of a table on the page with details."""
    label: str
    group: str
    """Kind of the event, such as 'swap'."""
    tone: Tone


@attrs.frozen(kw_only=True)
class Timeline:
    """The rows, from the top."""

    part: ClassVar = "timeline"

    seconds: float
    """Duration: the length of the time axis."""
    bands: Sequence[Band] = ()
    charts: Sequence[Chart] = ()
    marks: Sequence[Mark] = ()
    unit: str = "seconds since the first append"
    x: Axis = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "x", Axis.exactly_to(self.seconds))

    def percent(self, at: float) -> str:
        """Place on the time axis, in CSS."""
        return f"{100 * self.x.share(at):.2f}%"

    def width(self, span: Span) -> str:
        return f"{100 * (self.x.share(span.stop) - self.x.share(span.start)):.2f}%"

    def drawn(self, chart: Chart) -> Sequence[Drawn]:
        """The series of a chart with their paths."""
        return [
            (series, series.shape, {"line": line, "area": area}[series.shape](series.points, self.x, chart.y))
            for series in chart.series
        ]

    def lane(self, mark: Mark) -> int:
        """The row of a mark's badge, 0 for the lowest."""
        return self._lanes()[self.marks.index(mark)]

    @property
    def lanes(self) -> int:
        """Number of rows of badges."""
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
        """Values for the crosshair at each time."""
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
