"""Faults that a run draws, the counters that prove them, and the coverage of a set of seeds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from virtuallog.contract.crash_points import CRASH_POINTS
from virtuallog_simulation.faults import registry
from virtuallog_simulation.faults.crash_points import AREAS, COUNTED
from virtuallog_simulation.faults.fault_class import FaultClass
from virtuallog_simulation.faults.nemesis import FaultPlan
from virtuallog_simulation.faults.processes import LOST_DATABASE, LOST_STORE
from virtuallog_simulation.faults.registry import CLASSES, NAMES
from virtuallog_simulation.runs import coverage
from virtuallog_simulation.runs.bounds import BOUNDS, PREFIX
from virtuallog_simulation.scenarios.registry import all_scenarios

CARRIED_OUT = tuple(fault for fault in CLASSES if fault not in registry.ELSEWHERE)


def test_plans_are_a_swarm() -> None:
    """One in seven has no faults, one in seven all of them, the rest some; each class is in about a third."""
    plans = [FaultPlan.draw(random.Random(seed)) for seed in range(1000)]
    sizes = [len(plan.active) for plan in plans]

    assert 0.11 < sum(size == 0 for size in sizes) / len(plans) < 0.18
    assert 0.11 < sum(size == len(NAMES) for size in sizes) / len(plans) < 0.18
    for name in (fault.name for fault in CARRIED_OUT):
        assert 0.25 < sum(name in plan.active for plan in plans) / len(plans) < 0.45


def test_names_are_unique_and_mean_one_thing() -> None:
    """A counter that two classes share would prove neither."""
    assert len(set(NAMES)) == len(NAMES)
    counters = [counter for fault in CLASSES for counter in fault.counters]
    assert sorted(counters) == sorted(set(counters))
    assert all((fault.act is None) or (fault.prepare is None) for fault in CLASSES)


def test_the_table_in_the_docs_is_the_registry() -> None:
    """Class, line and counters, in the same order."""
    text = Path("docs/internals/faults.md").read_text(encoding="utf-8")
    section = text.split("\n## Faults\n")[1].split("\n## ")[0]
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|")) for line in section.splitlines() if line[:1] == "|"
    ]

    assert rows[2:] == [table_row(fault) for fault in CLASSES]


def table_row(fault: FaultClass) -> tuple[str, str, str]:
    counters = ", ".join(f"`{counter}`" for counter in fault.counters) or f"`{COUNTED}...`"
    return fault.name, fault.about, counters


# -- coverage -----------------------------------------------------------------------------------------------------


def test_what_never_fired_is_named() -> None:
    """A cluster demands every counter there is, but for those of paxos; a scenario that stages its danger demands none."""
    demanded = coverage.never_fired("cluster", {})

    assert {counter for fault in CLASSES for counter in fault.counters} - {LOST_STORE, LOST_DATABASE} <= set(demanded)
    assert coverage.never_fired("cluster", dict.fromkeys(demanded, 1)) == []
    assert coverage.never_fired("cluster", {**dict.fromkeys(demanded, 1), "lost": 0}) == ["lost"]
    assert coverage.never_fired("repair", {}) == []


def test_every_crash_point_is_demanded_by_some_scenario() -> None:
    """A crash point at which no process has to die would prove nothing."""
    demanded = {counter for scenario in coverage.DEMANDS for counter in coverage.never_fired(scenario, {})}

    assert {COUNTED + point.name for point in CRASH_POINTS.values() if point.area in AREAS} <= demanded


def test_demands_are_those_of_scenarios() -> None:
    """A renamed scenario would demand nothing any more."""
    assert set(coverage.DEMANDS) <= {scenario.name for scenario in all_scenarios()}
    for demand in coverage.DEMANDS.values():
        assert set(demand.without_classes) <= set(NAMES)
        assert set(demand.crash_areas or ()) <= set(AREAS)
        assert {PREFIX + name for name in demand.refused} <= {bound.counter for bound in BOUNDS if bound.says}
        assert set(demand.without_counters) <= {counter for fault in CLASSES for counter in fault.counters}


@pytest.mark.parametrize("gone", NAMES)
def test_a_class_that_is_taken_away_leaves_the_draws_of_the_others(gone: str) -> None:
    """The search for the faults that a failing seed needs takes them away one by one."""
    for seed in range(20):
        whole = FaultPlan.draw(random.Random(seed))
        rest = {name: mean for name, mean in whole.active.items() if name != gone}

        assert rest == FaultPlan.draw(random.Random(seed), without=(gone,)).active
        assert rest == whole.narrowed(lambda name: name != gone).active
