"""An audit of a real log: read by tasks of Spark from its servers, over a change of loglets and behind a trim."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_virtuallog.audit.findings import Severity
from pyspark_virtuallog.audit.job import AuditSettings, audit
from tests.spark.one_node import in_thread, log_of_one_node
from virtuallog.types import LogPosition

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]
ENTRIES = 1_000


async def test_a_real_log_is_found_as_it_should_be(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is wrong with it, and the figures are those of what was written and not trimmed."""
    async with log_of_one_node(tmp_path) as (cluster, log):
        for segment in range(2):
            with log.appender() as appender:
                for _ in range(5):
                    await appender.append([b"%d" % segment] * (ENTRIES // 10))
            if not segment:
                await log.reconfig_extend("native")
        await log.prefix_trim(LogPosition(10))
        told: list[str] = []
        found = await in_thread(audit, spark, Path(cluster), AuditSettings(), told.append)

    assert {finding.severity for finding in found.findings} == {Severity.FINE}
    assert (found.start, found.stop) == (10, ENTRIES)
    assert [(segment.entries, segment.bytes) for segment in found.evidence.segments] == [(490, 490), (500, 500)]
    assert [session.entries for session in found.evidence.largest_sessions] == [500, 490]
    assert told == ["reading [10, 1000)", "comparing sessions"]
