"""A seed is a seed: the same trace, byte for byte, in every process and after any earlier runs."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import pytest

from tests.simulation.expensive import EXPENSIVE
from virtuallog_simulation.report.narrative import as_json
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.scenarios.registry import all_scenarios
from virtuallog_simulation.world.options import Options

SCENARIOS = [scenario.name for scenario in all_scenarios()]
CHEAP = [(name, None) for name in SCENARIOS if name not in EXPENSIVE]
SOME = CHEAP[::4]
COSTLY = [*((name, None) for name in SCENARIOS if name in EXPENSIVE), ("cluster", "streams")]
SEED = 7

PRINT_TRACES = """
import sys
from tests.simulation import test_determinism
for scenario, transport in getattr(test_determinism, sys.argv[1]):
    sys.stdout.write(test_determinism.trace(scenario, transport))
"""


def trace(scenario: str, transport: str | None, seed: int = SEED) -> str:
    """All that happened, messages and durable writes included."""
    report = run_seed(seed, scenario, options=Options(transport=transport), messages=True)
    return "".join(json.dumps(line) + "\n" for line in as_json(report))


@pytest.mark.parametrize(
    "cases", ["SOME", *(pytest.param(name, marks=pytest.mark.long) for name in ("CHEAP", "COSTLY"))]
)
def test_every_seed_is_a_seed_in_every_process(cases: str) -> None:
    """Two processes whose sets of strings are ordered differently."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_TRACES, cases],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.getcwd()},  # noqa: PTH109
            stdout=subprocess.PIPE,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in processes)

    assert all(process.returncode == 0 for process in processes)
    for number, (one, other) in enumerate(zip(first.splitlines(), second.splitlines(), strict=False)):
        assert one == other, f"line {number}"
    assert first == second
    verdicts = [line for line in map(json.loads, first.splitlines()) if line["event"] == "verdict"]
    assert [verdict["scenario"] for verdict in verdicts] == [scenario for scenario, _ in globals()[cases]]
    assert all(verdict["violations"] == [] for verdict in verdicts)


@pytest.mark.parametrize(
    ("scenario", "transport"), [*CHEAP, *(pytest.param(*case, marks=pytest.mark.long) for case in COSTLY)]
)
def test_what_ran_before_makes_no_difference(scenario: str, transport: str | None) -> None:
    """No cache, counter or generator of one run is seen by the next, and no garbage of it."""
    first = trace(scenario, transport)
    *events, _ = first.splitlines()
    assert len(events) > 50

    *others, _ = trace(scenario, transport, SEED + 1).splitlines()
    assert others != events, "a thousand seeds would be one"
    run_seed(SEED + 2, options=Options(operations=5))
    gc.collect()

    assert trace(scenario, transport) == first


def test_recording_changes_nothing() -> None:
    """A run recorded in detail is the same as one recorded in brief."""
    plain, recorded = run_seed(SEED), run_seed(SEED, messages=True)

    events = {id(event): event for event in recorded.history.events}.values()
    assert [
        event for event in events if type(event).__module__ != "virtuallog_simulation.runs.message_record"
    ] == plain.history.events
    assert recorded.counts == plain.counts
