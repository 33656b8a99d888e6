"""Runs many seeds on all cores. Each seed runs by itself in one process, so the number of processes changes nothing."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import attrs

from simulation.runner import run_seed


@attrs.frozen(kw_only=True)
class Summary:
    """What a process tells of a seed: little, as the seed itself tells the rest."""

    seed: int
    failed: tuple[str, ...]
    """Names of the checks that found something."""
    counts: Counter[str]


def run_seeds(seeds: Sequence[int], scenario: str, jobs: int | None = None) -> Iterator[Summary]:
    """Run all seeds; a summary of each, in the order in which they end."""
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(seeds) == 1:
        yield from (_run(seed, scenario) for seed in seeds)
        return
    # Fresh processes: a forked one would inherit whatever the parent has imported and started.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_run, seed, scenario) for seed in seeds]):
            yield future.result()


def _run(seed: int, scenario: str) -> Summary:
    report = run_seed(seed, scenario)
    names = dict.fromkeys(violation.check for violation in report.violations)
    return Summary(seed=seed, failed=tuple(names), counts=report.counts)
