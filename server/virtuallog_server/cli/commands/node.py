"""`virtuallog node`: `add`, `replace`, `drain` and `remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.limits import ROLES
from virtuallog_server.cli.common.options import cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.group()
def node() -> None:
    """Add, replace, drain and remove nodes, while the log is in use.

    All of these may be interrupted and repeated: they check what is done already, and do the rest.
    """


@node.command()
@click.argument("place", metavar="ID@HOST:PORT")
@click.option("--roles", default=",".join(ROLES), show_default=True, metavar="ROLE,...", help="Roles of the node.")
@cluster_option
@json_option
def add(cluster: ClusterFile, place: str, roles: str, as_json: bool) -> None:
    """Expect a new node; or use a drained one again. A node in use gets the roles that it lacks.

    Then start it: `virtuallog serve`, with an empty data directory, and with the nodes of the cluster and itself as its
    peers. It takes its place by itself. New loglets may use it from then on.

    \b
    Example:
        virtuallog node add 4@127.0.0.1:7004
    """
    from virtuallog_server.cli.cluster import node_job as work

    work.add(cluster, place, roles, as_json)


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(1))
@click.option("--address", metavar="HOST:PORT", help="Its new address, if that changes.")
@click.option(
    "--force", is_flag=True, help="Give up its data even if it answers, or if the others may not have all of it."
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the node to be started.")
@cluster_option
@json_option
def replace(cluster: ClusterFile, number: int, address: str | None, force: bool, no_wait: bool, as_json: bool) -> None:
    """Give the place of a node whose disk is gone to a new data directory.

    The cluster forgets the old directory: it is refused if it turns up again. Then start the node with an empty one. It
    takes the place, gets its vote for the register back, and a copy of every segment that it had.

    \b
    Example:
        virtuallog node replace 3
    """
    from virtuallog_server.cli.cluster import node_job as work

    work.replace(cluster, number, address, force, no_wait, as_json)


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(1))
@click.option("--check", is_flag=True, help="Only print what prevents it; change nothing.")
@cluster_option
@json_option
def drain(cluster: ClusterFile, number: int, check: bool, as_json: bool) -> None:
    """Move everything off a running node, so that it can be stopped.

    Its seat in the MetaStore, appends and the copies of all segments go to other nodes; never are there fewer copies than
    before. `virtuallog node add` takes it back, `virtuallog node remove` takes it out of the cluster.

    \b
    Examples:
        virtuallog node drain 1 --check
        virtuallog node drain 1
    """
    from virtuallog_server.cli.cluster import node_job as work

    work.drain(cluster, number, check, as_json)


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(1))
@cluster_option
@json_option
def remove(cluster: ClusterFile, number: int, as_json: bool) -> None:
    """Take an unused node out of the cluster, for good.

    \b
    Example:
        virtuallog node remove 1
    """
    from virtuallog_server.cli.cluster import node_job as work

    work.remove(cluster, number, as_json)
