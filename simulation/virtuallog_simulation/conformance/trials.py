"""Trials of a provider, and their outcomes.

A trial is one row of the report: a clause of the contract, a class of faults, a kind of chain. It is one scenario of the
simulator (`PART/NAME`) over a range of seeds; the fleet runs them on all cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.faults.registry import NAMES
from virtuallog_simulation.fleet import Job, run_jobs
from virtuallog_simulation.report.summary import SeedSummary
from virtuallog_simulation.scenarios.conformance import chain, clauses, faults
from virtuallog_simulation.scenarios.conformance.options import DEAD, TrialOptions
from virtuallog_simulation.world.options import cli_word

CLAUSE, LOGLET, CHAIN = "clause", "loglet", "chain"
CLAUSE_SEEDS: Final = 5
"""Most seeds of a clause: what it asks is written down, and a seed is only another interleaving."""


@attrs.frozen(kw_only=True)
class Trial:
    """One row."""

    part: str
    name: str
    about: str
    """The promise, or what happens."""
    options: TrialOptions
    seeds: range
    """Empty: the author does not claim that the loglet survives this."""

    @property
    def scenario(self) -> str:
        return f"{self.part}/{self.name}"

    @property
    def jobs(self) -> Iterator[Job]:
        return (Job(scenario=self.scenario, seed=seed, options=self.options) for seed in self.seeds)

    def replay(self, seed: int) -> str:
        """The command that runs one seed of it again."""
        assert self.options.loglets is not None
        command = f"virtuallog conformance {self.options.loglets[0]} --only {cli_word(self.name)} --seed {seed}"
        nodes = f" --nodes {self.options.nodes}" if self.options.nodes != TrialOptions().nodes else ""
        left_out = self._left_out if self.part == CHAIN else ""
        return command + nodes + (f" --without {left_out}" if left_out else "")

    @property
    def _left_out(self) -> str:
        return ",".join(cli_word(name) for name in everything() if not self.options.allows_fault(name))


@attrs.define(eq=False)
class Outcome:
    """Outcome of a trial."""

    trial: Trial
    seeds: int = 0
    """Seeds that have been run."""
    broken: dict[str, int] = attrs.field(factory=dict)
    """Check -> the first seed in which it objected."""
    counts: Counter[str] = attrs.field(factory=Counter)

    def add(self, summary: SeedSummary) -> None:
        self.seeds += 1
        self.counts.update(summary.counts)
        for check in summary.failed:
            self.broken[check] = min(summary.seed, self.broken.get(check, summary.seed))

    @property
    def seed(self) -> int | None:
        """The first failing one."""
        return min(self.broken.values(), default=None)

    @property
    def struck(self) -> int | None:
        """Strikes of its fault; None if it has none."""
        if self.trial.part != LOGLET or self.trial.name == faults.NONE:
            return None
        return faults.struck(self.trial.name, self.counts)

    @property
    def verdict(self) -> str:
        if self.broken:
            return "BROKEN"
        if not self.trial.seeds:
            return "not claimed"
        return "never struck" if self.struck == 0 else "kept"


def everything() -> tuple[str, ...]:
    """Every class of faults."""
    return (*NAMES, DEAD)


def plan(provider: str, seeds: range, nodes: int, without: Collection[str], only: Collection[str] = ()) -> list[Trial]:
    """All trials of a provider, or those of the names in `only`.

    Args:
        provider: as `providers.find` knows it.
        seeds: of each trial; clauses take the first few of them.
        nodes: machines that serve it.
        without: classes of faults that it does not claim to survive.
        only: names of rows; a blank may be written as a hyphen.

    Raises:
        InvalidSettingError: no fault, or no row, has such a name.
    """
    left_out = _known("without", without, everything())
    claimed = tuple(name for name in everything() if name not in left_out)
    options = TrialOptions(loglets=(provider,), nodes=nodes)
    in_chain = attrs.evolve(options, faults=claimed)
    chains = {name: about for name, about in chain.CHAINS.items() if name != "mixed" or provider != "native"}
    trials = [
        *(_trial(CLAUSE, name, clauses.promise(name), options, seeds[:CLAUSE_SEEDS]) for name in clauses.ALL),
        *(_trial(LOGLET, name, about, options, range(0) if name in left_out else seeds)
          for name, about in faults.FAULTS.items()),
        *(_trial(CHAIN, name, about, in_chain, seeds) for name, about in chains.items()),
    ]  # fmt: skip
    wanted = _known("only", only, [trial.name for trial in trials])
    return [trial for trial in trials if trial.name in wanted or not wanted]


def run(trials: Sequence[Trial], processes: int) -> Iterator[Outcome]:
    """Run all trials; the outcome of one after each seed, as far as it has come."""
    outcomes = {trial.scenario: Outcome(trial) for trial in trials}
    for summary in run_jobs((job for trial in trials for job in trial.jobs), processes):
        outcomes[summary.scenario].add(summary)
        yield outcomes[summary.scenario]


def _trial(part: str, name: str, about: str, options: TrialOptions, seeds: range) -> Trial:
    return Trial(part=part, name=name, about=about, options=options, seeds=seeds)


def _known(where: str, names: Iterable[str], known: Iterable[str]) -> set[str]:
    by_spelling = {cli_word(name): name for name in known}
    for name in names:
        if cli_word(name) not in by_spelling:
            raise InvalidSettingError(where, f"no '{name}' (known: {', '.join(sorted(by_spelling))})")
    return {by_spelling[cli_word(name)] for name in names}
