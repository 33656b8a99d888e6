"""Runs many seeds on all cores, each by itself in one process, so that the number of processes changes nothing.

A process that dies, or hangs in real time, fails the seed it was running and is replaced; the others go on. Processes
are replaced after some hundred seeds in any case, so what leaks in one of them stays small.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Final

import attrs

from virtuallog_simulation.report.summary import SeedSummary, summarize
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.world.options import Options

SEEDS_PER_PROCESS: Final = 500
"""A fresh process costs about a second: well below one percent of so many seeds."""
WATCHDOG_SECONDS: Final = 120.0
"""Real time for one seed. The slowest one takes some seconds; one that takes so long spins without letting time pass."""
_DEATHS_MAX: Final = 20
"""Deaths in a row after which the seeds are not the cause."""
UNREPEATABLE: Final = "same seed, same run"
"""Name of the check that a seed gives the same trace in two processes."""


@attrs.frozen
class Stopwatch:
    """Real time since it was made. No simulated code has one: this module is where real time enters."""

    _began: float = attrs.field(factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


@attrs.frozen(kw_only=True)
class Job:
    """One seed to run."""

    scenario: str
    seed: int
    options: Options = attrs.field(factory=Options)
    twice: bool = False
    """True to run each seed in two processes, whose sets of strings are ordered differently, and
    compare the traces."""


def run_jobs(
    jobs: Iterable[Job], processes: int, watchdog_seconds: float = WATCHDOG_SECONDS
) -> Generator[SeedSummary, None, None]:
    """Run all jobs; a summary of each, in the order in which they end.

    Jobs are taken from the iterable when a process is free, so it may be endless, or end when time is up. Close the
    iterator (or leave it to an exception) to end all processes.
    """
    fleet = _Fleet(iter(jobs), watchdog_seconds)
    try:
        yield from fleet.run(processes)
    finally:
        fleet.close()


@attrs.define(eq=False)
class _Worker:
    """One process and what it is doing."""

    process: multiprocessing.process.BaseProcess
    connection: Connection
    job: Job | None = None
    watch: Stopwatch = attrs.field(factory=Stopwatch)
    jobs: int = 0

    @classmethod
    def start(cls, watchdog_seconds: float) -> _Worker:
        # Fresh processes: a forked one would inherit whatever the parent has imported and started.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, watchdog_seconds), daemon=True)
        with _uninterrupted():
            process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, job: Job) -> None:
        self.job, self.watch, self.jobs = job, Stopwatch(), self.jobs + 1
        with suppress(OSError):  # it has died: `receive` will say so
            self.connection.send(job)

    def receive(self) -> SeedSummary:
        """Receive the result of its job. Call it when the connection is ready."""
        job, self.job = self.job, None
        assert job is not None
        try:
            summary = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return _failed(job, f"the process died (exit code {self.process.exitcode})")
        assert isinstance(summary, SeedSummary)
        return summary

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@attrs.define(eq=False)
class _Fleet:
    """The parent's side."""

    jobs: Iterator[Job]
    watchdog_seconds: float
    workers: list[_Worker] = attrs.field(factory=list, init=False)
    again: deque[tuple[Job, str, _Worker]] = attrs.field(factory=deque, init=False)
    """Jobs to be run a second time: with the trace of the first time, and the worker that ran it."""
    expected: dict[_Worker, str] = attrs.field(factory=dict, init=False)
    """The trace that a worker's present job had the first time."""

    deaths: int = attrs.field(default=0, init=False)
    """Since the last seed that came to an end."""

    def run(self, processes: int) -> Iterator[SeedSummary]:
        self.workers = [_Worker.start(self.watchdog_seconds) for _ in range(processes)]
        while True:
            for worker in list(self.workers):
                self._employ(worker)
            busy = {worker.connection: worker for worker in self.workers if worker.job is not None}
            if not busy:
                return
            ready = wait(list(busy), timeout=1.0)
            for connection in ready:
                assert isinstance(connection, Connection)
                yield from self._ended(busy[connection])
            yield from self._overdue()

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()

    def _employ(self, worker: _Worker) -> None:
        """Give it something to do, if it has nothing and there is something."""
        if worker.job is not None:
            return
        if not worker.process.is_alive() or worker.jobs >= SEEDS_PER_PROCESS:
            worker = self._replace(worker)
        for index, (job, trace, by) in enumerate(self.again):
            if by is not worker or len(self.workers) == 1:
                del self.again[index]
                self.expected[worker] = trace
                worker.give(job)
                return
        job_or_none = next(self.jobs, None)
        if job_or_none is not None:
            worker.give(job_or_none)

    def _ended(self, worker: _Worker) -> Iterator[SeedSummary]:
        job, trace = worker.job, self.expected.pop(worker, None)
        assert job is not None
        summary = worker.receive()
        self._count_deaths(summary)
        if trace is not None and trace != summary.trace:
            yield attrs.evolve(summary, failed=(*summary.failed, UNREPEATABLE))
        elif trace is None and job.twice and summary.trace:
            self.again.append((job, summary.trace, worker))
        else:
            yield summary

    def _count_deaths(self, summary: SeedSummary) -> None:
        self.deaths = self.deaths + 1 if summary.died else 0
        if self.deaths > _DEATHS_MAX:
            raise RuntimeError(f"{self.deaths} processes died one after the other, at last: {summary.failed[0]}")

    def _overdue(self) -> Iterator[SeedSummary]:
        for worker in list(self.workers):
            if worker.job is not None and worker.watch.seconds > self.watchdog_seconds:
                yield _failed(worker.job, f"not done after {self.watchdog_seconds:g} s of real time")
                self.expected.pop(worker, None)
                self._replace(worker)

    def _replace(self, worker: _Worker) -> _Worker:
        worker.kill()
        fresh = _Worker.start(self.watchdog_seconds)
        self.workers[self.workers.index(worker)] = fresh
        return fresh


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start processes that ignore Ctrl-C for ever: it reaches the whole group, and the parent
    decides."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _failed(job: Job, reason: str) -> SeedSummary:
    return SeedSummary(scenario=job.scenario, seed=job.seed, failed=(reason,), died=True)


def _work(connection: Connection, watchdog_seconds: float) -> None:
    """Main loop of a worker: receives jobs and sends summaries, until the parent closes the
    connection or dies."""
    gc.freeze()  # what was imported stays: collections need not look at it again
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(watchdog_seconds * 0.95)  # a seed that hangs shows where, then is killed
        summary = _run(job)
        faulthandler.cancel_dump_traceback_later()
        connection.send(summary)
        gc.collect()


def _run(job: Job) -> SeedSummary:
    try:
        report = run_seed(job.seed, job.scenario, options=job.options, messages=job.twice)
        return summarize(report, with_trace=job.twice)
    except Exception as error:  # of the simulator itself: it fails this seed, not the range
        return attrs.evolve(_failed(job, f"the simulator failed: {type(error).__name__}: {error}"), died=False)
