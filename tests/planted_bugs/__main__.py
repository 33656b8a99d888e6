"""`python -m tests.planted_bugs`: hunts every planted bug, and prints the table of docs/internals/testing.md."""

from __future__ import annotations

import click

from tests.planted_bugs.catalogue import MUTANTS, hunt


def main() -> None:
    """One line per bug; exit code 1 if one was not found."""
    click.echo("| bug | target | published | scenario | seed | found by |")
    click.echo("|---|---|---|---|---|---|")
    missed = 0
    for mutant in MUTANTS:
        found = hunt(mutant)
        missed += found is None
        result = f"{found.seed} | {found.check}" if found else f"- | not within {mutant.within} seeds"
        target = mutant.target.partition(":")[2]
        click.echo(f"| {mutant.name} | `{target}` | {mutant.published} | `{mutant.scenario}` | {result} |")
    raise SystemExit(1 if missed else 0)


main()
