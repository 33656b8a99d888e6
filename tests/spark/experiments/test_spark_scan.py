"""A small run of the program that measures Spark: real processes, and every reader finds what was appended."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import trio

from tests.spark.java import require_java
from virtuallog_lab.experiments.spark_scan import scan
from virtuallog_lab.experiments.spark_scan.report import draw, report
from virtuallog_lab.experiments.spark_scan.run import ARCHIVE, BATCHES, FILES, LIVE, PLAIN, ScanFindings, ScanPlan
from virtuallog_lab.harness.machine import Machine

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]


def run(plan: ScanPlan) -> ScanFindings:
    """In a process of its own: it starts and stops sessions of Spark, and a process has one at a time, which other tests share."""
    return trio.run(scan.run, plan)


def test_a_small_run(tmp_path: Path) -> None:
    """All readers, sizes and targets are there. Speed is not checked here."""
    require_java()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        findings = processes.submit(run, ScanPlan(entries=20_000, size=100, rounds=1, cores=1)).result()
    told = report(Machine.look(), findings)

    assert told.problems == []
    assert findings.contents.count == 20_000 and findings.contents.bytes == 2_000_000
    assert {(one.what, one.entries) for one in findings.readings} == {
        (PLAIN, 20_000), (BATCHES, 20_000), *((what, size) for what in (LIVE, ARCHIVE, FILES) for size in (2000, 4000, 10_000, 20_000)),
    }  # fmt: skip
    assert findings.archived.files > 0 and findings.archived.bytes > 500_000
    assert {row[-1] for row in told.tables[-1].rows} <= {"yes", "no", "-"}
    assert {look.stage for look in findings.looks} > {"load", "archiving"}
    draw(findings, tmp_path / "spark.png")
