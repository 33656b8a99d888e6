"""`virtuallog conformance`: tests a provider of loglets against the contract. `conformance_job.py` does the work.

Exit code 0: every promise was kept; 1: a promise was broken, and the report says which; 2: wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from virtuallog_simulation.cli import SeedRange

NODES: Final = 3
"""`virtuallog_simulation.scenarios.conformance.options.NODES`, which `--help` must not import."""
SEEDS = (1, 20)
"""By default: about a minute on two cores for a loglet like native."""


@click.command()
@click.argument("provider")
@click.option("--seeds", type=SeedRange(), default=SEEDS, help="Seeds A to B of each trial, both included.  [1..20]")
@click.option("--seed", type=click.IntRange(min=0), help="This seed only; with one --only it tells what happened.")
@click.option("--only", "--clause", "only", multiple=True, metavar="NAME", help="Only this row of the report.")
@click.option("--without", default="", metavar="A,B", help="Faults that the loglet does not claim to survive.")
@click.option("--nodes", type=click.IntRange(1, 9), default=NODES, show_default=True, help="Machines that serve it.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; one per core by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def conformance(
    provider: str,
    seeds: tuple[int, int | None],
    seed: int | None,
    only: Sequence[str],
    without: str,
    nodes: int,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Test PROVIDER, a kind of loglet that is installed or a class as package.module:Class, against the contract.

    Its servers run on simulated machines: every clause by itself, then under every class of faults, then in the chain
    of a cluster. The report names each promise that was broken, with the seed and the command that show it again.
    See docs/howto/write-a-loglet.md.
    """
    first, last = (seed, seed) if seed is not None else seeds
    if last is None:
        raise click.UsageError("--seeds needs an end")
    from virtuallog_simulation.conformance import conformance_job

    sys.exit(
        conformance_job.run(
            provider,
            range(first, last + 1),
            is_one=seed is not None,
            only=only,
            without=[name for name in without.split(",") if name],
            nodes=nodes,
            jobs=jobs,
            as_json=as_json,
        )
    )
