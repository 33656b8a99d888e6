"""`virtuallog read`, `tail` and `trim`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import POSITION, cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.command()
@click.option("--from", "start", type=POSITION, help="First position.  [default: the trim point]")
@click.option("--to", "stop", type=POSITION, help="One past the last position.  [default: the tail]")
@click.option("--raw", is_flag=True, help=r"Print each payload and \n, nothing else.")
@click.option("--follow", is_flag=True, help="At the tail, wait for more; without --to until Ctrl-C.")
@cluster_option
@json_option
def read(cluster: ClusterFile, start: int | None, stop: int | None, raw: bool, follow: bool, as_json: bool) -> None:
    """Print entries.

    Each entry comes with its position. Positions without an entry (filled in by the log, or trimmed meanwhile) come as
    ranges. With --json, one object per line: payloads that are not UTF-8 are given as payload_base64. With --raw, the
    payloads alone: what was appended with --lines comes out as it went in. Lost entries are reported on stderr, with
    exit code 1, as is a --from that has been trimmed, or is past the tail.

    \b
    Examples:
        virtuallog read --from 100 --to 110
        virtuallog read --follow
        virtuallog read --raw > copy
    """
    if raw and as_json:
        raise click.UsageError("--raw and --json exclude each other")
    if start is not None and stop is not None and stop < start:
        raise click.UsageError(f"--to {stop} is below --from {start}")
    if sys.stdout is None:
        raise Failure("cannot write the output: stdout is closed")
    from virtuallog_server.cli.log import read_job as work

    work.read(cluster, start, stop, follow, work.print_raw if raw else work.print_json if as_json else work.print_text)


@click.command()
@cluster_option
@json_option
def tail(cluster: ClusterFile, as_json: bool) -> None:
    """Print the first unwritten position: everything below it is durable and readable.

    \b
    Example:
        virtuallog tail
    """
    from virtuallog_server.cli.log import read_job as work

    work.tail(cluster, as_json)


@click.command()
@click.argument("position", type=POSITION)
@click.option("--force", is_flag=True, help="Trim even what a database on this log still needs.")
@cluster_option
@json_option
def trim(cluster: ClusterFile, position: int, force: bool, as_json: bool) -> None:
    """Drop everything below POSITION, for good, and print the effective trim point.

    Segments that become empty leave the chain. Disk space is freed in the background. If a database stands on the log,
    it trims the log itself; entries that it still needs are not trimmed here without --force.

    \b
    Example:
        virtuallog trim $(virtuallog tail)
    """
    from virtuallog_server.cli.log import read_job as work

    work.trim(cluster, position, force, as_json)
