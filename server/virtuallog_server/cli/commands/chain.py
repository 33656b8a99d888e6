"""`virtuallog chain`, `reconfigure`, `truncate` and `seal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import cluster_option, complete_kinds, json_option, parse_settings

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


def _list_kinds(context: click.Context, _parameter: click.Parameter, listed: bool) -> None:
    if not listed or context.resilient_parsing:
        return
    from virtuallog_server.cli.log.chain_job import list_kinds

    list_kinds(context)
    context.exit()


@click.command()
@cluster_option
@json_option
def chain(cluster: ClusterFile, as_json: bool) -> None:
    """Show the segments of the log, and the loglet that holds each.

    With --json: an object with the version and the list of segments, each with kind, start and stop (null while open).

    \b
    Example:
        virtuallog chain --json | jq '.segments[-1].kind'
    """
    from virtuallog_server.cli.log import chain_job as work

    work.show_chain(cluster, as_json)


@click.command()
@click.option(
    "--to",
    "kind",
    required=True,
    metavar="KIND",
    shell_complete=complete_kinds,
    help="Kind of the new loglet; --list shows all.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the new loglet; repeatable.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_kinds,
    help="List the kinds of loglets, and what --set takes for each.",
)  # fmt: skip
@cluster_option
@json_option
def reconfigure(cluster: ClusterFile, kind: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Continue the log on a new loglet, while it is in use.

    Seals the active loglet and extends the chain. Settings that are not given stay as they were, as far as their
    servers live. This is also the way to recover from a dead sequencer or server: continue on nodes that live.

    \b
    Examples:
        virtuallog reconfigure --list
        virtuallog reconfigure --to native --set sequencer=2
    """
    parsed = parse_settings(settings)
    from virtuallog_server.cli.log import chain_job as work

    work.reconfigure(cluster, kind, parsed, as_json)


@click.command()
@cluster_option
@json_option
def truncate(cluster: ClusterFile, as_json: bool) -> None:
    """Drop wholly trimmed segments from the chain.

    `virtuallog trim` does this by itself; `truncate` helps after a trim that was interrupted.

    \b
    Example:
        virtuallog truncate
    """
    from virtuallog_server.cli.log import chain_job as work

    work.truncate(cluster, as_json)


@click.command()
@cluster_option
@json_option
def seal(cluster: ClusterFile, as_json: bool) -> None:
    """Close the log: appends fail until `virtuallog reconfigure` continues it. Reads go on.

    \b
    Example:
        virtuallog seal
    """
    from virtuallog_server.cli.log import chain_job as work

    work.seal(cluster, as_json)
