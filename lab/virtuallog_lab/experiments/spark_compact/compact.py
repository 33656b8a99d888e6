#!/usr/bin/env python3
"""A log is archived, compacted and trimmed while it is written, and a server that has lost everything begins with what was compacted.

    python -m virtuallog_lab.experiments.spark_compact.compact --writes 500000

Three servers of the database, and a client that writes all the time. Each step is the command that an operator gives:

    spark compact          the log is held from here on, and grows; it is cut into small segments
    spark archive          its closed segments become files, and nodes let go of them
    spark compact          killed when effects are written, killed when tables are, and given again
                           servers trim the log up to there, by themselves
    spark compact          once more: now no server has a snapshot as new as this
    one server is wiped    disk and all. It begins with the last compaction, not with what another server has, as its log says

In the end every znode of every server is read and compared, with each other and with what was acknowledged.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from virtuallog.connect import connect
from virtuallog.node_services import open_services_to
from virtuallog_database.control.wire import INTERFACES
from virtuallog_lab.experiments.churn.churn import NODES, open_database_cluster
from virtuallog_lab.experiments.churn.client import CLOCK
from virtuallog_lab.experiments.churn.sizes import SizeObserver
from virtuallog_lab.experiments.spark_compact.report import report
from virtuallog_lab.experiments.spark_compact.run import CompactionExperiment, CompactionFindings, CompactionPlan
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.trial import set_up_client

NO_OTHER_SNAPSHOTS: Final = "snapshot_seconds = 86400.0"
"""However slow the machine is: one that is newer than the last compaction would be taken in its place."""


@click.command()
@click.option("--writes", default=500_000, show_default=True, type=click.IntRange(min=1000), help="At least.")
@click.option("--keys", default=10_000, show_default=True, type=click.IntRange(min=NODES), help="Znodes.")
@click.option("--size", default=400, show_default=True, type=click.IntRange(min=8), help="Bytes of a value.")
@click.option(
    "--outstanding", default=192, show_default=True, type=click.IntRange(min=NODES), help="On all connections."
)
@keep_option
@form_options
def main(*, writes: int, keys: int, size: int, outstanding: int, keep: Path | None, form: Form) -> None:
    """Archive, compact, trim, wipe a server, and compare."""
    set_up_client()
    machine = Machine.look()
    plan = CompactionPlan(writes=writes, keys=keys, size=size, outstanding=outstanding)
    report(machine, run_to_end(run, plan, keep and keep.absolute())).publish(form)


async def run(plan: CompactionPlan, keep: Path | None = None) -> CompactionFindings:
    """Run on a new cluster; `keep`, an absolute path, is where all of it stays.

    Raises:
        VirtualLogError: something could not be done.
    """
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="virtuallog-compact-") as given:
        folder = Path(given)
        place = folder / "place"
        config = f'snapshot_log_bytes = {plan.snapshot_bytes}\n{NO_OTHER_SNAPSHOTS}\ncompacted_url = "file://{place}"'
        async with (
            open_database_cluster("native", config, folder / "cluster") as (cluster, addresses),
            connect(cluster.file) as log,
            open_services_to(cluster.file, INTERFACES) as services,
        ):
            cluster.write_file()
            observer = SizeObserver(cluster, services, log, CLOCK, CLOCK.monotonic())
            return await CompactionExperiment(plan, cluster, addresses, services, observer, place, folder).run()


if __name__ == "__main__":
    main()
