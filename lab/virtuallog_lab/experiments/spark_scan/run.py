"""One run of `scan.py`: the log is filled, read plainly and with Spark, archived with Spark, and
read again from the archive.

Compared readers are measured in turn, so that a machine that is slow for a while is slow for both.
Every reader has to find what was appended. A session of Spark is warmed up before anything of it
counts: Java compiles what runs often, and a first query costs several times as much; its cost is
recorded as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from pyspark.sql import SparkSession

from virtuallog.connect import connect
from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.spark_scan import plain_reader
from virtuallog_lab.experiments.spark_scan.contents import BATCH, Contents, load
from virtuallog_lab.experiments.spark_scan.processes import ProcessObserver, ProcessUsage
from virtuallog_lab.experiments.spark_scan.query import ask, ask_files, opened_spark
from virtuallog_lab.harness.report import tell
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster

CLOCK: Final = SystemClock()
PLAIN: Final = "plain reader"
BATCHES: Final = "plain, batches only"
LIVE: Final = "live log"
ARCHIVE: Final = "archive"
"""Through the data source, as the live log."""
FILES: Final = "read_archives"
"""The archive's files, read by Spark itself."""
SHARES: Final = (10, 5, 2, 1)
"""The sizes that are measured are the log divided by these."""
WARM_UP: Final = 0
"""Stands for a number of cores."""
WARM_ROUNDS: Final = 4
"""Queries of a session before those that count."""
ARCHIVE_SECONDS: Final = 3600.0


@attrs.frozen(kw_only=True)
class ScanPlan:
    """The options."""

    entries: int
    """A multiple of BATCH."""
    size: int
    rounds: int
    cores: int
    """Cores of the larger Spark; the smaller has one."""

    @property
    def sizes(self) -> list[int]:
        """Numbers of entries to read, ascending."""
        return sorted({self.entries // share // BATCH * BATCH for share in SHARES})


@attrs.frozen(kw_only=True)
class ScanResult:
    """One read of the first entries of the log."""

    what: str
    """PLAIN, BATCHES, LIVE, ARCHIVE or FILES."""
    cores: int
    """Cores of Spark; 0 for plain readers."""
    entries: int
    seconds: float
    cpu: Mapping[str, float]
    """CPU seconds: of the plain reader (`reader`) or Spark (`jvm`, `python`), and of the servers."""

    @property
    def rate(self) -> float:
        """Entries in a second."""
        return self.entries / self.seconds

    def cpu_per_million(self, *roles: str) -> float:
        """CPU seconds for a million entries, of these, or of all."""
        return 1e6 * sum(self.cpu[role] for role in roles or self.cpu) / self.entries


@attrs.frozen(kw_only=True)
class Cold:
    """Spark from its start until it is warm."""

    start_seconds: float
    """Seconds until there is a session: the JVM, and Spark's initial work."""
    first_seconds: float
    """The first query, of the smallest size, with the start of workers."""


@attrs.frozen(kw_only=True)
class Archived:
    """The job that archives."""

    seconds: float
    """Seconds of the command, with the start of its JVM."""
    bytes: int
    """Bytes of the files."""
    files: int


@attrs.frozen(kw_only=True)
class ScanFindings:
    """Findings of a run."""

    plan: ScanPlan
    contents: Contents
    load_seconds: float
    cold: Cold
    archived: Archived
    readings: Sequence[ScanResult]
    looks: Sequence[ProcessUsage]
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.define(eq=False)
class ScanExperiment:
    """The experiment of `scan.py`."""

    plan: ScanPlan
    cluster: LocalCluster
    folder: Path
    """Folder for files written on the way."""
    observer: ProcessObserver
    _expected: dict[int, Contents] = attrs.field(factory=dict, init=False)
    _readings: list[ScanResult] = attrs.field(factory=list, init=False)
    _problems: list[str] = attrs.field(factory=list, init=False)

    async def run(self) -> ScanFindings:
        """Run the whole experiment.

        Raises:
            VirtualLogError: something could not be done.
            PySparkException, Py4JError: Spark could not do it.
        """
        load_seconds = await self._load()
        cold = await self._live()
        archived = await self._archive()
        for number, cores in enumerate(_alternating(self.plan)):
            await self._archived(cores, number)
        return ScanFindings(
            plan=self.plan,
            contents=self._expected[self.plan.entries],
            load_seconds=load_seconds,
            cold=cold,
            archived=archived,
            readings=self._readings,
            looks=self.observer.looks,
            problems=self._problems,
        )

    async def _load(self) -> float:
        """Fill the log, and close the segment, as only such are archived."""
        self._stage("load")
        began = CLOCK.monotonic()
        async with connect(self.cluster.file) as log:
            loaded = await load(log, self.plan.entries, self.plan.size)
            await log.reconfig_extend("native")
        self._expected = loaded.prefixes(self.plan.sizes)
        return CLOCK.monotonic() - began

    async def _live(self) -> Cold:
        began = CLOCK.monotonic()
        sizes = self.plan.sizes
        async with opened_spark(self.plan.cores, self.folder) as spark:
            started = CLOCK.monotonic()
            self._stage(stage_of(LIVE, WARM_UP, sizes[0]))
            await ask(spark, self.cluster.file_path, sizes[0])
            first_seconds = CLOCK.monotonic() - started
            await self._warm_up(spark, LIVE)
            for number in range(self.plan.rounds):
                await self._plain(PLAIN)
                await self._plain(BATCHES)
                for size in reversed(sizes) if number % 2 else sizes:
                    await self._spark(spark, LIVE, self.plan.cores, size)
        if self.plan.cores > 1:
            await self._live_on_one_core()
        return Cold(start_seconds=started - began, first_seconds=first_seconds)

    async def _live_on_one_core(self) -> None:
        async with opened_spark(1, self.folder) as spark:
            await self._warm_up(spark, LIVE)
            for _ in range(self.plan.rounds):
                await self._spark(spark, LIVE, 1, self.plan.entries)

    async def _archived(self, cores: int, number: int) -> None:
        async with opened_spark(cores, self.folder) as spark:
            sizes = self.plan.sizes if cores == self.plan.cores else [self.plan.entries]
            for what in (ARCHIVE, FILES):
                await self._warm_up(spark, what)
                for size in reversed(sizes) if number % 2 else sizes:
                    await self._spark(spark, what, cores, size)

    async def _warm_up(self, spark: SparkSession, what: str) -> None:
        self._stage(stage_of(what, WARM_UP, self.plan.sizes[0]))
        for _ in range(WARM_ROUNDS):
            await self._ask(spark, what, self.plan.sizes[0])

    async def _spark(self, spark: SparkSession, what: str, cores: int, size: int) -> None:
        self._stage(stage_of(what, cores, size))
        used, began = self.observer.cpu(), CLOCK.monotonic()
        found = await self._ask(spark, what, size)
        seconds = CLOCK.monotonic() - began
        cpu = {role: now - used[role] for role, now in self.observer.cpu().items()}
        self._keep(ScanResult(what=what, cores=cores, entries=size, seconds=seconds, cpu=cpu), found)

    async def _ask(self, spark: SparkSession, what: str, size: int) -> Contents:
        return await (ask_files if what == FILES else ask)(spark, self.cluster.file_path, size)

    async def _plain(self, what: str) -> None:
        self._stage(what)
        used, size = self.observer.cpu(), self.plan.entries
        done = await plain_reader.run(self.cluster.file_path, size, batches=what == BATCHES)
        cpu = {"reader": done.cpu_seconds, "servers": self.observer.cpu()["servers"] - used["servers"]}
        self._keep(ScanResult(what=what, cores=0, entries=size, seconds=done.seconds, cpu=cpu), done.contents)

    def _keep(self, reading: ScanResult, found: Contents) -> None:
        self._readings.append(reading)
        expected = self._expected[reading.entries]
        if reading.what == BATCHES:  # which knows no checksum
            expected = attrs.evolve(expected, checksum=0)
        if found != expected:
            self._problems.append(f"{reading.what}: read {found}, but there are {expected}")
        tell(f"{self._now:7.1f} s {reading.what} local[{reading.cores}] {reading.entries:>10,}: "
             f"{reading.rate:>10,.0f}/s, {reading.cpu_per_million():.2f} CPU s a million")  # fmt: skip

    async def _archive(self) -> Archived:
        """The command, as a user gives it."""
        self._stage("archiving")
        place, began = self.folder / "archives", CLOCK.monotonic()
        where = ["--to", f"file://{place}", "--cluster", str(self.cluster.file_path), "--json"]
        command = [*PROGRAM, "spark", "archive", "all", *where, "--master", f"local[{self.plan.cores}]"]
        with CLOCK.timeout(ARCHIVE_SECONDS):
            done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
            if done.returncode:
                raise UnavailableError(f"the archive job failed: {done.stderr.decode()[-300:]}")
            files = list(place.glob("*/*.parquet"))
            return Archived(
                seconds=CLOCK.monotonic() - began, bytes=sum(file.stat().st_size for file in files), files=len(files)
            )
        raise UnavailableError(f"the archive job took more than {ARCHIVE_SECONDS:g} s")

    def _stage(self, name: str) -> None:
        self.observer.stage = name
        tell(f"{self._now:7.1f} s {name}")

    @property
    def _now(self) -> float:
        return CLOCK.monotonic() - self.observer.began


def stage_of(what: str, cores: int, entries: int) -> str:
    """Stage name of memory looks while Spark reads so many entries."""
    return f"{what} {f'local[{cores}]' if cores else 'warm-up'} {entries}"


def _alternating(plan: ScanPlan) -> list[int]:
    """Cores of one session after the other: 2 1, 1 2, 2 1, as what comes later finds a machine that is warmer."""
    if plan.cores == 1:
        return [1] * plan.rounds
    pair = [plan.cores, 1]
    return [cores for number in range(plan.rounds) for cores in (pair if number % 2 == 0 else pair[::-1])]
