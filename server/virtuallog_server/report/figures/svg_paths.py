"""Paths of SVG from series of points.

A path lives in a square of `SIDE` by `SIDE` units, which the page stretches to the available room. Lines keep their width, and text
stands outside as HTML, so that everything is legible on a phone. A point without a value is a hole: no line leads across it, as the
value there is unknown. A point between two holes is a dot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from virtuallog_server.report.figures.axes import Axis

SIDE: Final = 1000
Points: TypeAlias = Sequence[tuple[float, float | None]]
"""x, ascending, and y. None for a hole."""


def line(points: Points, x: Axis, y: Axis) -> str:
    """A stroke for each run of points without a hole."""
    return "".join(_stroke(run, x, y) for run in _runs(points))


def area(points: Points, x: Axis, y: Axis) -> str:
    """Steps down to the floor: each value holds from its x to that of the next point. The last point only ends it."""
    pieces = []
    for run in _runs(points, reach=True):
        pieces.append(f"M{_across(run[0][0], x)} {SIDE}")
        for (left, value), (right, _) in pairwise(run):
            height = _up(value, y)
            pieces.append(f"L{_across(left, x)} {height}H{_across(right, x)}")
        pieces.append(f"V{SIDE}Z")
    return "".join(pieces)


def rectangle(left: float, right: float, low: float, high: float, x: Axis, y: Axis) -> str:
    """A closed box between two values on each axis."""
    return f"M{_across(left, x)} {_up(low, y)}V{_up(high, y)}H{_across(right, x)}V{_up(low, y)}Z"


def _stroke(run: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    (first, *rest) = [f"{_across(at, x)} {_up(value, y)}" for at, value in run]
    return f"M{first}L{' '.join(rest)}" if rest else f"M{first}h0"


def _runs(points: Iterable[tuple[float, float | None]], *, reach: bool = False) -> Iterator[list[tuple[float, float]]]:
    """The runs without a hole. With `reach` each continues to where the hole begins."""
    run: list[tuple[float, float]] = []
    for at, value in points:
        if value is not None:
            run.append((at, value))
        elif run:
            yield [*run, (at, 0.0)] if reach else run
            run = []
    if run:
        yield run


def _across(at: float, x: Axis) -> str:
    return _short(SIDE * x.share(at))


def _up(value: float, y: Axis) -> str:
    return _short(SIDE * (1 - y.share(value)))


def _short(value: float) -> str:
    """A coordinate, to a tenth of a unit: less than any screen shows."""
    return f"{value:.1f}".removesuffix(".0")
