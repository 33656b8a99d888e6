"""`virtuallog database` and its commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from virtuallog_server.cli.common.limits import HISTORY_LIMIT_MAX, HISTORY_VALUE_BYTES
from virtuallog_server.cli.common.options import POSITION, CommandT, cluster_option, json_option, parse_moment

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile
    from virtuallog_server.cli.history.history_job import When


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


# -- the past ---------------------------------------------------------------------------------------------------------

_PRIORITIES: Final = ("idle", "low", "normal")
_SCRATCH_MIB: Final = 8192


def _moment_option(name: str, variable: str, help_text: str) -> Callable[[CommandT], CommandT]:
    return click.option(name, variable, metavar="POSITION|TIME", callback=parse_moment, help=help_text)


_at = _moment_option(
    "--at", "at", "The state with everything below a position, or ordered before about a time.  [default: the tail]"
)
_limit = click.option(
    "--limit", type=click.IntRange(1, HISTORY_LIMIT_MAX), default=1000, show_default=True, help="Most rows."
)
_value_bytes = click.option(
    "--bytes", "bytes_max", type=click.IntRange(0, 1 << 20), default=HISTORY_VALUE_BYTES, show_default=True, metavar="N",
    help="Bytes of a value, with --json.",
)  # fmt: skip


def _history_options(command: CommandT) -> CommandT:
    """Options of all commands that look into the past, given to the command as `options`."""
    for option in (
        json_option,
        cluster_option,
        click.option("--backups", metavar="DIR|URL", help="Place of backups, which reach further back than the log."),
        click.option("--rate", type=click.FloatRange(0.01), default=16.0, show_default=True, metavar="MB/S", help="Most MB read from the nodes in a second."),
        click.option("--disk", type=click.IntRange(1), default=_SCRATCH_MIB, show_default=True, metavar="MIB", help="Most MiB of scratch files."),
        click.option("--scratch", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR", help="Folder for scratch files.  [default: the system's temporary one]"),
        click.option("--priority", type=click.Choice(_PRIORITIES), default="idle", show_default=True, help="Share of busy processors."),
    ):  # fmt: skip
        command = option(command)
    return command


@database.command()
@click.argument("path")
@_at
@click.option("--raw", is_flag=True, help="Print the data, and nothing else.")
@_history_options
def get(path: str, at: When, raw: bool, **options: Any) -> None:
    """Show a znode as it was: its data, its stat and its ACL.

    \b
    Examples:
        virtuallog database get /app/config --at 4711
        virtuallog database get /app/config --at 2026-11-22T12:00:00+01:00 --raw
    """
    if raw and options["as_json"]:
        raise click.UsageError("--raw and --json exclude each other")
    from virtuallog_server.cli.history import history_job as work

    work.get(work.HistoryOptions(**options), path, at, raw)


@database.command()
@click.argument("path", default="/")
@_at
@click.option("--after", default="", metavar="NAME", help="Only children behind this name.")
@_limit
@_history_options
def ls(path: str, at: When, after: str, limit: int, **options: Any) -> None:
    """List the children that a znode had.

    \b
    Example:
        virtuallog database ls /app --at 4711
    """
    from virtuallog_server.cli.history import history_job as work

    work.ls(work.HistoryOptions(**options), path, at, after, limit)


@database.command()
@click.argument("path", default="/")
@_moment_option("--from", "start", "The former state.  [required]")
@_moment_option("--to", "stop", "The later state.  [default: the tail]")
@click.option("--after", default="", metavar="PATH", help="Only paths behind this one.")
@_limit
@_value_bytes
@_history_options
def diff(path: str, start: When, stop: When, after: str, limit: int, bytes_max: int, **options: Any) -> None:
    """Show how a znode and all below it differ between two states.

    A line for each znode: + added, - removed, ~ changed, = deleted and created again. Only znodes that entries in between have written
    are compared.

    \b
    Example:
        virtuallog database diff /app --from 4000 --to 2026-11-22T12:00:00Z
    """
    if start == (None, None):
        raise click.UsageError("--from says where to begin")
    from virtuallog_server.cli.history import history_job as work

    work.diff(work.HistoryOptions(**options), path, start, stop, after, limit, bytes_max)


@database.command()
@click.argument("path", default="/")
@_moment_option("--from", "start", "Begin of the range.  [default: the oldest state that can be made]")
@_moment_option("--to", "stop", "End of the range.  [default: the tail]")
@_limit
@click.option("--last", is_flag=True, help="The last changes of the range, instead of the first ones.")
@click.option("--alone", is_flag=True, help="The znode alone, without those below.")
@_value_bytes
@_history_options
def history(
    path: str, start: When, stop: When, limit: int, last: bool, alone: bool, bytes_max: int, **options: Any
) -> None:
    """Show the changes of a znode and of all below it: the entries, when, by which client, and what they left.

    \b
    Examples:
        virtuallog database history /app/config
        virtuallog database history /app/config --alone --last --limit 1
    """
    from virtuallog_server.cli.history import history_job as work

    work.history(work.HistoryOptions(**options), path, start, stop, limit, bytes_max, only_last=last, is_alone=alone)
