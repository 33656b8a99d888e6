"""The program that measures the log as a table of Spark: what a reader has to find, who has used a CPU, and what is judged."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog_lab.experiments.spark_scan.contents import BATCH, Contents, Loaded, contents_of, make_payloads
from virtuallog_lab.experiments.spark_scan.plain_reader import by_batches, by_entries
from virtuallog_lab.experiments.spark_scan.processes import Process, ProcessUsage, cpu_of, parse_stat, roles_of
from virtuallog_lab.experiments.spark_scan.report import draw, report
from virtuallog_lab.experiments.spark_scan.run import (
    ARCHIVE,
    BATCHES,
    FILES,
    LIVE,
    PLAIN,
    Archived,
    Cold,
    ScanFindings,
    ScanPlan,
    ScanResult,
    stage_of,
)
from virtuallog_lab.harness.machine import Machine

MIB = 1 << 20
PLAN = ScanPlan(entries=10_000, size=100, rounds=1, cores=2)


# -- what is read ---------------------------------------------------------------------------------------------------------


def test_payloads_are_made_again_from_their_number() -> None:
    """A number gives the same payloads again, to examine a run that failed; other numbers give other payloads."""
    payloads = make_payloads(7, 100)
    assert payloads == make_payloads(7, 100) != make_payloads(8, 100)
    assert {len(payload) for payload in payloads} == {100} and len(set(payloads)) == BATCH


def test_contents_do_not_depend_on_the_order() -> None:
    """Spark adds them up in parts; a payload that is missing, doubled or another one is noticed."""
    payloads = [b"a", b"bc", b""]
    whole = contents_of(payloads)
    assert whole == Contents(3, 3, sum(map(crc32, payloads)))
    assert contents_of(payloads[2:]) + contents_of(payloads[:2]) == whole
    assert whole not in {contents_of([b"a", b"bc"]), contents_of([b"a", b"a", b"c"]), contents_of([b"a", b"bd", b""])}


def test_the_first_entries_are_those_that_lie_first() -> None:
    """The order in which appends were acknowledged does not matter."""
    parts = [contents_of(make_payloads(number, 10)) for number in range(3)]
    loaded = Loaded({2 * BATCH: parts[0], 0: parts[1], BATCH: parts[2]})
    assert loaded.count == 3 * BATCH
    assert loaded.prefixes([BATCH, 3 * BATCH]) == {BATCH: parts[1], 3 * BATCH: parts[0] + parts[1] + parts[2]}


def test_plain_readers_agree_on_what_batches_say() -> None:
    """One looks at each entry, the other at none, and so has no checksum. Gaps are no entries."""
    payloads = make_payloads(1, 20)
    batch = Batch.build(SessionId(bytes(16)), 0, payloads)
    piece: list[Placed] = [PlacedBatch(range(BATCH), batch, 5), Gap(BATCH, BATCH + 9, GapKind.FILLER)]
    assert by_entries(piece) == contents_of(payloads)
    assert by_batches(piece) == Contents(BATCH, 20 * BATCH, 0)


# -- who used what --------------------------------------------------------------------------------------------------------


def test_a_line_of_proc_is_read_whatever_a_process_is_called() -> None:
    """Names may have brackets and spaces."""
    line = "42 (a (b) c) S 7 42 42 0 -1 0 0 0 0 0 150 50 30 20 20 0 1 0 5 1000 3 0 0"
    found = parse_stat(line)
    assert (found.pid, found.parent, found.name) == (42, 7, "a (b) c")
    assert found.cpu_seconds == pytest.approx(4 * found.ended_seconds)
    assert found.resident_bytes % 3 == 0 and found.resident_bytes > 0


def process(pid: int, parent: int, name: str, cpu: float, ended: float = 0.0) -> Process:
    return Process(pid=pid, parent=parent, name=name, cpu_seconds=cpu, ended_seconds=ended, resident_bytes=MIB)


def test_cpu_is_told_apart_by_who_used_it() -> None:
    """Nodes, Java, and what Java has started; workers that have ended count still. Strangers do not."""
    known = [
        process(1, 0, "bench", 100), process(2, 1, "python", 5), process(3, 1, "java", 10, ended=2),
        process(4, 3, "python3", 1, ended=4), process(5, 4, "python3", 3), process(6, 0, "java", 50), process(7, 1, "sh", 9),
    ]  # fmt: skip
    roles = roles_of({one.pid: one for one in known}, root=1, servers=frozenset({2}))
    assert {role: [one.pid for one in found] for role, found in roles.items()} == {
        "jvm": [3], "python": [4, 5], "servers": [2],
    }  # fmt: skip
    assert cpu_of(roles) == {"jvm": 10, "python": 1 + 3 + 4 + 2, "servers": 5}


# -- the report -----------------------------------------------------------------------------------------------------------


def reading(what: str, cores: int, seconds: float, entries: int = PLAN.entries, cpu: float = 0.01) -> ScanResult:
    used = {"jvm": cpu, "python": cpu, "servers": cpu} if cores else {"reader": cpu, "servers": cpu}
    return ScanResult(what=what, cores=cores, entries=entries, seconds=seconds, cpu=used)


def found(archive_seconds: float = 0.1, late_mib: int = 100) -> ScanFindings:
    readings = [
        reading(PLAIN, 0, 1.0), reading(BATCHES, 0, 0.5), reading(LIVE, 1, 2.0), reading(LIVE, 2, 1.25),
        reading(LIVE, 2, 0.2, 1000, 0.001), reading(ARCHIVE, 1, 0.2), reading(ARCHIVE, 2, archive_seconds),
        reading(FILES, 2, 0.125),
    ]  # fmt: skip
    looks = [
        ProcessUsage(
            at=at, stage=stage_of(LIVE, 2, size), jvm=mib * MIB, python=100 * MIB, worker=90 * MIB, servers=60 * MIB
        )
        for at, (size, mib) in enumerate(
            [(1000, 100), (10_000, 100), (10_000, 100), (10_000, late_mib), (10_000, 50), (1000, 400)]
        )
    ]
    return ScanFindings(
        plan=PLAN, contents=Contents(10_000, 1_000_000, 255), load_seconds=1.0,
        cold=Cold(start_seconds=5.0, first_seconds=9.0), archived=Archived(seconds=30.0, bytes=3 * MIB, files=2),
        readings=readings, looks=looks, problems=[],
    )  # fmt: skip


def test_sizes_are_tenths_up_to_all() -> None:
    """Each at the border of a batch, so that its contents are known."""
    assert PLAN.sizes == [1000, 2000, 5000, 10_000]
    assert all(size % BATCH == 0 for size in PLAN.sizes)


def test_targets_are_judged_by_medians_and_halves() -> None:
    """A missed target says so; it is no problem, as the machine may have been busy."""
    rows = {row[0]: list(row[1:]) for row in report(Machine.look(), found(0.25, late_mib=300)).tables[-1].rows}
    assert rows == {
        "live log, of the plain reader": ["0.80", "at least 0.6", "yes"],
        "archive, of the plain reader": ["4.00", "at least 5", "no"],
        "archive, local[2] of local[1]": ["0.80", "at least 1.3", "no"],
        "read_archives, of the plain reader": ["8.00", "at least 5", "yes"],
        "read_archives, local[2] of local[1]": ["-", "at least 1.3", "-"],
        "live log, CPU for a million, all of it of a tenth": ["1.00", "at most 1.15", "yes"],
        "memory, second half of first": ["2.00", "at most 1.15", "no"],
        "memory, all of it of a tenth": ["2.00", "at most 1.15", "no"],
    }


def test_the_report_has_every_reader(tmp_path: Path) -> None:
    """Those that were not measured have no row; what was not looked at is no figure. And the picture can be drawn."""
    told = report(Machine.look(), found())
    assert [row[0] for row in told.tables[0].rows] == [
        "plain reader", "plain, batches only", "Spark, live log, local[1]", "Spark, live log, local[2]",
        "Spark, archive, local[1]", "Spark, archive, local[2]", "Spark, read_archives, local[2]",
    ]  # fmt: skip
    assert [row[2] for row in told.tables[0].rows] == ["1.00", "2.00", "0.50", "0.80", "5.00", "10.00", "8.00"]
    assert [row[0] for row in told.tables[1].rows] == ["1,000", "2,000", "5,000", "10,000"]
    assert list(told.tables[1].rows[1][1:]) == ["-"] * 11
    draw(found(), tmp_path / "spark.png")
    assert (tmp_path / "spark.png").stat().st_size > 10_000
