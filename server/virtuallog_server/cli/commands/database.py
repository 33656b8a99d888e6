"""`virtuallog database` and its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import POSITION, cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.group()
def database() -> None:
    """Look after the replicated tree that ZooKeeper's clients use."""


@database.command()
@cluster_option
@json_option
def status(cluster: ClusterFile, as_json: bool) -> None:
    """Show every replica: its position, its newest snapshot, and what keeps the log.

    A row for each node that runs a replica, and for each that should: the view of the database counts on it. Ends with 1 if a
    replica of the view is served by no node, or a node that was a server is none any more; else with 0.

    \b
    Example:
        virtuallog database status
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.status(cluster, as_json)


@database.command()
@click.argument("name")
@click.argument("position", type=POSITION)
@click.option(
    "--seconds", default=0.0, type=click.FloatRange(0), help="Drop the hold after this time.  [default: never]"
)
@cluster_option
def hold(cluster: ClusterFile, name: str, position: int, seconds: float) -> None:
    """Keep the log from POSITION on until it is released, even if the database does not need it. Again: renew it.

    \b
    Example:
        virtuallog database hold backup 1200 --seconds 3600
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.hold(cluster, name, position, seconds)


@database.command()
@click.argument("name")
@cluster_option
def release(cluster: ClusterFile, name: str) -> None:
    """Drop a hold.

    \b
    Example:
        virtuallog database release backup
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.release(cluster, name)


@database.command()
@click.argument("replica")
@cluster_option
def eject(cluster: ClusterFile, replica: str) -> None:
    """Stop keeping the log for a replica that does not come back. REPLICA is its name in `status`.

    \b
    Example:
        virtuallog database eject 3-5f0c2a7be41d9c36
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.eject(cluster, replica)


@database.command()
@cluster_option
@json_option
def checksum(cluster: ClusterFile, as_json: bool) -> None:
    """Have all replicas compare their states at one position of the log, and print that position.

    A replica whose state differs from that of the majority stops; `virtuallog status` says so a little later.

    \b
    Example:
        virtuallog database checksum
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.checksum(cluster, as_json)


@database.command()
@click.option("--put", "puts", multiple=True, metavar="KEY=VALUE", help="In hexadecimal; repeatable.")
@click.option("--delete", "deletes", multiple=True, metavar="KEY", help="In hexadecimal; repeatable.")
@click.option("--yes", is_flag=True, help="You know what you are doing.")
@cluster_option
def brain_doctor(cluster: ClusterFile, puts: tuple[str, ...], deletes: tuple[str, ...], yes: bool) -> None:
    """Write to the local store of every replica, past all checks and all meaning: for emergencies.

    The writes are one entry of the log, so all replicas make them at the same position.

    \b
    Example:
        virtuallog database brain-doctor --delete 006c65617365 --yes
    """
    if not puts and not deletes:
        raise click.UsageError("nothing to write: --put KEY=VALUE, --delete KEY")
    from virtuallog_server.cli.cluster import database_job as work

    work.write_raw(cluster, puts, deletes, yes)


@database.command()
@click.argument("engine")
@cluster_option
def enable(cluster: ClusterFile, engine: str) -> None:
    """Let an engine take effect on all replicas, from one position of the log on. Refused while a replica does not know it.

    \b
    Example:
        virtuallog database enable lease
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.set_engine(cluster, engine, enabled=True)


@database.command()
@click.argument("engine")
@cluster_option
def disable(cluster: ClusterFile, engine: str) -> None:
    """Let an engine take effect no more.

    \b
    Example:
        virtuallog database disable lease
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.set_engine(cluster, engine, enabled=False)


@database.command()
@click.option(
    "--despite-entries", is_flag=True, help="Even if the log has entries of other clients, which can append no longer."
)
@cluster_option
def guard(cluster: ClusterFile, despite_entries: bool) -> None:
    """Let only nodes and administrators append to the log from now on. This cannot be taken back.

    Servers of the database do this by themselves, unless the log has entries that are none of a database.

    \b
    Example:
        virtuallog database guard
    """
    from virtuallog_server.cli.cluster import database_job as work

    work.guard(cluster, despite_entries)
