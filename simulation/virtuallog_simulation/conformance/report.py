"""The report: tables for a person, JSON for a program, and the story of what is broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from rich import box
from rich.table import Table

from virtuallog_simulation.conformance.trials import CHAIN, CLAUSE, LOGLET, Outcome
from virtuallog_simulation.report.narrative import LEGEND, short_story
from virtuallog_simulation.runs.runner import SeedReport as Run
from virtuallog_simulation.runs.runner import run_seed

PROMISES: Final[Mapping[str, tuple[str, ...]]] = {
    "entries": ("acknowledged is readable", "one batch per place", "loglet gaps are honest"),
    "order": (
        "loglet keeps sessions in order",
        "loglet invents nothing",
        "one batch per sequence",
        "loglet conditions hold",
        "loglet refusals are true",
    ),
    "seal": (
        "acknowledged below the stop",
        "open tails below the stop",
        "sealed takes nothing",
        "sealed by another client",
    ),
    "tail": ("loglet tails move forward", "loglet appends follow the tail", "copies are whole"),
    "reads": ("loglet reads without holes", "loglet trim points move forward"),
    "progress": ("progress", "comes to an end"),
}
"""Columns of the matrix, and the checks of each; all other findings count as `errors`."""
ERRORS: Final = "errors"
_TITLES: Final = {
    CLAUSE: "The contract, clause by clause",
    LOGLET: "Under faults: clients race, then it must seal, tell its tail and read",
    CHAIN: "In a chain, under all faults together",
}


@attrs.frozen
class ConformanceReport:
    """All there is to say of a provider."""

    provider: str
    kind: str
    nodes: int
    seeds: range
    outcomes: Sequence[Outcome]

    @property
    def kept(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.broken]

    def verdict(self) -> str:
        """One line."""
        run = [outcome for outcome in self.outcomes if outcome.seeds]
        runs = sum(outcome.seeds for outcome in run)
        if self.kept:
            return f"{self.kind} keeps the contract: {len(run)} trials, {runs} runs"
        return f"{self.kind} BREAKS the contract: {len(self.broken)} of {len(run)} trials, {runs} runs"

    def tables(self) -> Iterator[Table]:
        for part, table in ((CLAUSE, _clauses), (LOGLET, _matrix), (CHAIN, _chains)):
            outcomes = [outcome for outcome in self.outcomes if outcome.trial.part == part]
            if outcomes:
                yield table(outcomes)

    def stories(self) -> Iterator[str]:
        """Story of the first broken run of each part, and the command to see it again."""
        for part in _TITLES:
            broken = [outcome for outcome in self.broken if outcome.trial.part == part]
            if broken:
                yield from story(min(broken, key=lambda outcome: outcome.seed or 0))
                yield ""

    def as_json(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            "kind": self.kind,
            "nodes": self.nodes,
            "seeds": [self.seeds.start, self.seeds.stop - 1],
            "kept": self.kept,
            "rows": [_row(outcome) for outcome in self.outcomes],
        }


def story(outcome: Outcome) -> Iterator[str]:
    """Run the first failing seed of a row again and tell of it."""
    assert outcome.seed is not None
    trial = outcome.trial
    yield f"BROKEN  {trial.name}, seed {outcome.seed}"
    yield f"  {trial.about}"
    run = run_seed(outcome.seed, trial.scenario, options=trial.options, messages=True)
    yield from told(run)
    yield f"replay with: {trial.replay(outcome.seed)}"


def told(run: Run) -> Iterator[str]:
    """The first violation of a run, and what led to it."""
    if not run.violations:
        yield "  not so when it was run again: does it use a source of chance, or of time, of its own?"
        return
    violation = run.violations[0]
    yield f"  {violation.check}: {violation.message}"
    yield from (f"  {line}" for line in short_story(run.history, violation))
    yield f"  {LEGEND}"


def columns(outcome: Outcome) -> dict[str, int]:
    """Promise -> first seed in which it was broken, for the broken ones."""
    found: dict[str, int] = {}
    for check, seed in outcome.broken.items():
        name = next((name for name, checks in PROMISES.items() if check in checks), ERRORS)
        found[name] = min(seed, found.get(name, seed))
    return found


def _row(outcome: Outcome) -> dict[str, Any]:
    trial = outcome.trial
    row: dict[str, Any] = {
        "part": trial.part,
        "name": trial.name,
        "about": trial.about,
        "verdict": outcome.verdict,
        "runs": outcome.seeds,
        "broken": outcome.broken,
    }
    if outcome.struck is not None:
        row["struck"] = outcome.struck
    if outcome.seed is not None:
        row["seed"], row["replay"] = outcome.seed, trial.replay(outcome.seed)
    return row


def _clauses(outcomes: Sequence[Outcome]) -> Table:
    table = _table(CLAUSE, "clause", "verdict", "seed")
    for outcome in outcomes:
        table.add_row(outcome.trial.name, _styled(outcome.verdict), "" if outcome.seed is None else str(outcome.seed))
    return table


def _matrix(outcomes: Sequence[Outcome]) -> Table:
    """A column for each promise. That of errors only if there are any."""
    broken = [columns(outcome) for outcome in outcomes]
    names = [name for name in (*PROMISES, ERRORS) if name != ERRORS or any(ERRORS in found for found in broken)]
    table = _table(LOGLET, "fault", "struck", *names)
    for outcome, found in zip(outcomes, broken, strict=True):
        cells = [_styled(f"seed {found[name]}") if name in found else "kept" for name in names]
        if not found and outcome.verdict != "kept":
            cells = [outcome.verdict]
        table.add_row(outcome.trial.name, str(outcome.struck or ""), *cells)
    return table


def _chains(outcomes: Sequence[Outcome]) -> Table:
    table = _table(CHAIN, "chain", "verdict", "seed", "")
    for outcome in outcomes:
        seed = "" if outcome.seed is None else str(outcome.seed)
        what = ", ".join(outcome.broken) or outcome.trial.about
        table.add_row(outcome.trial.name, _styled(outcome.verdict), seed, what)
    return table


def _table(part: str, *names: str) -> Table:
    table = Table(title=_TITLES[part], title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True, justify="right" if name in {"seed", "struck"} else "left")
    return table


def _styled(verdict: str) -> str:
    return f"[bold red]{verdict}[/]" if verdict == "BROKEN" or verdict.startswith("seed") else verdict
