"""`virtuallog bench`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click
import trio

from virtuallog.client.cluster_file import ClusterFile, read_cluster_file
from virtuallog.connect import connect, open_services_to
from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.bench import matrix_picture
from virtuallog_lab.bench import reconfigure as swaps
from virtuallog_lab.bench.matrix_page import swap_page
from virtuallog_lab.bench.targets import ZOOKEEPER, choose, target_names
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Form, form_options, keep_option, picture_option, tell
from virtuallog_lab.harness.trial import TrialLoad
from virtuallog_lab.harness.zookeeper_ensemble import is_installed, open_ensemble
from virtuallog_lab.workload.appends import Measurement, measure
from virtuallog_server.cli.common.options import echo_json, json_option, page_option
from virtuallog_server.local_cluster.supervisor import open_local_cluster
from virtuallog_server.process.process import SWITCH_SECONDS
from virtuallog_server.report import made_now, this_command, write


@click.group()
def bench() -> None:
    """Measure a cluster."""


def _parse_outstanding(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise click.BadParameter("must be whole numbers above 0, separated by commas")
    return numbers


@bench.command()
@click.option(
    "--outstanding",
    default="1,64",
    show_default=True,
    metavar="N,...",
    callback=_parse_outstanding,
    help="Appends in progress at a time; one measurement each.",
)
@click.option(
    "--size", default=100, show_default=True, type=click.IntRange(0, ENTRY_BYTES_MAX), help="Bytes of one entry."
)
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(0.1), help="Length of a measurement.")
@click.option("--loglet", metavar="KIND", help="Continue the log on this kind first.  [default: native, or as it is]")
@click.option(
    "--cluster",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Measure this cluster, and leave the entries in it. Without it, three processes of our own.",
)
@json_option
def append(
    outstanding: list[int], size: int, seconds: float, loglet: str | None, cluster: Path | None, as_json: bool
) -> None:
    """Measure durable appends: throughput, and latency as one client sees it.

    Ignores VIRTUALLOG_CLUSTER, so that no cluster is measured by accident.

    \b
    Example:
        virtuallog bench append --outstanding 1,64,256 --size 100 --seconds 5
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    trio.run(_measure_all, outstanding, size, seconds, loglet, read_cluster_file(cluster) if cluster else None, as_json)


async def _measure_all(
    outstanding: list[int], size: int, seconds: float, loglet: str | None, cluster: ClusterFile | None, as_json: bool
) -> None:
    async with _own_cluster(loglet) if cluster is None else _as_it_is(cluster) as measured, connect(measured) as log:
        if cluster is not None and loglet is not None:
            await log.reconfig_extend(loglet)
        for number in outstanding:
            _show(await measure(log.append, SystemClock(), number, size, seconds), as_json)


@asynccontextmanager
async def _own_cluster(loglet: str | None) -> AsyncIterator[ClusterFile]:
    with tempfile.TemporaryDirectory(prefix="virtuallog-bench-") as folder:
        async with (
            open_local_cluster(Path(folder), base_port=0, loglet=loglet or "native") as cluster,
            open_services_to(cluster.file) as services,
        ):
            await cluster.wait_ready(services)
            yield cluster.file


@asynccontextmanager
async def _as_it_is(cluster: ClusterFile) -> AsyncIterator[ClusterFile]:
    yield cluster


def _show(measurement: Measurement, as_json: bool) -> None:
    if as_json:
        echo_json(measurement.plain())
    else:
        click.echo(
            f"{measurement.outstanding:>5} outstanding, {measurement.bytes} bytes: "
            f"{measurement.ops_per_s:>10,.0f} appends/s   p50 {measurement.p50_ms:.2f} ms   p99 {measurement.p99_ms:.2f} ms"
        )


@bench.command()
@click.option(
    "--kind",
    "names",
    multiple=True,
    metavar="NAME",
    help="Trial of a kind of loglets that takes part, such as native; repeatable.  [default: all that can run here]",
)
@click.option("--all", "is_all", is_flag=True, help="All kinds, and an error if one cannot take part.")
@click.option(
    "--swaps",
    "count",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Swaps per ordered pair of kinds.",
)
@click.option(
    "--zookeeper", metavar="HOST:PORT,...", help="Use these servers. Without it, three of Debian's, if there are any."
)
@click.option(
    "--outstanding", default=64, show_default=True, type=click.IntRange(1, 4096), help="Appends in progress at a time."
)
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of one entry.")
@click.option(
    "--window", default=0.25, show_default=True, type=click.FloatRange(0.05, 60), help="Seconds around a swap."
)
@page_option
@picture_option
@keep_option
@form_options
def reconfigure(
    *,
    names: tuple[str, ...],
    is_all: bool,
    count: int,
    zookeeper: str | None,
    outstanding: int,
    size: int,
    window: float,
    page: Path | None,
    picture: Path | None,
    keep: Path | None,
    form: Form,
) -> None:
    """Measure live swaps: the gap in acknowledgements from each kind of loglet to each other, and to itself.

    Starts three nodes, and three that only store, on this machine; with ZooKeeper, its servers, too. "disaggregated" is a native
    loglet on the three that only store. Then reads everything back: exit code 0 means that nothing is lost, doubled or
    reordered.

    \b
    Example:
        virtuallog bench reconfigure --kind native --kind paxos --swaps 5 --picture /tmp/swaps.png
    """
    wanted = target_names() if is_all else names
    machine, load = Machine.look(), TrialLoad(writers=outstanding, entry_bytes=size)
    outcome = trio.run(_swap, wanted, count, zookeeper, load, window, keep, machine)
    if picture is not None:
        matrix_picture.draw(outcome.matrix, f"{outcome.report.title}; {machine}", picture)
        tell(f"picture: {picture}")
    if page is not None:
        write(
            swap_page(outcome, this_command(), made_now()),
            page,
        )
        tell(f"page: {page}")
    outcome.report.publish(form)


async def _swap(
    names: Sequence[str],
    count: int,
    zookeeper: str | None,
    load: TrialLoad,
    window_seconds: float,
    keep: Path | None,
    machine: Machine,
) -> swaps.SwapMatrixOutcome:
    async with _zookeeper(zookeeper, names) as hosts:
        targets = choose(names, hosts)
        plan = swaps.SwapMatrixPlan(targets=targets, swaps=count, load=load, window_seconds=window_seconds, keep=keep)
        tell(f"{plan.total} swaps between {', '.join(target.name for target in targets)}")
        return await swaps.run(plan, machine)


@asynccontextmanager
async def _zookeeper(hosts: str | None, names: Sequence[str]) -> AsyncIterator[str | None]:
    """The addresses of an ensemble, if one is there or can be, and is wanted."""
    if hosts is not None or not is_installed() or (names and ZOOKEEPER not in names):
        yield hosts
        return
    with tempfile.TemporaryDirectory(prefix="virtuallog-bench-zookeeper-") as folder:
        async with open_ensemble(Path(folder)) as started:
            yield started
