"""`virtuallog bench`. `bench_job.py` does the work, and is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from virtuallog_lab.harness.options import Form, form_options, keep_option, picture_option, whole_numbers
from virtuallog_server.cli.common.limits import ENTRY_BYTES_MAX
from virtuallog_server.cli.common.options import json_option, page_option

DEFAULT_ROUNDS: Final = 3
"""Rounds with the floor: the fewest that have a median which one bad round does not move."""


@click.group()
def bench() -> None:
    """Measure a cluster."""


@bench.command()
@click.option(
    "--outstanding",
    default="1,64",
    show_default=True,
    metavar="N,...",
    callback=whole_numbers,
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
@click.option("--floor", is_flag=True, help="Measure the floor in turn with the log, and tell the ratios.")
@click.option("--rounds", type=click.IntRange(1, 1000), help=f"Rounds with --floor.  [default: {DEFAULT_ROUNDS}]")
@json_option
def append(
    *,
    outstanding: list[int],
    size: int,
    seconds: float,
    loglet: str | None,
    cluster: Path | None,
    floor: bool,
    rounds: int | None,
    as_json: bool,
) -> None:
    """Measure durable appends: throughput, and latency as one client sees it.

    Ignores VIRTUALLOG_CLUSTER, so that no cluster is measured by accident.

    The floor is the same trip to two of three disks with trio, Cap'n Proto and one disk thread, in four processes of its own.
    It has no seal, sessions, checksums, repair, recovery, RPC questions or limits: what the machine and these libraries allow.

    \b
    Example:
        virtuallog bench append --outstanding 1,64,256 --size 100 --seconds 5
        virtuallog bench append --floor --rounds 5 --outstanding 1,64,256
    """
    if rounds is not None and not floor:
        raise click.UsageError("--rounds needs --floor")
    from virtuallog_lab.cli import bench_job

    plan = bench_job.AppendMeasurement(
        outstanding=outstanding,
        size=size,
        seconds=seconds,
        loglet=loglet,
        cluster=cluster,
        floor_rounds=(rounds or DEFAULT_ROUNDS) if floor else None,
    )
    bench_job.append(plan, as_json)


@bench.command()
@click.option(
    "--outstanding",
    default="1",
    show_default=True,
    metavar="N,...",
    callback=whole_numbers,
    help="Appends in progress at a time; one trace each. A lone append has a timeline, too.",
)
@click.option(
    "--size", default=100, show_default=True, type=click.IntRange(0, ENTRY_BYTES_MAX), help="Bytes of one entry."
)
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Length of each phase.")
@click.option("--loglet", metavar="KIND", default="native", show_default=True, help="Kind of loglets.")
@picture_option
@form_options
def trace(outstanding: list[int], size: int, seconds: float, loglet: str, picture: Path | None, form: Form) -> None:
    """Trace appends: what each process does for one, beside the floor.

    Starts three nodes on this machine; then the floor, which makes the same trip with nothing but trio, Cap'n Proto and one disk
    thread. Counts scheduler turns, task steps, messages, thread hand-overs, CPU time and, where strace is installed, system
    calls. All but the timelines and event counts is measured while nothing is recorded.

    \b
    Example:
        virtuallog bench trace --outstanding 1,64 --picture /tmp/append.png
    """
    from virtuallog_lab.cli import bench_job
    from virtuallog_lab.trace.run import TracePlan

    plan = TracePlan(outstanding=outstanding, size=size, seconds=seconds, loglet=loglet)
    bench_job.trace(plan, picture, form)


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
    from virtuallog_lab.cli import bench_job
    from virtuallog_lab.harness.trial import TrialLoad

    bench_job.reconfigure(
        names=names,
        is_all=is_all,
        count=count,
        zookeeper=zookeeper,
        load=TrialLoad(writers=outstanding, entry_bytes=size),
        window_seconds=window,
        page=page,
        picture=picture,
        keep=keep,
        form=form,
    )


@bench.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 1000), help="Starts of each kind.")
@click.option(
    "--nodes", default=3, show_default=True, type=click.IntRange(1, 9), help="Number of nodes of the cluster."
)
@form_options
def start(rounds: int, nodes: int, form: Form) -> None:
    """Measure starts: imports, commands on a running cluster, an embedded database, and a cluster until it answers.

    Runs everything in processes and directories of its own. The first line is Python alone, the second the libraries: no start
    can be shorter than their import.

    \b
    Example:
        virtuallog bench start --rounds 10
    """
    from virtuallog_lab.cli import bench_job

    bench_job.start(rounds, nodes, form)
