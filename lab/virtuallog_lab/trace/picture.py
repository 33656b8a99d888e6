"""Draws the timelines of lone appends: a lane for each event loop and each disk thread, on one axis of wall time for all systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from virtuallog.runtime.file_errors import file_errors
from virtuallog_lab.trace.events import EventKind
from virtuallog_lab.trace.run import Trace
from virtuallog_lab.trace.subjects import CLIENT, PROCESSES
from virtuallog_lab.trace.timeline import TimelineStep

INTERVALS: Final = {
    EventKind.TURN: (EventKind.TURN_END, "#bcd2f7", "scheduler turn"),
    EventKind.WRITE: (EventKind.WRITTEN, "#d9730d", "write"),
    EventKind.SYNC: (EventKind.SYNCED, "#cf3030", "sync"),
}
"""Intervals by the kind that begins them: the kind that ends them, colour and name."""
MARKS: Final = {
    EventKind.STEP: ("|", "#2f6fdb", "task runs"),
    EventKind.PARSED: ("v", "#7a4fd0", "message parsed"),
    EventKind.BUILT: ("^", "#2e8b3d", "message built"),
    EventKind.READ_IN_VAIN: ("x", "#888888", "read in vain"),
}
"""Steps that are points: marker, colour and name."""
LANES: Final = tuple(
    (process, in_loop) for process in PROCESSES for in_loop in ((True,) if process == CLIENT else (True, False))
)
"""Process, and True for its event loop. The client has no disk."""
LANE_INCHES: Final = 0.55
"""Height of a lane, in inches."""


def draw(traces: Sequence[Trace], title: str, path: Path) -> None:
    """Write a PNG of the traces that have a timeline.

    Raises:
        StorageError: `path` cannot be written.
    """
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    lone = [trace for trace in traces if trace.steps]
    figure, grid = pyplot.subplots(
        len(lone), 1, sharex=True, squeeze=False, layout="constrained",
        figsize=(16, 1.2 + len(lone) * (1 + LANE_INCHES * len(LANES))),
    )  # fmt: skip
    for axes, trace in zip(grid[:, 0], lone, strict=True):
        _draw_timeline(axes, trace)
    grid[0, 0].legend(frameon=False, fontsize=8, ncols=7, loc="lower right", bbox_to_anchor=(1, 1))
    grid[-1, 0].set_xlabel("microseconds since the call of append, medians of the fastest quarter")
    figure.suptitle(title, x=0.01, ha="left")
    with file_errors(path):
        figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _draw_timeline(axes: Any, trace: Trace) -> None:
    for row, (process, in_loop) in enumerate(LANES):
        steps = [step for step in trace.steps if (step.process, step.in_loop) == (process, in_loop)]
        for begin, end, colour, name in _intervals(steps):
            axes.barh(
                row, end - begin, left=begin, height=0.5, color=colour, label=name if _is_first(axes, name) else None
            )
        for kind, (marker, colour, name) in MARKS.items():
            times = [step.at_us for step in steps if step.kind is kind]
            if times:
                label = name if _is_first(axes, name) else None
                axes.plot(times, [row] * len(times), marker, color=colour, markersize=7, label=label)
    for sent, received in _messages(trace.steps):
        rows = [LANES.index((step.process, True)) for step in (sent, received)]
        axes.annotate(
            "", (received.at_us, rows[1]), (sent.at_us, rows[0]), arrowprops={"arrowstyle": "->", "color": "0.3"}
        )
    axes.set_yticks(
        range(len(LANES)), [process if in_loop else "disk thread" for process, in_loop in LANES], fontsize=9
    )
    axes.invert_yaxis()
    took = f"a lone append takes {trace.p50_us:,.0f} us; recorded, with pauses between, {trace.timeline_us:,.0f} us"
    axes.set_title(f"{trace.system}: {took}", fontsize=10, loc="left")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _intervals(steps: Sequence[TimelineStep]) -> Iterator[tuple[float, float, str, str]]:
    """Begin, end, colour and name. The client calls within a turn, so that one has begun before."""
    for kind, (end_kind, colour, name) in INTERVALS.items():
        begin = 0.0 if kind is EventKind.TURN and steps and steps[0].process == CLIENT else None
        for step in steps:
            if step.kind is kind:
                begin = step.at_us
            elif step.kind is end_kind and begin is not None:
                yield begin, step.at_us, colour, name
                begin = None


def _messages(steps: Sequence[TimelineStep]) -> Iterator[tuple[TimelineStep, TimelineStep]]:
    """Sends with the receipts that belong to them."""
    receipts = {(step.process, step.detail, step.number): step for step in steps if step.kind is EventKind.RECEIVED}
    for step in steps:
        if step.kind is EventKind.SENT and (found := receipts.get((step.detail, step.process, step.number))):
            yield step, found


def _is_first(axes: Any, name: str) -> bool:
    return name not in axes.get_legend_handles_labels()[1]
