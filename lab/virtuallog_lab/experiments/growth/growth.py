#!/usr/bin/env python3
"""Cost of a log as it grows: memory, disk, restarts, reads and throughput at 1,000,000 and at
10,000,000 entries.

    python -m virtuallog_lab.experiments.growth.growth
    python -m virtuallog_lab.experiments.growth.growth --entries 100000,200000 --reconfigurations 200
    python -m virtuallog_lab.experiments.growth.growth --entries "" --reconfigurations 10000

Three processes, one client that keeps `--outstanding` appends under way, each of one entry. At each stage: throughput over
the last entries, beside the floor right after it; resident memory of every process; disk; how long a log server
that was killed needs until it answers for the loglet again, from the start of its process; reading all of the log from
its start. In the end everything is trimmed, and the disk is looked at once more.

`--reconfigurations` extends the chain so many times, with a few entries in each loglet and a trim now and then, and looks
at the register and at what each node keeps. docs/results/performance.md has figures and what is behind them.
"""

from __future__ import annotations

import click
import trio

from virtuallog.connect import connect
from virtuallog_lab.experiments.growth.chain import ChainLook, extend_often
from virtuallog_lab.experiments.growth.report import report
from virtuallog_lab.experiments.growth.stages import Stage, Trimmed, grow
from virtuallog_lab.floor.processes import open_floor
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_server.process import log_output


def _numbers(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = [0]
    if numbers != sorted(set(numbers)) or (numbers and numbers[0] < 1):
        raise click.BadParameter("must be whole numbers above 0, ascending, separated by commas")
    return numbers


@click.command()
@click.option("--entries", default="1000000,10000000", show_default=True, callback=_numbers, metavar="N,N")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=1), help="Bytes of an entry.")
@click.option("--outstanding", default=256, show_default=True, type=click.IntRange(min=1))
@click.option("--reconfigurations", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--seconds", default=5.0, show_default=True, help="Length of a run of the floor.")
@form_options
def main(
    *,
    entries: list[int],
    size: int,
    outstanding: int,
    reconfigurations: int,
    seconds: float,
    form: Form,
) -> None:
    """Let a log grow, and look at what that costs."""
    log_output.configure("error")
    machine = Machine.look()
    stages, trimmed, looks = trio.run(run, entries, size, outstanding, reconfigurations, seconds)
    report(machine, stages, trimmed, looks).publish(form)


async def run(
    entries: list[int], size: int, outstanding: int, reconfigurations: int, seconds: float
) -> tuple[list[Stage], Trimmed | None, list[ChainLook]]:
    """Run on a new cluster. The arguments are the options.

    Raises:
        VirtualLogError: something could not be done.
    """
    stages: list[Stage] = []
    trimmed: Trimmed | None = None
    looks: list[ChainLook] = []
    async with temporary_cluster() as cluster, connect(cluster.file) as log:
        if entries:
            tell(f"growing to {entries[-1]:,} entries")
            async with open_floor() as floor:
                stages, trimmed = await grow(cluster, log, entries, size, outstanding, floor.client, seconds)
        if reconfigurations:
            tell(f"{reconfigurations:,} reconfigurations")
            looks = await extend_often(cluster, log, reconfigurations)
    return stages, trimmed, looks


if __name__ == "__main__":
    main()
