"""The archived beginning of a log, read by Spark's own reader of Parquet: no row passes through
Python.

    chain   |--- archive ---|--- archive ---|-- native --|-- native -->
            |<------ `read_archives` ------>|<-- spark.read.format("virtuallog"), startingOffsets = stop
            ^ first position that is not trimmed

`spark.read.format("virtuallog")` reads archives as well, at the price of a source in Python: each
row goes through a socket and is rebuilt by Java. This way costs a third of that
(docs/results/performance.md). An archive is checked as much: the manifest by its checksum in the chain, the
footer of each file by its checksum in the manifest (both here, on the driver), each page by its
own, when it is read. It is for filesystems that Spark knows by the same URL as fsspec: `file://`,
`hdfs://`, or `s3a://` for both.

Differences to the other table: there are no columns `segment` and `loglet`. The files are those of
the chain at the time of the call, so a trim meanwhile makes a query fail, and there is no other
copy to read if one is damaged.
"""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path
from typing import Final

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, octet_length
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from virtuallog.blocking import connect_blocking
from virtuallog.client.cluster_file import read_cluster_file, with_own_certificate
from virtuallog.client.virtual_log import READS_ONLY
from virtuallog.contract.chain import Segment
from virtuallog_loglets.archive import config as archives
from virtuallog_loglets.archive.core.manifest import DataFile
from virtuallog_loglets.archive.drivers.tables import open_archive
from virtuallog_loglets.archive.provider import KIND

_STORED: Final = StructType(
    [
        StructField("position", LongType()),
        StructField("payload", BinaryType()),
        StructField("time", TimestampType()),
        StructField("session", BinaryType()),
        StructField("sequence", LongType()),
        StructField("gap", StringType()),
    ]
)
"""Columns of `virtuallog_loglets.archive.core.rows.SCHEMA` that the other table has, too."""
_CHECKED: Final = {"parquet.page.verify-checksum.enabled": "true"}


@attrs.frozen
class Archived:
    """The archived part of a log, without a hole, from its first position that is not trimmed."""

    frame: DataFrame
    """Columns position, payload, time, session, sequence, size and gap, as of
    `spark.read.format("virtuallog")`."""
    start: int
    """First position; `start == stop` if nothing is archived."""
    stop: int
    """First position that is not archived: continue there, with `startingOffsets`."""


def read_archives(spark: SparkSession, cluster: str | Path, cluster_id: str | None = None) -> Archived:
    """The archived beginning of a log as a table. Only manifests and footers are read here.

    Args:
        spark: its workers must reach the locations of the archives.
        cluster: path of the cluster file.
        cluster_id: in hexadecimal digits; another cluster is refused. None for any cluster.

    Raises:
        WrongRecipientError: it is another cluster.
        UnavailableError: no majority of the register's servers answered.
        CorruptionError, MalformedError: an archive is not the one in the chain. Nothing of it is
            read.
        VirtualLogError: as `connect`, and `virtuallog_loglets.archive.drivers.files.Files`.
    """
    segments, files, paths = _archived(cluster, cluster_id), list[DataFile](), list[str]()
    start = stop = segments[0].start if segments else 0
    for segment in segments:
        config = archives.decode_untrusted(segment.config)
        tables = open_archive(config)
        if start == stop:  # all before is trimmed
            start = tables.trim_point()
        stop, found = config.stop, tables.checked_files()
        files += found
        paths += [archives.join(config.location, file.name) for file in found]
    if not files:
        return Archived(_with_size(spark.createDataFrame([], _STORED)), start, stop)
    stored = spark.read.schema(_STORED).options(**_CHECKED).parquet(*paths)
    if files[0].start < start:  # otherwise positions need not even be decoded if no query wants them
        stored = stored.where(col("position") >= start)
    return Archived(_with_size(stored), start, stop)


def _archived(cluster: str | Path, cluster_id: str | None) -> list[Segment]:
    """The archived segments at the beginning of the chain."""
    with connect_blocking(
        with_own_certificate(read_cluster_file(Path(cluster)), os.environ),
        settings=READS_ONLY,
        expected_cluster=None if cluster_id is None else bytes.fromhex(cluster_id),
    ) as log:
        return list(takewhile(lambda segment: segment.kind == KIND, log.register().chain.segments))


def _with_size(stored: DataFrame) -> DataFrame:
    names = ["position", "payload", "time", "session", "sequence"]
    return stored.select(*names, octet_length("payload").alias("size"), "gap")
