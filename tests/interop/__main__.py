"""`python -m tests.interop`: the run of `test_kazoo_history` with 20,000 operations or more. Exit code 1: a promise was broken."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import attrs
import click
import trio

from tests.interop.kazoo_run import Plan, run
from virtuallog_lab.harness.trial import set_up_client

LONG = Plan(
    clients=8,
    operations=20_000,
    swaps=("paxos", "striped", "native"),
    swap_seconds=5.0,
    hurt_seconds=6.0,
    stop_seconds=(1.0, 4.0),
    pause_seconds=0.02,
)


@click.command()
@click.option("--operations", default=LONG.operations, show_default=True)
@click.option("--seed", default=LONG.seed, show_default=True)
def main(operations: int, seed: int) -> None:
    """Run clients against servers that are killed, stopped and swapped; print what happened."""
    set_up_client()
    plan = attrs.evolve(LONG, operations=operations, seed=seed)
    with tempfile.TemporaryDirectory(prefix="virtuallog-zelos-") as folder:
        outcome = trio.run(partial(run, plan, Path(folder)))
    click.echo(f"{outcome.operations} operations, {outcome.compared} results compared, {outcome.events} watch events")
    for what, times in sorted(outcome.done.items()):
        click.echo(f"{times:6} {what}")
    for violation in outcome.violations[:20]:
        click.echo(f"{violation.check}: {violation.message}")
    raise SystemExit(1 if outcome.violations else 0)


main()
