"""A small run of the program that measures Spark: real processes, and every reader finds what was appended."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import spark
from bench.spark_picture import draw
from bench.spark_report import report
from bench.spark_run import ARCHIVE, BATCHES, FILES, LIVE, PLAIN, Plan
from server.machine import Machine
from tests.spark.java import require_java

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]


async def test_a_small_run(tmp_path: Path) -> None:
    """All readers, sizes and targets are there. How fast it was is nobody's business here."""
    require_java()
    findings = await spark.run(Plan(entries=20_000, size=100, rounds=1, cores=1))
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
