"""`python -m tests.simulation.explorer`: hunts every planted bug, and prints the table of docs/internals/explorer.md."""

from __future__ import annotations

import click

from tests.simulation.explorer import metastore_mutants, native_mutants, paxos_mutants, raft_mutants, registrar_mutants


def main() -> None:
    """One line per bug; exit code 1 if one was not found."""
    click.echo("| bug | specification | configuration | states | depth | seconds | says |")
    click.echo("|---|---|---|---:|---:|---:|---|")
    missed = 0
    for mutant in (
        *raft_mutants.MUTANTS, *native_mutants.MUTANTS, *paxos_mutants.MUTANTS, *metastore_mutants.MUTANTS,
        *registrar_mutants.MUTANTS,
    ):  # fmt: skip
        head = f"| {mutant.name} | {mutant.number} | `{mutant.configuration}` |"
        if mutant.schedule:
            told = mutant.retell()
            missed += told.broken is None
            click.echo(f"{head} schedule | {len(told.steps)} | | {told.broken} |")
        if mutant.is_long or not mutant.schedule:
            found = mutant.hunt()
            missed += found.broken is None
            click.echo(f"{head} {found.states:,} | {len(found.story)} | {found.seconds:.1f} | {found.broken} |")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
