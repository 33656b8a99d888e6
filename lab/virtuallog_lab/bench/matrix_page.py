"""The swap matrix as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from virtuallog_lab.bench.matrix import Cell, Matrix
from virtuallog_lab.bench.reconfigure import SwapMatrixOutcome
from virtuallog_lab.bench.steps import WAITING
from virtuallog_lab.harness.report import Table as Told
from virtuallog_server.report import Band, Figure, Page, Section, Span, Table, Timeline, Tone, Verdict

TONES: Final[dict[str, Tone]] = dict(zip(WAITING, ("red", "orange", "violet", "blue", "teal", "green"), strict=True))
NOTES: Final = (
    "The longest stretch without any acknowledgement, over all outstanding appends together. Rows: from; columns: to. "
    "disaggregated: a native loglet whose entries are on three nodes that only store.",
)


def swap_page(outcome: SwapMatrixOutcome, command: str, made: str) -> Page:
    """The matrix, the timeline of each pair, and the tables."""
    matrix, report = outcome.matrix, outcome.report
    return Page(
        title="Live swaps",
        lead=f"{report.title}: from each kind of loglet to each other, and to itself. {report.machine}.",
        verdict=Verdict(
            headline=report.verdict if not report.problems else "The log is wrong.",
            problems=report.problems,
            figures=_figures(matrix),
        ),
        sections=[
            *(Section(title=told.title, content=_table(told), note=note) for told, note in _tables(report.tables)),
            Section(title="The timeline of a swap", content=_timeline(matrix.cells), note="Medians of each phase."),
        ],
        command=command,
        made=made,
    )


def _figures(matrix: Matrix) -> list[Figure]:
    gaps = sorted(cell.gap.p50_ms for cell in matrix.cells)
    return [
        Figure(f"{gaps[0]:,.0f} ms", "gap of the fastest pair, p50"),
        Figure(f"{gaps[-1]:,.0f} ms", f"of the slowest, p50: {matrix.worst.name}"),
        Figure(f"{sum(cell.swaps for cell in matrix.cells):,}", "swaps"),
    ]


def _tables(tables: Sequence[Told]) -> list[tuple[Told, str]]:
    notes = [*NOTES, *[""] * len(tables)]
    return list(zip(tables, notes, strict=False))


def _table(told: Told) -> Table:
    return Table(columns=told.columns, rows=told.rows, figures=range(1, len(told.columns)))


def _timeline(cells: Sequence[Cell]) -> Timeline:
    bands = [Band(title=cell.name, spans=_spans(cell)) for cell in cells if cell.phases]
    longest = max((span.stop for band in bands for span in band.spans), default=1.0)
    return Timeline(seconds=longest, bands=bands, unit="ms since the old loglet is being sealed")


def _spans(cell: Cell) -> list[Span]:
    spans, begin = [], 0.0
    for phase in WAITING:
        end = begin + cell.phases[phase].p50_ms
        spans.append(Span(start=begin, stop=end, label=phase, tone=TONES[phase], details=f"{end - begin:,.1f} ms"))
        begin = end
    return spans
