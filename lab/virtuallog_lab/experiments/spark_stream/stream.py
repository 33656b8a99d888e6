#!/usr/bin/env python3
"""A stream of Spark from a live log to Parquet, exactly once, while its driver is killed three times and a node once.

    python -m virtuallog_lab.experiments.spark_stream.stream
    python -m virtuallog_lab.experiments.spark_stream.stream --entries 20000 --seconds 40 --kills 1

Three servers of a database with clients that write to it, and beside these 2,000,000 appends of 100
bytes to the same log: replicas skip foreign entries. Every few seconds the log goes on with another
kind of loglet. A driver of Spark in a process of its own copies positions and payloads to Parquet,
with a checkpoint, and is killed in the middle of batches, once while one is planned, once while its
rows are written, and once between the list of its files and Spark's commit; another one goes on.
The stream holds the log (option `hold`).

In the end the log is read without Spark, and the table through Spark: every entry must be there,
each once, at its position, unchanged; and in the log each acknowledged append at its acknowledged
position. Exit code 1: something is wrong. It takes 1 GB where temporary files are (`TMPDIR`), needs
Java, and leaves nothing behind.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click

from pyspark_virtuallog.java import require_java
from virtuallog.connect import connect
from virtuallog.node_services import open_services_to
from virtuallog_database.control.wire import INTERFACES
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.experiments.churn.client import CLOCK
from virtuallog_lab.experiments.spark_stream.query import Query
from virtuallog_lab.experiments.spark_stream.report import report
from virtuallog_lab.experiments.spark_stream.run import StreamExperiment, StreamFindings, StreamPlan
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.trial import set_up_client

KEYS: Final = 1000


@click.command()
@click.option("--entries", default=2_000_000, show_default=True, type=click.IntRange(min=1000), help="Appends.")
@click.option("--seconds", default=450.0, show_default=True, type=click.FloatRange(min=1), help="To append them in.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=32), help="Bytes of an entry.")
@click.option("--writes", default=300, show_default=True, type=click.IntRange(min=1), help="To the database, a second.")
@click.option("--swap", default=5.0, show_default=True, type=click.FloatRange(min=0.5), help="Seconds between swaps.")
@click.option("--kills", default=3, show_default=True, type=click.IntRange(min=0), help="Kills of the driver.")
@click.option("--down", default=10.0, show_default=True, type=click.FloatRange(min=0), help="Seconds without a node.")
@keep_option
@form_options
def main(
    *,
    entries: int,
    seconds: float,
    size: int,
    writes: int,
    swap: float,
    kills: int,
    down: float,
    keep: Path | None,
    form: Form,
) -> None:
    """Stream a live log to Parquet, and kill what can be killed."""
    require_java()
    set_up_client()
    machine = Machine.look()
    plan = StreamPlan(
        entries=entries, seconds=seconds, size=size, keys=KEYS, writes_per_second=writes, swap_seconds=swap, kills=kills,
        down_seconds=down,
    )  # fmt: skip
    findings = run_to_end(run, plan, keep)
    report(machine, findings).publish(form)


async def run(plan: StreamPlan, keep: Path | None = None) -> StreamFindings:
    """Run on a new cluster; `keep` is where it stays, with all that Spark has written.

    Raises:
        VirtualLogError: something could not be done.
    """
    async with AsyncExitStack() as stack:
        cluster, addresses = await stack.enter_async_context(open_database_cluster("native", "", keep))
        cluster.write_file()
        folder = cluster.path / "spark"
        folder.mkdir(exist_ok=True)
        log = await stack.enter_async_context(connect(cluster.file, more=INTERFACES))
        services = await stack.enter_async_context(open_services_to(cluster.file, INTERFACES))
        query = Query(cluster.file_path, folder, CLOCK)
        return await StreamExperiment(plan, cluster, addresses, services, log, query).run()


if __name__ == "__main__":
    main()
