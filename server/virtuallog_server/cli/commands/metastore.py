"""`virtuallog metastore`: `members`, `export`, `edit` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.group()
def metastore() -> None:
    """Look after the register, which decides everything else."""


@metastore.command()
@click.option("--set", "wanted", metavar="ID,...", help="Make these nodes the members from now on.")
@click.option("--seen", metavar="ID,...", help="With --set: the members that these replace.")
@cluster_option
@json_option
def members(cluster: ClusterFile, wanted: str | None, seen: str | None, as_json: bool) -> None:
    """Show the nodes that decide the register, and which of them answer; or change them.

    A change is refused if the members are no longer those that this command has seen, or that --seen names. So two operators
    do not undo each other's changes. Drained nodes get no seat.

    \b
    Examples:
        virtuallog metastore members
        virtuallog metastore members --set 1,2,3
        virtuallog metastore members --set 1,2,4 --seen 1,2,3
    """
    if seen is not None and wanted is None:
        raise click.UsageError("--seen goes with --set")
    from virtuallog_server.cli.cluster import metastore_job as work

    work.members(cluster, wanted, seen, as_json)


@metastore.command(name="export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Directory of a stopped node."
)
@click.option("--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
              type=click.Path(path_type=Path, dir_okay=False), help="The cluster.toml of a running cluster.")  # fmt: skip
@json_option
def export(file: Path, data: Path | None, cluster: Path | None, as_json: bool) -> None:
    """Write the newest register to a file, for disasters. Once a day is often enough for most; after changes is better.

    Reads it from the cluster, or with --data from the directory of a member that is left when a majority of them is lost.

    \b
    Example:
        virtuallog metastore export register-monday
    """
    if data is None and cluster is None:
        raise click.UsageError("name the cluster (--cluster FILE) or a data directory (--data DIR)")
    from virtuallog_server.cli.cluster import metastore_job as work

    work.export(file, data, cluster, as_json)


@metastore.command(name="edit")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("edited", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--close-at", type=click.IntRange(min=0), metavar="POSITION",
              help="End of the open segment, which is not sealed: past everything that was ever acknowledged.")  # fmt: skip
@click.option("--start-at", type=click.IntRange(min=0), metavar="POSITION",
              help="Leave out the segments wholly below, with all that is in them.")  # fmt: skip
def edit(file: Path, edited: Path, close_at: int | None, start_at: int | None) -> None:
    """Change an exported register, when a loglet is lost for good and can no longer be sealed. Import the result.

    \b
    Example:
        virtuallog metastore edit register-monday register-edited --close-at 5000000
    """
    from virtuallog_server.cli.cluster import metastore_job as work

    work.edit_file(file, edited, close_at, start_at)


@metastore.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--data", required=True, type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Directory of a node that is left; it must be stopped.")  # fmt: skip
@click.option("--members", "wanted", required=True, metavar="ID,...", help="The members from now on.")
@click.option("--force", is_flag=True, help="Yes, the MetaStore is lost.")
@click.option("--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
              type=click.Path(path_type=Path, dir_okay=False),
              help="Needed with TLS, for its certificates: nodes answer no request without.")  # fmt: skip
@json_option
def import_(file: Path, data: Path, wanted: str, force: bool, cluster: Path | None, as_json: bool) -> None:
    """Continue from an exported register when a majority of the MetaStore is lost for good. Without --force it prints the price.

    \b
    Example:
        virtuallog metastore import register-monday --data node-1 --members 1,2 --force
    """
    from virtuallog_server.cli.cluster import metastore_job as work

    work.import_file(file, data, wanted, force, cluster, as_json)
