"""Whole clusters in simulation: seeds pass, a seed is a seed in every process, and the command says what it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from simulation.cli import simulate
from simulation.patches import planted
from simulation.runner import run_seed
from virtuallog.types import Open

PRINT_TRACE = (
    "from simulation.cli import simulate; simulate(['--seed', '{seed}', '--scenario', '{scenario}', '--json'])"
)


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_cluster_keeps_every_promise(seed: int) -> None:
    """A few seeds of the default scenario; `make simulate` runs many."""
    assert run_seed(seed).violations == ()


@pytest.mark.parametrize("seed", range(1, 11))
def test_the_register_keeps_every_promise(seed: int) -> None:
    """A few seeds of the MetaStore alone."""
    assert run_seed(seed, "register").violations == ()


@pytest.mark.parametrize("scenario", ["cluster", "register", "weak-seal"])
def test_a_seed_is_a_seed_in_every_process(scenario: str) -> None:
    """Two processes whose sets of strings are ordered differently print the same trace, message by message."""
    traces = {
        subprocess.run(
            [sys.executable, "-c", PRINT_TRACE.format(seed=7, scenario=scenario)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }

    (trace,) = traces
    lines = [json.loads(line) for line in trace.splitlines()]
    assert lines[-1]["violations"] == []
    assert len(lines) > 200


def test_different_seeds_are_different_runs() -> None:
    """Otherwise a thousand seeds would be one."""
    assert run_seed(1).history.events != run_seed(2).history.events


async def always_empty(_: Any) -> Open:
    """Plants: the log is empty, whatever was appended."""
    return Open(0)


def test_a_failing_seed_says_what_broke_and_how_to_replay_it() -> None:
    """Exit code 1, the check, a timeline and one command."""
    with planted({"virtuallog.virtual_log:VirtualLog.check_tail": always_empty}):
        result = CliRunner().invoke(simulate, ["--seed", "1"])

    assert result.exit_code == 1
    assert "seed 1: tails move forward: tail 0 after " in result.output
    assert "replay with: virtuallog simulate --seed 1\n" in result.output


def test_a_good_seed_exits_with_0_and_counts_the_faults() -> None:
    """A run that was put through nothing proves nothing."""
    result = CliRunner().invoke(simulate, ["--seed", "1"])

    assert result.exit_code == 0
    assert "every promise was kept" in result.output
    assert "took effect: " in result.output


def test_a_range_of_seeds_sums_up() -> None:
    """On several processes."""
    result = CliRunner().invoke(simulate, ["--seeds", "1..4", "--scenario", "weak-seal", "--jobs", "2"])

    assert result.exit_code == 0
    assert "4 seeds, 0 with a broken promise" in result.output


@pytest.mark.parametrize(
    "arguments",
    [[], ["--seed", "1", "--seeds", "1..2"], ["--seeds", "9..1"], ["--seeds", "x"], ["--seeds", "1..2", "--json"],
     ["--seed", "1", "--scenario", "none"]],
)  # fmt: skip
def test_wrong_usage_is_refused(arguments: list[Any]) -> None:
    """Exit code 2, before anything runs."""
    assert CliRunner().invoke(simulate, arguments).exit_code == 2
