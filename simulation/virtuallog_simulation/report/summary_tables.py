"""The summary of a set of runs: tables for a terminal, Markdown for docs/internals/testing.md, JSON for programs."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Final

import attrs
import trio
from rich import box
from rich.table import Table as RichTable

from virtuallog_simulation.faults import registry
from virtuallog_simulation.report.summary import Distribution, SeedSummary, Soak, Totals

FAILURES_TOLD: Final = 20
_SHARES: Final = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_LATE: Final = {"p50": 0.5, "p99": 0.99, "max": 1.0}
"""Percentile shown of times until a demand was met: the slow ones matter."""
_DEATH, _SHAPE = "crash at ", "did: "
"""Prefixes of the names of some counters."""
_TRAFFIC: Final = ("requests", "replies")
"""Counters that are no faults; shown apart."""


@attrs.frozen
class Table:
    """Cells as they are shown."""

    title: str
    columns: Sequence[str]
    numbers: range
    """The columns that hold numbers; the others hold words."""
    rows: Sequence[Sequence[str]]

    def rich(self) -> RichTable:
        table = RichTable(
            title=self.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for index, column in enumerate(self.columns):
            is_number = index in self.numbers
            table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        ruler = ["---:" if index in self.numbers else "---" for index in range(len(self.columns))]
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, ruler, *self.rows)]
        return "\n".join((f"{self.title}:", "", *lines))


def tables(soak: Soak) -> list[Table]:
    """Everything there is to say, most important first."""
    scenarios = [totals for totals in soak.totals.values() if totals.seeds]
    times, seeds = _together(scenarios)
    proofs = {name for fault in registry.CLASSES for name in fault.counters}
    rest = [name for name in times if name not in proofs | {*_TRAFFIC} and not name.startswith((_DEATH, _SHAPE))]
    measures = [row for each in scenarios for row in _measures(each)]
    counted, twice = ("times", "in seeds"), range(1, 3)
    found = [
        Table("Per seed", ("scenario", "", *_SHARES), range(2, 5), measures),
        Table(
            "Progress after the faults, in simulated seconds",
            ("demand", "seeds", *_LATE),
            range(1, 5),
            _progress(scenarios),
        ),
        Table("Faults", ("class", *counted, "what came of it"), twice, list(_faults(times, seeds))),
        Table("Crash points that were hit", ("", *counted), twice, _rows(times, seeds, _DEATH)),
        Table("What clients did", ("", *counted), twice, _rows(times, seeds, _SHAPE)),
        Table("What else happened", ("", *counted), twice, _rows(times, seeds, "", rest)),
    ]
    return [table for table in found if table.rows]


def _measures(totals: Totals) -> list[Sequence[str]]:
    """Measures of a scenario, without those that it never has."""
    measured = {
        what: each.percentiles(*_SHARES.values()) for what, each in _measured(totals).items() if any(each.values)
    }
    names = chain((f"{totals.scenario}, {totals.seeds:,} seeds",), repeat(""))
    return [
        (name, what, *(f"{value:,.0f}" for value in values))
        for name, (what, values) in zip(names, measured.items(), strict=False)
    ]


def _measured(totals: Totals) -> dict[str, Distribution]:
    return {
        "client operations": totals.operations,
        "deliveries to readers": totals.deliveries,
        "reconfigurations": totals.reconfigurations,
        "faults": totals.faults,
        "simulated seconds": totals.simulated_seconds,
    }


def _progress(scenarios: Sequence[Totals]) -> list[Sequence[str]]:
    """Waiting times of the judge for each of its demands."""
    return [
        (what, f"{len(seconds.values):,}", *(f"{value:,.2f}" for value in seconds.percentiles(*_LATE.values())))
        for totals in scenarios
        for what, seconds in sorted(totals.demands.items())
    ]


def _faults(times: Counter[str], seeds: Counter[str]) -> Iterator[Sequence[str]]:
    """A class that strikes again and again counts how often; one that holds for a whole run is counted by its effect."""
    for fault in registry.CLASSES:
        if fault.counters:
            first, *others = fault.counters
            came = ", ".join(f"{name} {times[name]:,}" for name in others if times[name])
            yield fault.name, f"{times[first]:,}", f"{seeds[first]:,}", came


def _rows(
    times: Counter[str], seeds: Counter[str], beginning: str, names: Collection[str] | None = None
) -> list[Sequence[str]]:
    chosen = names if names is not None else [name for name in times if name.startswith(beginning)]
    return [(name.removeprefix(beginning), f"{times[name]:,}", f"{seeds[name]:,}") for name in sorted(chosen)]


def _together(all_totals: Sequence[Totals]) -> tuple[Counter[str], Counter[str]]:
    times, seeds = Counter[str](), Counter[str]()
    for totals in all_totals:
        times.update(totals.counts)
        seeds.update(totals.seen_in)
    return times, seeds


def verdict(soak: Soak) -> list[str]:
    """One line on the whole, then one for each thing that is wrong."""
    lines = [_headline(soak), *(_failure(failure) for failure in soak.failures[:FAILURES_TOLD])]
    if soak.failed > FAILURES_TOLD:
        lines.append(f"... and {soak.failed - FAILURES_TOLD:,} more")
    for scenario, names in soak.never_fired.items():
        lines += [f"{scenario}: never happened, so it has not been tested: {name}" for name in names]
    return lines


def _headline(soak: Soak) -> str:
    pace = soak.seeds / max(soak.real_seconds, 1e-9)
    failed = f"{soak.failed:,} with a broken promise" if soak.failed else "every promise was kept"
    return f"{soak.seeds:,} seeds in {_duration(soak.real_seconds)}, {pace:.1f} a second: {failed}"


def _failure(summary: SeedSummary) -> str:
    return f"{summary.scenario} seed {summary.seed}: {', '.join(summary.failed)}"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def as_markdown(soak: Soak, command: str) -> str:
    """A section for a document, without its heading."""
    about = f"{os.cpu_count()} cores, Python {platform.python_version()}, trio {trio.__version__}"
    headline, *wrong = verdict(soak)
    parts = [f"`{command}` ({about})", f"**{headline}.**", *("\n".join(f"* {line}" for line in wrong),)]
    parts += [table.markdown() for table in tables(soak)]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(soak: Soak, command: str) -> dict[str, Any]:
    """Summary for programs. A failing seed is replayed with the options of the command."""
    times, seeds = _together(list(soak.totals.values()))
    return {
        "command": command,
        "seeds": soak.seeds,
        "failed": soak.failed,
        "seconds": round(soak.real_seconds, 3),
        "failures": [attrs.asdict(failure, filter=_names_a_failure) for failure in soak.failures],
        "never_fired": {scenario: list(names) for scenario, names in soak.never_fired.items() if names},
        "scenarios": {totals.scenario: _scenario_as_json(totals) for totals in soak.totals.values()},
        "took_effect": {name: {"times": times[name], "seeds": seeds[name]} for name in sorted(times)},
    }


def _names_a_failure(attribute: attrs.Attribute[Any], _: Any) -> bool:
    return attribute.name in {"scenario", "seed", "failed"}


def _scenario_as_json(totals: Totals) -> dict[str, Any]:
    spreads = {
        name.replace(" ", "_"): dict(zip(_SHARES, each.percentiles(*_SHARES.values()), strict=False))
        for name, each in _measured(totals).items()
    }
    demands = {
        what: dict(zip(_LATE, seconds.percentiles(*_LATE.values()), strict=True))
        for what, seconds in sorted(totals.demands.items())
    }
    return {"seeds": totals.seeds, "failed": totals.failed, **spreads, "progress": demands}
