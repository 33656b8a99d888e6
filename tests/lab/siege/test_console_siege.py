"""The program that measures appends beside a console: its report, and a small run."""

from __future__ import annotations

import os
from math import inf
from pathlib import Path

import pytest

from virtuallog.runtime.process_priority import NICENESS
from virtuallog_lab.experiments import console_siege
from virtuallog_lab.experiments.console_siege import besieged
from virtuallog_lab.experiments.console_siege_report import STATES, SiegePlan, SiegeResult, SiegeSample, report
from virtuallog_lab.harness.machine import Machine


def sample(state: str, load: str, milliseconds: float, count: int = 10) -> SiegeSample:
    cpu = {"nodes": 0.5, "console": 0.1}
    return SiegeSample(state=state, load=load, latencies=[milliseconds / 1000] * count, seconds=1.0, cpu=cpu)


def priorities_of(pid: int) -> set[tuple[int, int]]:
    """Policies and nicenesses of all threads of a process."""
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return {(os.sched_getscheduler(thread), os.getpriority(os.PRIO_PROCESS, thread)) for thread in threads}


def test_the_ratio_is_that_of_one_round() -> None:
    """A slow round changes all states. A saturated loop is judged by its rate, others by the median latency. Two rounds show nothing."""
    samples = [
        sample(state, load, base * (1.02 if state == "both" else 1.0), 98 if state == "both" else 100)
        for base in (1.0, 5.0)
        for state in STATES
        for load in ("paced", "64 callers")
    ]
    counted = [
        {"kind": "tails", "load": "paced", "seconds": 2.0, "events": 10},
        {"kind": "scan", "load": "64 callers", "seconds": 2.0, "silent": 4},
    ]
    plan = SiegePlan(rounds=2, seconds=1.0, loads=("paced", "64 callers"))
    told = report(Machine.look(), plan, SiegeResult(samples, counted))

    assert told.plain["rows"]["paced, both"]["more"] == pytest.approx(0.02)
    assert told.plain["rows"]["64 callers, both"]["more"] == pytest.approx(1 / 0.98 - 1)
    assert {row[5] for row in told.tables[0].rows} == {"", "open"}
    assert [row[0] for row in told.tables[0].rows][: len(STATES)] == [f"paced, {state}" for state in STATES]
    assert [*map(list, told.tables[1].rows)] == [["tails: events", "5.0", "-"], ["scan: silent", "-", "2.0"]]


def test_a_slice_without_an_append_is_infinitely_slow() -> None:
    """The disk may stall for longer than a slice. A round that stalled in both states tells nothing, and is left out."""
    counts = [*[(100, 100)] * 4, (100, 0), (0, 100), (0, 0)]
    samples = [
        sample(state, load, 1.0, count)
        for both in counts
        for state, count in zip(("quiet", "scanned"), both, strict=True)
        for load in ("1 caller", "64 callers")
    ]
    plan = SiegePlan(rounds=len(counts), seconds=1.0, loads=("1 caller", "64 callers"), states=("quiet", "scanned"))
    rows = report(Machine.look(), plan, SiegeResult(samples, [])).plain["rows"]

    found = [(rows[f"{load}, scanned"][name]) for load in plan.loads for name in ("more", "more_low", "more_high")]
    assert found == [0.0, -1.0, inf] * 2


@pytest.mark.parametrize(
    ("more", "found"), [([0.01] * 9 + [0.5], "met"), ([0.01] * 5 + [0.05] * 5, "open"), ([0.05] * 9 + [0.0], "missed")]
)
def test_the_whole_interval_decides_about_the_target(more: list[float], found: str) -> None:
    """One round of ten may go wrong. If the rounds do not agree the target is neither met nor missed."""
    samples = [
        sample(state, "1 caller", 1.0 + (state == "scanned") * each) for each in more for state in ("quiet", "scanned")
    ]
    plan = SiegePlan(rounds=len(more), seconds=1.0, loads=("1 caller",), states=("quiet", "scanned"))
    told = report(Machine.look(), plan, SiegeResult(samples, []))

    assert [row[5] for row in told.tables[0].rows] == ["", found]


@pytest.mark.parametrize(("count", "warned"), [(160, False), (159, True)])
def test_a_scanner_without_time_makes_no_measurement(count: int, warned: bool) -> None:
    """Bytes are no connections."""
    counted = [{"kind": "scan", "load": "1 caller", "seconds": 2.0, "silent": count, "bytes answered": 1000}]
    samples = [sample("quiet", "1 caller", 1.0)]
    plan = SiegePlan(rounds=1, seconds=1.0, loads=("1 caller",), states=("quiet",))
    told = report(Machine.look(), plan, SiegeResult(samples, counted))

    assert ("do not judge a scan by this run" in told.verdict) == warned


@pytest.mark.parametrize(
    ("state", "control"), [("scanned", "other port scanned"), ("100 tails", "100 tails of a sham")]
)
def test_callers_are_compared_with_the_same_ones_elsewhere(state: str, control: str) -> None:
    """If the callers alone slow appends by 10 %, and the console adds no further cost, the difference is none."""
    costs = {"quiet": 1.0, state: 1.1, control: 1.1}
    samples = [sample(each, "1 caller", cost) for each, cost in costs.items() for _ in range(10)]
    plan = SiegePlan(rounds=10, seconds=1.0, loads=("1 caller",), states=tuple(costs))
    told = report(Machine.look(), plan, SiegeResult(samples, []))

    assert [row[5] for row in told.tables[0].rows] == ["", "missed", "missed", "met"]


_OF_TAILS, _OF_SCANS = ("bytes", "events", "sends"), ("closed at once",)


@pytest.mark.processes
@pytest.mark.parametrize("tls", [False, True])
async def test_appends_are_measured_in_every_state(tls: bool) -> None:
    """A small run, on real processes: the tails were sent entries, also by the sham, and the scanner has come. All of them have an
    ordinary priority here: with a low one they would get nothing to count on a machine that is busy."""
    plan = SiegePlan(rounds=2, seconds=1.5, tls=tls, loads=("1 caller",), options=("--priority", "normal"), idle=False)
    found = await console_siege.run(plan)

    assert {each.state for each in found.samples} == {*STATES}
    assert all(each.latencies for each in found.samples)
    tails, sham_tails, scans, sham_scans = (
        [each for each in found.counted if each["kind"] == kind]
        for kind in ("tails", "sham tails", "scan", "sham scan")
    )
    assert (len(tails), len(sham_tails), len(scans), len(sham_scans)) == (4, 2, 4, 2)
    for counted, names in ((tails, _OF_TAILS), (sham_tails, _OF_TAILS), (scans, _OF_SCANS), (sham_scans, _OF_SCANS)):
        assert all(sum(each.get(name, 0) for each in counted) > 0 for name in names), counted
    assert all(each.get("bytes answered", 0) == 0 for each in sham_scans)


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="a policy of Linux")
@pytest.mark.parametrize(
    ("options", "policy", "niceness"),
    [
        ((), "SCHED_OTHER", NICENESS),
        (("--priority", "idle"), "SCHED_IDLE", 0),
        (("--priority", "normal"), "SCHED_OTHER", 0),
    ],
)
async def test_a_console_gives_way_unless_it_is_told_otherwise(
    options: tuple[str, ...], policy: str, niceness: int
) -> None:
    """Its process and all of its threads; the nodes beside it are as they were."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    async with besieged(SiegePlan(rounds=1, seconds=0.1, tls=False, options=options)) as siege:
        found = {(name, *each) for name, pid in siege.pids for each in priorities_of(pid)}

    assert found == {("nodes", os.SCHED_OTHER, own), ("console", getattr(os, policy), min(own + niceness, 19))}
