"""Many seeds on several processes: each is accounted for, even if the process that ran it dies."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import attrs
import pytest

from virtuallog.testing.checker.actions import LogAction, LogRead
from virtuallog.testing.checker.history import History, Invoked
from virtuallog_simulation import fleet
from virtuallog_simulation.fleet import Job, run_jobs
from virtuallog_simulation.report.summary import SeedSummary, Soak, count, summarize
from virtuallog_simulation.report.summary_tables import as_json, as_markdown, tables, verdict
from virtuallog_simulation.runs.runner import replay_command, run_seed
from virtuallog_simulation.scenarios.cluster.liveness import CALM_SECONDS
from virtuallog_simulation.soak import Range
from virtuallog_simulation.world.options import Options

SCENARIO = "weak-seal"


def jobs(*seeds: int, twice: bool = False) -> Iterator[Job]:
    return (Job(scenario=SCENARIO, seed=seed, twice=twice) for seed in seeds)


def test_every_job_is_done_once() -> None:
    """On two processes, in any order."""
    summaries = list(run_jobs(jobs(*range(1, 9)), processes=2))

    assert sorted(summary.seed for summary in summaries) == list(range(1, 9))
    assert not any(summary.failed for summary in summaries)
    assert all(summary.operations and summary.counts["requests"] for summary in summaries)


def test_a_process_tells_what_the_seed_tells() -> None:
    """The number of processes changes nothing."""
    (summary,) = run_jobs(jobs(3, twice=True), processes=1)

    assert summary == summarize(run_seed(3, SCENARIO, messages=True), with_trace=True)


def test_jobs_are_taken_when_a_process_is_free() -> None:
    """Jobs are taken one by one, so their number is not limited."""
    with closing(run_jobs(jobs(*range(100_000)), processes=2)) as summaries:
        assert len(list(itertools.islice(summaries, 5))) == 5


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the processes that the fleet starts."""
    ids: list[int] = []
    start = fleet._Worker.start

    def noted(watchdog_seconds: float) -> fleet._Worker:
        worker = start(watchdog_seconds)
        assert worker.process.pid is not None
        ids.append(worker.process.pid)
        return worker

    monkeypatch.setattr(fleet._Worker, "start", noted)
    return ids


def test_a_process_that_dies_fails_its_seed_and_no_other(processes: list[int]) -> None:
    """Killed by the kernel for want of memory, say."""
    killed = False
    summaries: list[SeedSummary] = []

    def then_kill() -> Iterator[Job]:
        nonlocal killed
        yield from jobs(1)
        os.kill(processes[0], signal.SIGKILL)
        killed = True
        yield from jobs(2, 3)

    summaries = list(run_jobs(then_kill(), processes=2))

    assert killed
    assert sorted(summary.seed for summary in summaries) == [1, 2, 3]
    (lost,) = (summary for summary in summaries if summary.failed)
    assert lost.died
    assert "the process died (exit code -9)" in lost.failed


def test_a_seed_that_hangs_is_given_up(processes: list[int]) -> None:
    """Its process is stopped here, and would never come back."""

    def then_stop() -> Iterator[Job]:
        yield from jobs(1)
        os.kill(processes[0], signal.SIGSTOP)
        yield from jobs(2)

    summaries = list(run_jobs(then_stop(), processes=2, watchdog_seconds=10.0))

    assert {summary.seed: summary.died for summary in summaries} == {1: True, 2: False}
    assert any("not done after 10 s of real time" in summary.failed for summary in summaries)


@pytest.mark.long
def test_processes_are_replaced_after_a_while(monkeypatch: pytest.MonkeyPatch, processes: list[int]) -> None:
    """Processes are replaced after some jobs, so that a leak in one of them stays small."""
    monkeypatch.setattr(fleet, "SEEDS_PER_PROCESS", 3)

    assert len(list(run_jobs(jobs(*range(1, 8)), processes=1))) == 7
    assert len(processes) == 3


def test_processes_that_all_die_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the seeds, then."""
    monkeypatch.setattr(fleet, "_DEATHS_MAX", 3)
    monkeypatch.setattr(fleet, "_work", os.kill)  # two arguments that it cannot take: every process ends at once

    with pytest.raises(RuntimeError, match="processes died one after the other"):
        list(run_jobs(jobs(*range(100)), processes=2))


def test_two_traces_of_one_seed_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they differ, the seed fails: its other findings would not be found again."""
    traces = itertools.count()
    receive = fleet._Worker.receive

    def another_trace_each_time(self: fleet._Worker) -> SeedSummary:
        return attrs.evolve(receive(self), trace=str(next(traces)))

    assert [summary.failed for summary in run_jobs(jobs(1, twice=True), processes=2)] == [()]
    monkeypatch.setattr(fleet._Worker, "receive", another_trace_each_time)
    assert [summary.failed for summary in run_jobs(jobs(1, twice=True), processes=2)] == [("same seed, same run",)]


def test_a_range_names_every_seed_of_every_scenario() -> None:
    """Seed by seed; each thousandth one is run twice."""
    named = list(Range(scenarios=("a", "b"), first=999, last=1000).jobs())

    assert [(job.scenario, job.seed, job.twice) for job in named] == [
        ("a", 999, False),
        ("b", 999, False),
        ("a", 1000, True),
        ("b", 1000, True),
    ]


def test_a_range_ends_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a last seed it would go on."""
    clock = itertools.count(10.0, 10.0)
    monkeypatch.setattr(fleet.Stopwatch, "seconds", property(lambda self: next(clock)))

    seeds = [job.seed for job in Range(scenarios=("a",), first=5, last=None, minutes=1.0).jobs()]

    assert seeds == [5, 6, 7, 8, 9]


def test_the_command_of_a_seed_says_what_it_was_narrowed_to() -> None:
    """Names of two words are spelled as one."""
    options = Options(faults=("one way", "clog"), operations=12)

    assert replay_command("cluster", 7, Options()) == "virtuallog simulate --seed 7"
    assert replay_command("native", 7, options) == (
        "virtuallog simulate --scenario native --seed 7 --faults one-way,clog --operations 12"
    )


def seed(number: int, **what: Any) -> SeedSummary:
    return attrs.evolve(SeedSummary(scenario="cluster", seed=number), **what)


@pytest.fixture
def soak() -> Soak:
    """Ten seeds, of which one failed."""
    soak = Soak(("cluster",))
    for number in range(1, 11):
        counts = Counter({"crash": number, "did: trim twice": 2, "crash at wal: synced": number == 4, "restart": 1})
        demands = {"append": number / 10, "trim": 0.5}
        soak.add(seed(number, operations=100 + number, faults=number, counts=counts, demands=demands))
    soak.failures.clear()
    soak.add(seed(11, failed=("reads without holes",)))
    soak.real_seconds = 22.0
    return soak


def test_a_summary_counts_what_happened_and_in_how_many_seeds(soak: Soak) -> None:
    """Faults with what came of them, crash points, shapes of the workload, and the rest."""
    found = {table.title: table.rows for table in tables(soak)}

    assert ("cluster, 11 seeds", "client operations", "101", "105", "109") in found["Per seed"]
    assert ("crash", "55", "10", "") in found["Faults"]
    assert found["Progress after the faults, in simulated seconds"] == [
        ("append", "10", "0.60", "1.00", "1.00"),
        ("trim", "10", "0.50", "0.50", "0.50"),
    ]
    assert found["Crash points that were hit"] == [("wal: synced", "1", "1")]
    assert found["What clients did"] == [("trim twice", "20", "10")]
    assert found["What else happened"] == [("restart", "10", "10")]


def test_a_verdict_names_what_is_wrong(soak: Soak) -> None:
    """Failing seeds, and what has never happened."""
    soak.never_fired["cluster"] = ("bit rot",)

    assert not soak.good
    assert verdict(soak) == [
        "11 seeds in 22.0 s, 0.5 a second: 1 with a broken promise",
        "cluster seed 11: reads without holes",
        "cluster: never happened, so it has not been tested: bit rot",
    ]


def test_a_summary_is_written_for_people_and_for_programs(soak: Soak) -> None:
    """The same numbers."""
    command = "virtuallog simulate --seeds 1..11"
    document, told = as_markdown(soak, command), as_json(soak, command)

    assert document.startswith(f"`{command}` (")
    assert "| crash | 55 | 10 |  |" in document
    assert told["seeds"] == 11
    assert told["failures"] == [{"scenario": "cluster", "seed": 11, "failed": ("reads without holes",)}]
    assert told["scenarios"]["cluster"]["client_operations"] == {"p10": 101, "median": 105, "p90": 109}
    assert told["scenarios"]["cluster"]["progress"]["append"] == {"p50": 0.6, "p99": 1.0, "max": 1.0}
    assert told["took_effect"]["crash"] == {"times": 55, "seeds": 10}


def test_what_clients_asked_is_counted_apart_from_what_they_were_handed() -> None:
    """A reader that follows the log asks once; the judge asks when all is over, and is not counted."""
    report = run_seed(1)
    summary = summarize(report)
    invoked = [event for event in report.history.events if isinstance(event, Invoked)]
    of_clients = [event for event in invoked if not event.client.startswith("judge")]
    log = [event for event in of_clients if isinstance(event.action, LogAction)]

    assert summary.deliveries > 0
    assert summary.operations + summary.deliveries == len(log)
    assert summary.demands.keys() >= {"append and full read", "extend", "trim"}
    assert all(seconds < CALM_SECONDS for seconds in summary.demands.values())


def test_reads_that_take_time_are_asked_for() -> None:
    """One that was asked for, two that a reader was handed."""
    times = iter((0.0, 0.5, 1.0, 1.0, 1.0, 1.0))
    history = History(lambda: next(times))
    for _ in range(3):
        history.observed("reader 1", LogRead(0, 1), [])

    counted = count(history)
    assert (counted.operations, counted.deliveries) == (1, 2)


def test_many_seeds_take_little_room() -> None:
    """Four numbers each; a range that fails everywhere remembers the first thousand by name."""
    soak = Soak(("cluster",))
    for number in range(3000):
        soak.add(seed(number, failed=("reads without holes",), counts=Counter({"crash": 1})))

    assert soak.failed == 3000
    assert len(soak.failures) == 1000
    assert soak.totals["cluster"].counts == {"crash": 3000}
    assert soak.totals["cluster"].operations.values.itemsize == 8
