"""`virtuallog spark compact`: turns the log of a database into a state that servers can begin with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyspark_virtuallog.command_line import spark_options
from virtuallog_server.cli.common.options import POSITION, cluster_option, echo_json, json_option
from virtuallog_server.cli.common.progress_bar import progress_bar, teller

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile
    from virtuallog_database.snapshots.compaction_manifest import Manifest


@click.command()
@click.option("--to", "url", metavar="URL", required=True, help="The place: what servers have as compacted_url.")
@click.option(
    "--work", metavar="DIR", required=True, type=click.Path(path_type=Path, file_okay=False),
    help="A directory on this machine's disk, for the store of the replay. The same one again spares a copy.",
)  # fmt: skip
@click.option("--position", type=POSITION, help="Compact everything below it.  [default: all there is]")
@spark_options
@cluster_option
@json_option
def compact(
    cluster: ClusterFile,
    url: str,
    work: Path,
    position: int | None,
    master: str,
    configuration: dict[str, str],
    as_json: bool,
) -> None:
    """Turn the log of a database up to a position into files of its state that a server can begin with.

    The log is held meanwhile (hold 'compaction'), and then from that position on. Servers may trim the log before it, and do so by
    themselves. This machine plays the entries since the last compaction; Spark merges them over that. Killed anywhere, the same
    command resumes.

    \b
    Examples:
        virtuallog spark compact --to file:///mnt/compacted --work /var/tmp/compaction
        virtuallog spark compact --to s3://bucket/state --work /var/tmp/compaction --master spark://host:7077
    """
    from pyspark_virtuallog.compact.compaction import CompactionRequest
    from pyspark_virtuallog.compact.compaction import compact as run
    from pyspark_virtuallog.session import open_session
    from virtuallog.contract.types import LogPosition
    from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url

    wanted = CompactionRequest(
        cluster=cluster,
        url=absolute_url(url),
        work=work.absolute(),
        position=None if position is None else LogPosition(position),
    )
    with progress_bar() as bar, open_session("virtuallog compact", master=master, configuration=configuration) as spark:
        manifest = run(spark, wanted, teller(bar))
    _show(manifest, wanted.url, as_json)


def _show(manifest: Manifest, url: str, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "cluster": manifest.cluster.hex(), "position": manifest.position, "pairs": manifest.pairs,
                "bytes": manifest.size, "url": url,
            }
        )  # fmt: skip
        return
    click.echo(f"compacted up to {manifest.position}: {manifest.pairs:,} pairs, {manifest.size:,} bytes at {url}")
