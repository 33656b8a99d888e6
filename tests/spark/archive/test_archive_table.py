"""The archived beginning of a log, read by Spark's own reader of Parquet: the same rows, and never those of a damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_virtuallog import read_archives
from pyspark_virtuallog.spark_errors import explain
from tests.spark.one_node import in_thread, log_of_one_node
from virtuallog.client.cluster_file import read_cluster_file
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, WrongRecipientError
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.archive.config import GRACE_SECONDS
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_server.cli.archive.segment_archiver import archive_segments

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ENTRIES = 3_000
COLUMNS = "position, payload, unix_millis(time), session, sequence, size, gap"


async def archive(cluster: str, log: VirtualLog, place: Path) -> None:
    """Two segments with entries, archived in several files; what follows is not."""
    for half in range(2):
        for start in range(0, ENTRIES // 2, 500):
            await log.append_many(
                [b"%05d" % (half * ENTRIES // 2 + number) * 20 for number in range(start, start + 500)]
            )
        await log.reconfig_extend("native")
    await log.append(b"not archived")
    sizes = DataFileSizes(group_bytes=20_000, file_bytes=60_000)
    file = read_cluster_file(Path(cluster))
    await archive_segments(file, "all", f"file://{place}", GRACE_SECONDS, [], sizes=sizes)


def compare(spark: SparkSession, cluster: str) -> None:
    """With the other way of reading them."""
    found = read_archives(spark, cluster)
    table = spark.read.format("virtuallog").option("endingOffsets", str(found.stop)).load(cluster)
    assert (found.start, found.stop) == (0, ENTRIES)
    assert found.frame.columns == [name for name in table.columns if name not in {"segment", "loglet"}]
    same = [frame.selectExpr(*COLUMNS.split(", ")).sort("position").collect() for frame in (found.frame, table)]
    assert same[0] == same[1] and len(same[0]) == ENTRIES
    assert found.frame.where("position >= 2990").count() == 10


def damage(spark: SparkSession, cluster: str, place: Path) -> None:
    """A damaged page is found when it is read, a footer before anything is read. Another cluster is
    refused."""
    file = max(place.glob("*/[0-9]*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:2000] + bytes([content[2000] ^ 1]) + content[2001:])
    with pytest.raises(
        Exception, match=r"(?i)crc|checksum|corrupt"
    ) as caught:  # Java's error, of one of several classes
        read_archives(spark, cluster).frame.selectExpr("sum(crc32(payload))", "max(session)", "max(time)").collect()
    assert explain(caught.value) is not None
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(CorruptionError, match="checksum"):
        read_archives(spark, cluster)
    file.write_bytes(content)
    with pytest.raises(WrongRecipientError):
        read_archives(spark, cluster, "ab" * 16)


@pytest.mark.long
async def test_the_archived_beginning_is_a_table(tmp_path: Path, spark: SparkSession) -> None:
    """Nothing is archived: no row. Then the same rows as by the short name; what is trimmed is left out."""
    place = tmp_path / "archives"
    async with log_of_one_node(tmp_path) as (cluster, log):
        nothing = await in_thread(read_archives, spark, cluster)
        assert (nothing.start, nothing.stop, await in_thread(nothing.frame.count)) == (0, 0, 0)

        await archive(cluster, log, place)
        await in_thread(compare, spark, cluster)
        await in_thread(damage, spark, cluster, place)

        await log.prefix_trim(LogPosition(1_700))
        rest = await in_thread(read_archives, spark, cluster)
        assert (rest.start, rest.stop) == (1_700, ENTRIES)
        assert await in_thread(rest.frame.selectExpr("min(position)", "count(*)").first) == (1_700, 1_300)
