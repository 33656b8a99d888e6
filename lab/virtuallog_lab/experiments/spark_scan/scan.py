#!/usr/bin/env python3
"""The log as a table of Spark, beside a plain reader: how fast it is, what it costs, and whether that grows with the log.

    python -m virtuallog_lab.experiments.spark_scan.scan
    python -m virtuallog_lab.experiments.spark_scan.scan --entries 1000000 --markdown --picture spark.png

Three nodes and 10,000,000 entries of 100 bytes. In one run, on one machine: the plain reader
(`plain_reader.py`) and Spark read the live log in turn, in several sizes; then `virtuallog spark
archive` moves all of it to files, and Spark reads these, on one core and on two. The query is that
of `query.py`. Each reader has to find every entry, byte and payload. Servers, readers and Spark
share the machine. Memory of long-running processes is measured once a second.

It takes some 5 GB of disk where temporary files are (`TMPDIR`), all of which is removed, and needs Java.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import click
import trio

from pyspark_virtuallog.spark_errors import explained
from virtuallog_lab.experiments.spark_scan.contents import BATCH
from virtuallog_lab.experiments.spark_scan.processes import ProcessObserver
from virtuallog_lab.experiments.spark_scan.report import draw, report
from virtuallog_lab.experiments.spark_scan.run import CLOCK, ScanExperiment, ScanFindings, ScanPlan
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.trial import temporary_cluster

CORES: Final = 2
"""Default cores. On more, three servers of one machine are the limit."""


@click.command()
@click.option("--entries", default=10_000_000, show_default=True, type=click.IntRange(min=40 * BATCH))
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=1), help="Bytes of an entry.")
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(min=1), help="Rounds of the compared readers."
)
@click.option("--cores", default=CORES, show_default=True, type=click.IntRange(min=1), help="Cores of Spark.")
@picture_option
@form_options
def main(*, entries: int, size: int, rounds: int, cores: int, picture: Path | None, form: Form) -> None:
    """Read a log with Spark and without, live and archived."""
    machine = Machine.look()
    plan = ScanPlan(entries=entries - entries % BATCH, size=size, rounds=rounds, cores=cores)
    findings = run_to_end(run, plan)
    if picture:
        draw(findings, picture)
    report(machine, findings).publish(form)


async def run(plan: ScanPlan) -> ScanFindings:
    """Run on a new cluster.

    Raises: as `ScanExperiment.run`; errors of Spark as one VirtualLogError.
    """
    with explained(), tempfile.TemporaryDirectory(prefix="virtuallog-spark-") as folder:
        async with temporary_cluster() as cluster, trio.open_nursery() as nursery:
            cluster.write_file()
            servers = frozenset(node.pid for node in cluster.nodes.values() if node.pid is not None)
            observer = ProcessObserver(servers, CLOCK, CLOCK.monotonic())
            nursery.start_soon(observer.watch)
            findings = await ScanExperiment(plan, cluster, Path(folder), observer).run()
            nursery.cancel_scope.cancel()
    return findings


if __name__ == "__main__":
    main()
