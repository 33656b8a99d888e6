"""The work of `virtuallog bench`: measures appends and live swaps, on a cluster of its own or a given one."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import attrs
import click
import trio

from virtuallog.client.cluster_file import ClusterFile, read_cluster_file
from virtuallog.connect import connect
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.bench import matrix_picture
from virtuallog_lab.bench import reconfigure as swaps
from virtuallog_lab.bench import start as starts
from virtuallog_lab.bench.floor_comparison import FloorComparison, compare, comparison_report
from virtuallog_lab.bench.matrix_page import swap_page
from virtuallog_lab.bench.targets import ZOOKEEPER, choose, target_names
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import TrialLoad
from virtuallog_lab.harness.zookeeper_ensemble import is_installed, open_ensemble
from virtuallog_lab.trace import picture as trace_picture
from virtuallog_lab.trace import run as traced_run
from virtuallog_lab.trace.report import trace_report
from virtuallog_lab.trace.run import TracePlan
from virtuallog_lab.workload.appends import Measurement, measure
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.local_cluster.supervisor import open_local_cluster
from virtuallog_server.process.process import SWITCH_SECONDS
from virtuallog_server.report import made_now, this_command, write


@attrs.frozen(kw_only=True)
class AppendMeasurement:
    """Plan of `virtuallog bench append`."""

    outstanding: Sequence[int]
    size: int
    seconds: float
    loglet: str | None
    """Kind of loglets. None for native, or as the cluster is."""
    cluster: Path | None
    """The file of a cluster that runs; None for one of our own."""
    floor_rounds: int | None
    """Rounds in which the floor is measured, too; None to measure once, and without it."""


def append(plan: AppendMeasurement, as_json: bool) -> None:
    """Measure appends for each number in `outstanding`, and print the results."""
    sys.setswitchinterval(SWITCH_SECONDS)
    machine = Machine.look()
    comparisons = trio.run(_measure_all, plan, as_json)
    if comparisons:
        comparison_report(comparisons, machine).publish("json" if as_json else "text")


def reconfigure(
    *,
    names: Sequence[str],
    is_all: bool,
    count: int,
    zookeeper: str | None,
    load: TrialLoad,
    window_seconds: float,
    page: Path | None,
    picture: Path | None,
    keep: Path | None,
    form: Form,
) -> None:
    """Measure live swaps between the named targets, or all (`is_all`); write the picture and the page, print the report.

    Raises:
        ModuleNotFoundError: the picture needs a module that is not installed. Raised before anything is started.
        SystemExit: the log is wrong.
    """
    if picture is not None:
        import_module("matplotlib")  # only pictures need it; not after a measurement of minutes
    machine = Machine.look()
    known = target_names()
    unknown = sorted({*names} - {*known})
    if unknown:
        raise click.UsageError(f"--kind: no '{unknown[0]}' (known: {', '.join(known)})")
    names = known if is_all else names
    outcome = trio.run(_swap, names, count, zookeeper, load, window_seconds, keep, machine)
    if picture is not None:
        matrix_picture.draw(outcome.matrix, f"{outcome.report.title}; {machine}", picture)
        tell(f"picture: {picture}")
    if page is not None:
        write(swap_page(outcome, this_command(), made_now()), page)
        tell(f"page: {page}")
    outcome.report.publish(form)


def start(rounds: int, nodes: int, form: Form) -> None:
    """Measure starts, and print the report.

    Raises:
        Failure: a process failed.
    """
    machine = Machine.look()
    starts.run(rounds, nodes, tell).report(machine).publish(form)


def trace(plan: TracePlan, picture: Path | None, form: Form) -> None:
    """Trace appends of the product and of the floor; write the picture, print the report.

    Raises:
        ModuleNotFoundError: the picture needs a module that is not installed. Raised before anything is started.
    """
    if picture is not None:
        import_module("matplotlib")  # only pictures need it; not after a measurement
    machine = Machine.look()
    traces = run_to_end(traced_run.run, plan, SystemClock())
    if picture is not None:
        trace_picture.draw(traces, str(machine), picture)
        tell(f"picture: {picture}")
    trace_report(traces, machine).publish(form)


async def _measure_all(plan: AppendMeasurement, as_json: bool) -> list[FloorComparison]:
    """Measure and show each number. With the floor, return what is to be shown."""
    given = read_cluster_file(plan.cluster) if plan.cluster else None
    clock = SystemClock()
    async with _own_cluster(plan.loglet) if given is None else _as_it_is(given) as cluster, connect(cluster) as log:
        if given is not None and plan.loglet is not None:
            await log.reconfig_extend(plan.loglet)
        if plan.floor_rounds is not None:
            return await compare(log.append, clock, plan.outstanding, plan.size, plan.seconds, plan.floor_rounds, tell)
        for number in plan.outstanding:
            _show(await measure(log.append, clock, number, plan.size, plan.seconds), as_json)
        return []


@asynccontextmanager
async def _own_cluster(loglet: str | None) -> AsyncIterator[ClusterFile]:
    with tempfile.TemporaryDirectory(prefix="virtuallog-bench-") as folder:
        async with open_local_cluster(Path(folder), base_port=0, loglet=loglet or "native") as cluster:
            await cluster.wait_ready()
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
