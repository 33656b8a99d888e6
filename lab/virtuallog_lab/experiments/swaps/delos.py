#!/usr/bin/env python3
"""The experiment that Delos was built for: a log on ZooKeeper moves to a native loglet, live, and everything gets faster.

    python -m virtuallog_lab.experiments.swaps.delos --picture delos.png

Three ZooKeeper servers and three nodes on this machine, one client with a steady load of appends and linearizable reads. The log begins
on a zookeeper loglet; in the middle of the run it is swapped to a native one on the three nodes; the load stays the same. Afterwards
everything is read back: exit code 0 means that nothing is lost, doubled or reordered, and that every read was linearizable.

The published factors (OSDI'20, figure 8) stand beside ours. They cannot be the same: Delos saw a whole service, on machines of their
own, and says that its ZooKeeper loglet was not optimised; it wrote one znode for each append.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Final

import attrs
import click
import trio

from virtuallog.connect import connect
from virtuallog.node_services import open_services_to
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.bench.targets import ZOOKEEPER, choose
from virtuallog_lab.experiments.swaps.delos_load import APPEND, READ, SteadyLoad
from virtuallog_lab.experiments.swaps.delos_report import DelosOutcome, draw, report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import extend, temporary_cluster
from virtuallog_lab.harness.zookeeper_ensemble import is_installed, open_ensemble
from virtuallog_lab.workload.verdict import judge_log
from virtuallog_server.local_cluster.supervisor import LocalCluster

SETTLE_SECONDS: Final = 1.0
"""After the swap; connections open, caches are cold."""


@attrs.frozen(kw_only=True)
class DelosPlan:
    """Plan of the experiment."""

    appends_per_s: float = 50.0
    reads_per_s: float = 100.0
    entry_bytes: int = 100
    warm_up_seconds: float = 20.0
    """Seconds of warm-up on ZooKeeper: its JVM compiles what it uses."""
    seconds: float = 20.0
    """Seconds on each side of the swap."""


async def run(plan: DelosPlan, hosts: str | None, keep: Path | None = None) -> DelosOutcome:
    """The whole experiment.

    Args:
        hosts: addresses of an ensemble; None: three servers of our own.

    Raises:
        VirtualLogError: a server could not be started, or the swap be carried out.
    """
    if hosts is not None:
        return await _run(plan, hosts, keep)
    with tempfile.TemporaryDirectory(prefix="virtuallog-bench-zookeeper-") as folder:
        async with open_ensemble(Path(folder)) as started:
            return await _run(plan, started, keep)


async def _run(plan: DelosPlan, hosts: str, keep: Path | None) -> DelosOutcome:
    async with temporary_cluster(keep=keep) as cluster:
        return await _observe(plan, hosts, cluster)


async def _observe(plan: DelosPlan, hosts: str, cluster: LocalCluster) -> DelosOutcome:
    clock = SystemClock()
    zookeeper, native = (choose([name], hosts)[0] for name in (ZOOKEEPER, "native"))
    async with connect(cluster.file) as log, open_services_to(cluster.file) as services:
        await extend(services, cluster.file, zookeeper.kind, zookeeper.settings)
        load = SteadyLoad(log, clock, random.Random(), plan.entry_bytes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run, plan.appends_per_s, plan.reads_per_s)
            await clock.sleep(plan.warm_up_seconds)
            warm = load.elapsed
            tell("warm")
            await clock.sleep(plan.seconds)
            asked = load.elapsed
            await extend(services, cluster.file, native.kind, native.settings)
            decided = load.elapsed
            tell(f"swapped within {1000 * (decided - asked):,.0f} ms")
            await clock.sleep(SETTLE_SECONDS)
            settled = load.elapsed
            await clock.sleep(plan.seconds)
            load.stop()
        verdict = await judge_log(load.told, log)
    return DelosOutcome(
        samples=load.samples,
        warm=warm,
        asked=asked,
        decided=decided,
        settled=settled,
        rates={APPEND: plan.appends_per_s, READ: plan.reads_per_s},
        unknown=load.unknown,
        entries=verdict.entries,
        problems=[*load.problems, *verdict.problems],
    )


@click.command()
@click.option("--appends", default=50.0, show_default=True, type=click.FloatRange(0.1, 1e5), help="Per second.")
@click.option("--reads", default=100.0, show_default=True, type=click.FloatRange(0.1, 1e5), help="Per second.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of an entry.")
@click.option("--warm-up", default=20.0, show_default=True, type=click.FloatRange(0, 600), help="Seconds.")
@click.option("--seconds", default=20.0, show_default=True, type=click.FloatRange(1, 3600), help="On each side.")
@click.option("--zookeeper", metavar="HOST:PORT,...", help="Use these servers. Without it, three of Debian's.")
@picture_option
@keep_option
@form_options
def main(
    *,
    appends: float,
    reads: float,
    size: int,
    warm_up: float,
    seconds: float,
    zookeeper: str | None,
    picture: Path | None,
    keep: Path | None,
    form: Form,
) -> None:
    """Move a log from ZooKeeper to a native loglet under a steady load, and compare latencies.

    \b
    Example:
        python -m virtuallog_lab.experiments.swaps.delos --seconds 20 --picture delos.png
    """
    if zookeeper is None and not is_installed():
        raise click.ClickException("there is no ZooKeeper here: see --zookeeper")
    machine = Machine.look()
    plan = DelosPlan(
        appends_per_s=appends, reads_per_s=reads, entry_bytes=size, warm_up_seconds=warm_up, seconds=seconds
    )
    outcome = run_to_end(run, plan, zookeeper, keep)
    if picture is not None:
        draw(outcome, picture)
        tell(f"picture: {picture}")
    report(machine, outcome).publish(form)


if __name__ == "__main__":
    main()
