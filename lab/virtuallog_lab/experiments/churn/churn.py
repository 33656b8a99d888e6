#!/usr/bin/env python3
"""A day of writes over the same znodes, compressed: does the disk stay flat, and does a wiped server come back meanwhile?

    python -m virtuallog_lab.experiments.churn.churn
    python -m virtuallog_lab.experiments.churn.churn --writes 200000 --loglet paxos --picture churn.png

Three servers, and a client that has one connection to each and writes through ZooKeeper's protocol, requests pipelined: 5,000,000
writes of 100 bytes over 10,000 znodes. Snapshots and trims go on by themselves, as they do by default. In the middle one server is killed, all
that it has is removed, and it is started again in its own place: it restores a snapshot of another server, while writes go on at
the other two. In the end every znode of every server is read and compared, with each other and with what was acknowledged.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Final

import click

from virtuallog.connect import connect
from virtuallog.contract.types import NodeId
from virtuallog.node_services import open_services_to
from virtuallog_database.control.wire import INTERFACES
from virtuallog_lab.experiments.churn.client import CLOCK
from virtuallog_lab.experiments.churn.report import draw, report
from virtuallog_lab.experiments.churn.run import ChurnExperiment, ChurnFindings, ChurnPlan
from virtuallog_lab.experiments.churn.sizes import SizeObserver
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.trial import set_up_client
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

NODES: Final = 3


@click.command()
@click.option("--writes", default=5_000_000, show_default=True, type=click.IntRange(min=1000))
@click.option("--keys", default=10_000, show_default=True, type=click.IntRange(min=NODES), help="Znodes.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=8), help="Bytes of a value.")
@click.option(
    "--outstanding", default=192, show_default=True, type=click.IntRange(min=NODES), help="On all connections."
)
@click.option("--loglet", default="native", show_default=True, help="Kind of the log.")
@click.option(
    "--snapshot-mib", type=click.IntRange(min=1), help="A snapshot after so much of the log.  [default: the server's]"
)
@click.option("--wipe/--no-wipe", default=True, show_default=True, help="Wipe a server in the middle.")
@picture_option
@keep_option
@form_options
def main(
    *,
    writes: int,
    keys: int,
    size: int,
    outstanding: int,
    loglet: str,
    snapshot_mib: int | None,
    wipe: bool,
    picture: Path | None,
    keep: Path | None,
    form: Form,
) -> None:
    """Write for long over the same znodes, and look at the disks."""
    set_up_client()
    machine = Machine.look()
    plan = ChurnPlan(writes=writes, keys=keys, size=size, outstanding=outstanding, loglet=loglet, wipe=wipe)
    config = "" if snapshot_mib is None else f"snapshot_log_bytes = {snapshot_mib << 20}"
    findings = run_to_end(run, plan, config, keep)
    if picture:
        draw(findings, picture)
    report(machine, findings).publish(form)


async def run(plan: ChurnPlan, config: str = "", keep: Path | None = None) -> ChurnFindings:
    """Run on a new cluster; `config` is for the servers, `keep` is the folder in which it stays.

    Raises:
        VirtualLogError: something could not be done.
    """
    async with (
        open_database_cluster(plan.loglet, config, keep) as (cluster, addresses),
        connect(cluster.file) as log,
        open_services_to(cluster.file, INTERFACES) as services,
    ):
        observer = SizeObserver(cluster, services, log, CLOCK, CLOCK.monotonic())
        return await ChurnExperiment(plan, cluster, addresses, services, observer).run()


@asynccontextmanager
async def open_database_cluster(
    loglet: str, config: str, keep: Path | None = None
) -> AsyncIterator[tuple[LocalCluster, dict[NodeId, str]]]:
    """Three servers, and where they take clients. `config` is put into their section `[zookeeper]`."""
    first = layout.free_row(2 * NODES)
    addresses = {NodeId(node): f"{layout.HOST}:{first + node - 1}" for node in range(1, NODES + 1)}
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="virtuallog-churn-") as folder:
        _prepare(Path(folder), loglet, first, config)
        async with open_local_cluster(Path(folder), NODES, loglet=loglet) as cluster:
            await cluster.wait_ready()
            yield cluster, addresses


def _prepare(folder: Path, loglet: str, zookeeper_port: int, config: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for node in layout.prepare(folder, NODES, 0, zookeeper_port + NODES, loglet, zookeeper_port=zookeeper_port):
        file = layout.config_file(node)
        file.write_text(file.read_text().replace("[zookeeper]\n", f"[zookeeper]\n{config}\n"))


if __name__ == "__main__":
    main()
