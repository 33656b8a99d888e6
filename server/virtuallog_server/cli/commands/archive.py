"""`virtuallog archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import cluster_option, grace_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.command()
@click.argument("wanted", metavar="SEGMENT|all")
@click.option("--to", "url", metavar="URL", help="Location of archives: file:///mnt/archives, s3://bucket/logs, ...")
@grace_option
@click.option("--verify-only", is_flag=True, help="Read archives back and compare them; change nothing.")
@click.option("--undo", is_flag=True, help="Put back the loglet that an archive replaced, while its copies exist.")
@cluster_option
@json_option
def archive(
    cluster: ClusterFile, wanted: str, url: str | None, grace: float, verify_only: bool, undo: bool, as_json: bool
) -> None:
    """Keep closed segments as Parquet files on another filesystem, any that fsspec knows, instead of on nodes.

    SEGMENT is an id that `virtuallog chain` shows; `all` means every closed segment that is not archived yet (with
    --verify-only and --undo: every archive). Each is written, read back as a whole and compared with what the nodes have;
    only then does the chain name it. Nodes drop their copies after the grace period. Reads and trims go on as before. All
    nodes and readers must be able to reach the URL; passwords belong to the configuration of fsspec, not into it.

    It may be interrupted and repeated: files that are written, and whole, are not written again.

    \b
    Examples:
        virtuallog archive all --to file:///mnt/archives
        virtuallog archive all --verify-only
        virtuallog archive 4.5fe7a0 --undo
    """
    if verify_only and undo:
        raise click.UsageError("--verify-only and --undo exclude each other")
    if (url is None) != (verify_only or undo):
        raise click.UsageError("--to URL says where to; --verify-only and --undo go by the chain")
    from virtuallog_server.cli.archive import archive_job as work

    if url is not None:
        work.archive(cluster, wanted, url, grace, as_json)
    elif undo:
        work.undo(cluster, wanted, as_json)
    else:
        work.verify(cluster, wanted, as_json)
