"""`virtuallog bench`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import trio

from server.bench.appends import Measurement, measure
from server.cli.options import echo_json, json_option
from server.cluster import open_local_cluster
from server.process import SWITCH_SECONDS
from virtuallog.batch import ENTRY_BYTES_MAX
from virtuallog.clock import SystemClock
from virtuallog.cluster_file import ClusterFile, read_cluster_file
from virtuallog.connect import connect, open_services_to


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

    VIRTUALLOG_CLUSTER is not looked at: nobody shall measure a cluster by accident.

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
