"""`virtuallog upgrade`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.command()
@click.option("--check", is_flag=True, required=True, help="Ask the nodes and judge; change nothing.")
@click.option(
    "--to",
    "protocol",
    type=click.IntRange(1),
    metavar="PROTOCOL",
    help="Another program, by the newest version of the protocol that it speaks.  [default: this program]",
)
@cluster_option
@json_option
def upgrade(cluster: ClusterFile, check: bool, protocol: int | None, as_json: bool) -> None:
    """Check if the nodes may be restarted with this program now, one after the other: a step up or down by one version.

    Names the nodes that do not run it yet, what is in the way, and whether there is a way back. Run it with the program that is to be
    installed: only that knows which formats it reads. Ends with 0 if the next node may be restarted, with 1 if something is in the way,
    with 3 if no node answers.

    \b
    Examples:
        virtuallog upgrade --check
        virtuallog upgrade --check --to 5
    """
    from virtuallog_server.cli.cluster import upgrade_job as work

    work.check(cluster, protocol, as_json)
