"""`virtuallog spark archive`: as `virtuallog archive`, with the files made and verified by tasks of Spark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import click

from pyspark_virtuallog.command_line import spark_options
from virtuallog_server.cli.common.options import cluster_option, grace_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile

FILE_BYTES: Final = 96 << 20
"""Default of `virtuallog_loglets.archive.creation.data_files.DataFileSizes`, which `--help` must not import."""
FILE_BYTES_MIN: Final = 64 << 10
"""Smallest size of a Parquet file that may be asked for."""
FILE_BYTES_MAX: Final = 1 << 30
"""Largest Parquet file: larger ones are of no use, and a task has one in memory."""


@click.command()
@click.argument("wanted", metavar="SEGMENT|all")
@click.option(
    "--to", "url", metavar="URL", required=True, help="Where archives are: file:///mnt/archives, s3://bucket, ..."
)
@click.option(
    "--file-bytes", type=click.IntRange(FILE_BYTES_MIN, FILE_BYTES_MAX), default=FILE_BYTES, show_default=True,
    help="Size of a file, uncompressed. A task has one in memory, encoded and as rows.",
)  # fmt: skip
@grace_option
@spark_options
@cluster_option
@json_option
def archive(
    cluster: ClusterFile, wanted: str, url: str, file_bytes: int, grace: float, master: str,
    configuration: dict[str, str], as_json: bool,
) -> None:  # fmt: skip
    """Keep closed segments as Parquet files elsewhere, instead of on nodes: `virtuallog archive` with many workers.

    Each segment is cut into ranges; tasks of Spark read, write, read back and compare them, and this command publishes the
    manifest. Then a node puts the archive into the chain, and nodes drop their copies after the grace period. All tasks must reach
    the nodes and the URL. It may be killed anywhere and run again: files that are complete and right are kept.
    `virtuallog archive` verifies such archives, and puts segments back.

    \b
    Examples:
        virtuallog spark archive all --to file:///mnt/archives
        virtuallog spark archive 4.5fe7a0 --to s3://bucket/logs --master spark://host:7077 --conf spark.executor.memory=2g
    """
    from pyspark_virtuallog.archive.spark_executor import executor_on
    from pyspark_virtuallog.session import open_session
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes
    from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url
    from virtuallog_server.cli.archive.segment_archiver import archive_segments, run_and_show

    place = absolute_url(url)
    with open_session("virtuallog archive", master=master, configuration=configuration) as spark:
        executor_factory, sizes = partial(executor_on, spark, cluster), DataFileSizes(file_bytes=file_bytes)
        run_and_show(
            partial(archive_segments, cluster, wanted, place, grace, executor_factory=executor_factory, sizes=sizes),
            as_json,
        )
