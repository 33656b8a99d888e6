"""Reports of measuring programs: tables, the machine, the output form, and problems.

A report is a list of tables and a list of problems. It is printed as tables for a terminal, as Markdown to paste into
docs/results/measurements.md, or as one JSON object; the exit code is 1 if a problem was found. A missed target is no problem: it
may be the fault of a busy machine, and says so in its table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import attrs
import click

from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form

TEXT_COLUMNS: Final = 120
"""Width of tables that go into a file."""


@attrs.frozen
class Table:
    """Cells are as they shall be read; the first column is on the left, all others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", _bars(self.columns), _bars(["---", *["--:"] * (len(self.columns) - 1)])]
        return "\n".join([*lines, *map(_bars, self.rows), ""])


@attrs.frozen(kw_only=True)
class Report:
    """Result of a program."""

    title: str
    machine: Machine
    tables: Sequence[Table]
    plain: Mapping[str, Any]
    """The figures for `--json`."""
    verdict: str
    """One line about the history, when nothing is wrong with it."""
    problems: Sequence[str] = ()

    def publish(self, form: Form) -> None:
        """Print it; ends the program with code 1 if there are problems."""
        {"text": self._show, "markdown": self._show_markdown, "json": self._show_json}[form]()
        for problem in self.problems:
            click.echo(f"    {problem}", err=True)
        if self.problems:
            raise SystemExit(1)

    def _ending(self) -> str:
        return "WRONG: see the problems" if self.problems else self.verdict

    def _show(self) -> None:
        from rich.console import Console  # slow to import
        from rich.table import Table as RichTable

        console = Console()
        if not console.is_terminal:
            console = Console(width=TEXT_COLUMNS)
        for table in self.tables:
            shown = RichTable(title=table.title, title_justify="left")
            for index, column in enumerate(table.columns):
                shown.add_column(column, justify="right" if index else "left")
            for row in table.rows:
                shown.add_row(*row)
            console.print(shown)
        click.echo(f"{self.machine}\n{self._ending()}")

    def _show_markdown(self) -> None:
        click.echo(f"### {self.title}\n\n{self.machine}.\n")
        for table in self.tables:
            click.echo(table.markdown())
        click.echo(f"{self._ending()}.")

    def _show_json(self) -> None:
        found = {"machine": attrs.asdict(self.machine), **self.plain, "problems": list(self.problems)}
        click.echo(json.dumps(found))


def tell(text: str) -> None:
    """Progress: on stderr, so that stdout is the result alone."""
    click.echo(text, err=True)


def middle_and_ends(values: Sequence[float], digits: int = 0) -> str:
    """Median and spread: '120 (90-140)'; the value alone, if there is one; '-' of nothing."""
    if len(values) < 2:
        return "".join(f"{value:,.{digits}f}" for value in values) or "-"
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def _bars(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
