#!/usr/bin/env python3
"""Backup of a database beside `cp`, its RPO and RTO, and restores to random positions beside replays.

    python -m virtuallog_lab.experiments.backups.backups --writes 10000000 --keys 100000
    python -m virtuallog_lab.experiments.backups.backups --writes 100000 --keys 10000

Three servers take no snapshot after their first one, so the full backup has nearly all writes as entries of the log. The
steps: all writes, full backup, `cp -r` of what it has written, a twentieth more writes, a backup on top, verification,
and restores to `--positions` positions drawn at random. Each restored state is compared with a replay of the live log.
Values are random bytes, which do not compress. With `--lock FILE` other measurements take turns with the steps: the cluster is idle
meanwhile.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from virtuallog.connect import connect
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_lab.experiments.backups.report import report
from virtuallog_lab.experiments.backups.run import BackupExperiment, BackupFindings, BackupPlan
from virtuallog_lab.experiments.churn.churn import NODES, open_database_cluster
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.trial import set_up_client
from virtuallog_lab.harness.turns import Turns, lock_option

NO_SNAPSHOTS: Final = "snapshot_log_bytes = 1099511627776\nsnapshot_seconds = 86400.0"
"""Behind the first one: the log is what is measured."""
ALWAYS: Final = Turns()


@click.command()
@click.option("--writes", default=10_000_000, show_default=True, type=click.IntRange(min=1000), help="At least.")
@click.option("--keys", default=100_000, show_default=True, type=click.IntRange(min=NODES), help="Znodes.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=8), help="Bytes of a value.")
@click.option(
    "--outstanding", default=1500, show_default=True, type=click.IntRange(min=NODES), help="On all connections."
)
@click.option("--positions", default=3, show_default=True, type=click.IntRange(min=0), help="Restored and compared.")
@click.option("--seed", default=1, show_default=True, help="Of the positions, and of the values.")
@keep_option
@lock_option
@form_options
def main(
    *,
    writes: int,
    keys: int,
    size: int,
    outstanding: int,
    positions: int,
    seed: int,
    keep: Path | None,
    lock: Path | None,
    form: Form,
) -> None:
    """Write, back up, verify, restore, and compare."""
    set_up_client()
    machine = Machine.look()
    plan = BackupPlan(writes=writes, keys=keys, size=size, outstanding=outstanding, positions=positions, seed=seed)
    report(machine, run_to_end(run, plan, keep and keep.absolute(), Turns(lock))).publish(form)


async def run(plan: BackupPlan, keep: Path | None = None, turns: Turns = ALWAYS) -> BackupFindings:
    """Run on a new cluster; `keep`, an absolute path, is where all of it stays.

    Raises:
        VirtualLogError: something could not be done.
    """
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="virtuallog-backups-") as given:
        folder = Path(given)
        async with (
            open_database_cluster("native", NO_SNAPSHOTS, folder / "cluster") as (cluster, addresses),
            connect(cluster.file, more=[DATABASE, SNAPSHOTS]) as log,
        ):
            return await BackupExperiment(plan, addresses, log, folder, turns).run()


if __name__ == "__main__":
    main()
