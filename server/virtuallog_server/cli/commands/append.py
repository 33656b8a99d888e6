"""`virtuallog append`."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from virtuallog_server.cli.common.options import cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.command()
@click.argument("payload", required=False)
@click.option("--lines", type=click.File("rb"), metavar="FILE", help="One entry per line of FILE; - is stdin.")
@click.option("--rate", type=click.IntRange(min=1), help="With --lines: at most this many entries a second.")
@cluster_option
@json_option
def append(cluster: ClusterFile, payload: str | None, lines: BinaryIO | None, rate: int | None, as_json: bool) -> None:
    """Append PAYLOAD as one entry, or each line of a file as one, and print their positions in the log.

    Once the command has ended without an error, all of them are durable. Lines are split on \\n only, which is not
    part of the entry; empty lines are entries. They are in the log in their order, each once.

    If it fails with exit code 3, the acknowledged entries are in the log; those after them may be.

    \b
    Examples:
        virtuallog append "hello"
        seq 100000 | virtuallog append --lines -
        virtuallog append --lines FILE --rate 20000
    """
    if (payload is None) == (lines is None):
        raise click.UsageError("give either a PAYLOAD or --lines FILE")
    if rate is not None and lines is None:
        raise click.UsageError("--rate goes with --lines")
    from virtuallog_server.cli.log.append_job import append_lines, append_one

    if lines is not None:
        append_lines(cluster, lines, rate, as_json)
    else:
        assert payload is not None
        append_one(cluster, payload.encode("utf-8", "surrogateescape"), as_json)
