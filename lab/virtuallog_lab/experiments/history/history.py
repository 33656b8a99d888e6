#!/usr/bin/env python3
"""Differences, znodes and changes of the past of a large tree, and by how much serving is slowed meanwhile.

    python -m virtuallog_lab.experiments.history.history --writes 100000 --keys 10000
    python -m virtuallog_lab.experiments.history.history --keep DIR --only build
    python -m virtuallog_lab.experiments.history.history --keep DIR --only ask
    python -m virtuallog_lab.experiments.history.history --keep DIR --only serve --load saturated

Three servers keep all their snapshots, one for each 32 MiB of the log, and a hold keeps the log. The steps: a tree of `--keys` znodes,
`--writes` writes over them, with positions and some znodes noted on the way; questions, each a process of `virtuallog database`, whose answers
are compared with what was noted; and rounds of writes with and without a question under way. `--only` makes one step, on the cluster in
`--keep`: a machine that others wait for is taken for some minutes at a time.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from virtuallog_lab.experiments.churn.churn import NODES
from virtuallog_lab.experiments.history.report import report
from virtuallog_lab.experiments.history.run import LOADS, STEPS, HistoryExperiment, HistoryFindings, HistoryPlan
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.trial import set_up_client


@click.command()
@click.option("--writes", default=1_000_000, show_default=True, type=click.IntRange(min=1000))
@click.option("--keys", default=100_000, show_default=True, type=click.IntRange(min=NODES), help="Znodes.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=8), help="Bytes of a value.")
@click.option(
    "--rounds", default=20, show_default=True, type=click.IntRange(min=1), help="Of writes beside a question."
)
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(min=0.1), help="Of a part of a round.")
@click.option("--only", "steps", multiple=True, type=click.Choice(STEPS), help="Only this step; repeatable.")
@click.option("--load", "loads", multiple=True, type=click.Choice(list(LOADS)), help="Only this load; repeatable.")
@keep_option
@form_options
def main(
    *,
    writes: int,
    keys: int,
    size: int,
    rounds: int,
    seconds: float,
    steps: tuple[str, ...],
    loads: tuple[str, ...],
    keep: Path | None,
    form: Form,
) -> None:
    """Write, ask about the past, and measure writes meanwhile."""
    set_up_client()
    machine = Machine.look()
    plan = HistoryPlan(
        writes=writes, keys=keys, size=size, rounds=rounds, seconds=seconds, steps=steps or STEPS,
        loads=loads or tuple(LOADS),
    )  # fmt: skip
    report(machine, plan, run_to_end(run, plan, keep and keep.absolute())).publish(form)


async def run(plan: HistoryPlan, keep: Path | None = None) -> HistoryFindings:
    """Run on a new cluster, or on the one in `keep`, an absolute path, where all of it stays.

    Raises:
        VirtualLogError: something could not be done.
    """
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="virtuallog-history-") as given:
        return await HistoryExperiment(plan, Path(given)).run()


if __name__ == "__main__":
    main()
