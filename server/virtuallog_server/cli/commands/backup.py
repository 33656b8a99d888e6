"""`virtuallog backup` and its commands, and `virtuallog restore`."""

from __future__ import annotations

from pathlib import Path

import click

from virtuallog_server.cli.common.limits import BACKUP_HOLD_SECONDS
from virtuallog_server.cli.common.options import json_option, parse_moment, read_own_cluster

_HOLD_SECONDS_MAX = 10 * 365 * 86_400.0


@click.group(invoke_without_command=True)
@click.option("--to", "url", metavar="DIR|URL", help="Place of backups: file:///mnt/backups, s3://bucket/backups, ...")
@click.option("--full", is_flag=True, help="Begin with a new state, instead of what came since the last backup.")
@click.option(
    "--hold", "hold_seconds", metavar="SECONDS", default=BACKUP_HOLD_SECONDS, show_default=True,
    type=click.FloatRange(0, _HOLD_SECONDS_MAX), help="Keep the log of a database for the next run so long; 0 for not.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
    type=click.Path(path_type=Path, dir_okay=False), help="The cluster.toml that `virtuallog up` has written.",
)  # fmt: skip
@json_option
@click.pass_context
def backup(
    context: click.Context, url: str | None, full: bool, hold_seconds: float, cluster: Path | None, as_json: bool
) -> None:
    """Save the log, and the state of its database, at a place outside of the cluster.

    The first run saves all: the newest snapshot of a server, and the log from there on. Each further one saves what has come since. All
    that is written is read back and compared; the manifest is written last. It may be interrupted and repeated.

    \b
    Examples:
        virtuallog backup --to file:///mnt/backups
        virtuallog backup --to s3://bucket/backups --full
        virtuallog backup verify --from file:///mnt/backups
    """
    if context.invoked_subcommand is not None:
        return
    if url is None:
        raise click.UsageError("--to URL says where to")
    if cluster is None:
        raise click.UsageError("name the cluster: --cluster FILE, or VIRTUALLOG_CLUSTER=FILE in the environment")
    from virtuallog_server.cli.backup import backup_job as work
    from virtuallog_server.process import log_output

    log_output.configure("warning")
    work.back_up(read_own_cluster(cluster), url, full, hold_seconds, as_json)


@backup.command()
@click.option("--from", "url", metavar="DIR|URL", required=True, help="Place of backups.")
@click.option("--number", type=click.IntRange(1), help="Number of the backup.  [default: the newest one]")
@json_option
def verify(url: str, number: int | None, as_json: bool) -> None:
    """Restore a backup into a scratch directory, compare the state with the one recorded, and print RPO and RTO.

    \b
    Example:
        virtuallog backup verify --from file:///mnt/backups
    """
    from virtuallog_server.cli.backup import backup_job as work

    work.verify(url, number, as_json)


@backup.command("list")
@click.option("--from", "url", metavar="DIR|URL", required=True, help="Place of backups.")
@json_option
def list_(url: str, as_json: bool) -> None:
    """Show the newest backup of each full one: the positions and times that a restore can reach.

    \b
    Example:
        virtuallog backup list --from file:///mnt/backups
    """
    from virtuallog_server.cli.backup import backup_job as work

    work.show(url, as_json)


@backup.command()
@click.option("--from", "url", metavar="DIR|URL", required=True, help="Place of backups.")
@click.option(
    "--keep",
    type=click.IntRange(1),
    required=True,
    metavar="N",
    help="Full backups to keep, each with what is on top of it.",
)
@json_option
def prune(url: str, keep: int, as_json: bool) -> None:
    """Remove all but the newest N full backups, and what is on top of each.

    Before anything is removed, all that is kept is verified as by `backup verify`. What runs that were killed have left is removed, too. It may be
    interrupted and repeated.

    \b
    Example:
        virtuallog backup prune --from file:///mnt/backups --keep 4
    """
    from virtuallog_server.cli.backup import backup_job as work

    work.prune(url, keep, as_json)


@click.command()
@click.option("--from", "url", metavar="DIR|URL", required=True, help="Place of backups.")
@click.option("--into", metavar="DIR|URL", required=True, help="Target: an empty directory, or a new one.")
@click.option(
    "--at", metavar="POSITION|TIME", callback=parse_moment,
    help="Restore everything below a position, or ordered before about a time: 2026-11-22T12:00:00+01:00; without a zone it is UTC.",
)  # fmt: skip
@click.option(
    "--number", type=click.IntRange(1), help="Number of the backup.  [default: the newest that reaches there]"
)
@click.option("--keep-sessions", is_flag=True, help="Keep sessions and their ephemerals.")
@json_option
def restore(
    url: str, into: str, at: tuple[int | None, int | None], number: int | None, keep_sessions: bool, as_json: bool
) -> None:
    """Make the start of a new cluster of a backup: its database, or its log, as it was at a position or a time.

    The new cluster has an id of its own, and positions stay the same. Sessions end, and their ephemerals go, unless --keep-sessions is
    given. Interrupted, the same command resumes. In the end `virtuallog up --restored INTO` starts the new cluster.

    \b
    Examples:
        virtuallog restore --from file:///mnt/backups --into /mnt/restored
        virtuallog restore --from s3://bucket/backups --at 2026-11-22T12:00:00Z --into /mnt/restored
    """
    from virtuallog_server.cli.backup import backup_job as work

    work.restore(url, into, at, number, keep_sessions, as_json)
