"""The page of live figures: charts of the last minutes, and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from starlette.responses import Response

from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.pages.shown_text import number
from virtuallog_console.views.live import PERIOD_SECONDS, SAMPLES_MAX, LiveFigures, LiveSample, LiveView
from virtuallog_server.report.figures.axes import Axis, spell
from virtuallog_server.report.figures.palette import Tone
from virtuallog_server.report.figures.svg_paths import SIDE, Points, area, line

TABLE_ROWS: Final = 60
"""Samples in the table, the newest ones: a minute."""
MINUTE_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class Curve:
    """A line of a chart."""

    label: str
    tone: Tone
    path: str
    is_filled: bool = False


@attrs.frozen(kw_only=True)
class Chart:
    """One chart, and what it says in words."""

    id: str
    title: str
    unit: str
    now: str
    """The newest value, in words."""
    summary: str
    """The chart in a sentence."""
    is_known: bool
    """False if there is no value at all."""
    curves: tuple[Curve, ...]
    ticks: tuple[tuple[str, str], ...]
    """Heights from the top, in percent, and the numbers beside them."""
    marks: tuple[str, ...] = ()
    """Places of swaps from the left, in units of the path."""


@attrs.frozen(kw_only=True)
class Series:
    """Values over time, and how they are shown."""

    label: str
    tone: Tone
    points: Points
    is_filled: bool = False

    @property
    def values(self) -> list[float]:
        """Values that are known."""
        return [value for _, value in self.points if value is not None]


@attrs.frozen
class LivePage:
    """Shows live figures."""

    _frame: Frame
    _figures: LiveFigures

    async def show(self, asked: PageRequest) -> Response:
        """The page."""
        if not self._figures.view().samples:
            await self._figures.wait_behind(-1)
        view = self._figures.view()
        return self._frame.show(
            "live.html",
            asked,
            view=view,
            newest=view.samples[-1],
            charts=charts_of(view),
            rows=view.samples[: -TABLE_ROWS - 1 : -1],
            table_rows=TABLE_ROWS,
            minutes=round(SAMPLES_MAX * PERIOD_SECONDS / 60),
        )


def charts_of(view: LiveView) -> list[Chart]:
    """The charts of a view that has samples."""
    samples = view.samples
    last = samples[-1].time_ms
    first = min(samples[0].time_ms, last - MINUTE_MS)
    time = Axis(0.0, float(max(1, last - first)))
    marks = tuple(
        f"{SIDE * time.share(swap.time_ms - first):.1f}" for swap in view.swaps[1:] if first <= swap.time_ms <= last
    )

    def points(name: str) -> list[tuple[float, float | None]]:
        return [(float(each.time_ms - first), getattr(each, name)) for each in samples]

    newest = samples[-1]
    return [
        _chart(
            "throughput",
            "Throughput",
            "entries per second, of all clients",
            [Series(label="entries per second", tone="blue", points=points("entries_per_second"), is_filled=True)],
            number(newest.entries_per_second),
            time,
            marks,
        ),
        _chart(
            "tail-check",
            "Tail check",
            "milliseconds of a tail check, which goes the way of an append up to the disks",
            [Series(label="tail check", tone="violet", points=points("tail_ms"))],
            _ms(newest.tail_ms),
            time,
            marks,
        ),
        _chart(
            "appends",
            "Appends of this console",
            "milliseconds of appends over HTTP through this process",
            [
                Series(label="median", tone="teal", points=points("append_p50_ms")),
                Series(label="99 %", tone="orange", points=points("append_p99_ms")),
            ],
            _appends_now(newest),
            time,
            marks,
        ),
    ]


def _chart(
    name: str, title: str, unit: str, series: Sequence[Series], now: str, time: Axis, marks: tuple[str, ...]
) -> Chart:
    values = [value for each in series for value in each.values]
    height = Axis.above_zero(values, 3)
    words = "no value is known" if not values else f"from {spell(min(values))} to {spell(max(values))}, now {now}"
    return Chart(
        id=name,
        title=title,
        unit=unit,
        now=now,
        summary=f"{title}: {words}. {_swaps(len(marks))} in this time.",
        is_known=bool(values),
        curves=tuple(
            Curve(
                label=each.label,
                tone=each.tone,
                path=(area if each.is_filled else line)(each.points, time, height),
                is_filled=each.is_filled,
            )
            for each in series
        ),
        ticks=tuple((f"{100 * (1 - height.share(tick)):.1f}%", spell(tick)) for tick in height.ticks),
        marks=marks,
    )


def _swaps(many: int) -> str:
    return f"{many} {'swap' if many == 1 else 'swaps'}" if many else "No swap"


def _ms(value: float | None) -> str:
    return "not known" if value is None else f"{spell(value)} ms"


def _appends_now(sample: LiveSample) -> str:
    if sample.append_p50_ms is None and sample.append_p99_ms is None:
        return "no append"
    return f"{_ms(sample.append_p50_ms)}, 99 % {_ms(sample.append_p99_ms)}"
