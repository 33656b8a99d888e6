"""`virtuallog explore`: explores the states of the pure cores within bounds. `explore_job.py` does the work.

Exit code 0: every promise was kept; 1: one was broken, or a count is not the expected one; 2: wrong usage.
"""

from __future__ import annotations

import sys

import click


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listed", is_flag=True, help="List the configurations, their bounds and counts.")
@click.option("--all", "everything", is_flag=True, help="Explore the large configurations too.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop each one after so much time.")
@click.option(
    "--replay",
    metavar="FILE|STORY",
    help="Take the steps of a story in one configuration: a file, or steps apart by ';'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per configuration.")
def explore(
    names: tuple[str, ...], listed: bool, everything: bool, minutes: float | None, replay: str | None, as_json: bool
) -> None:
    """Explore every state that the pure cores can be in, within the bounds of named configurations.

    Without NAME all small configurations are explored. A broken promise is printed as one of the shortest stories that
    break it. NAME may end in * for several. See docs/internals/explorer.md.

    \b
        virtuallog explore
        virtuallog explore raft-election --minutes 1
        virtuallog explore raft-append --replay "1 stands => 1>2 vote?"
    """
    from virtuallog_simulation.explorer import explore_job

    if listed:
        explore_job.print_configurations(as_json=as_json)
        return
    chosen = explore_job.choose(names, everything=everything)
    if replay is not None:
        if len(chosen) != 1:
            raise click.UsageError("--replay needs one NAME")
        sys.exit(explore_job.retell(chosen[0], replay, as_json=as_json))
    sys.exit(explore_job.run(chosen, minutes=minutes, as_json=as_json))
