"""`virtuallog spark restore`: restores a log, or the state of its database, at one position, for a
new cluster to continue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import click

from pyspark_virtuallog.command_line import spark_options
from virtuallog_server.cli.common.options import POSITION, echo_json, json_option
from virtuallog_server.cli.common.progress_bar import progress_bar, teller

if TYPE_CHECKING:
    from pyspark_virtuallog.archive.tasks import Job
    from pyspark_virtuallog.restore.restoration import Restored
    from virtuallog.contract.ports import Clock
    from virtuallog_loglets.archive.creation.executor import ArchiveExecutor
    from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
    from virtuallog_loglets.archive.drivers.files import Files


def _parsed_time(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is no time such as 2026-11-22T12:00:00Z") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _parsed_cluster(_context: click.Context, _option: click.Parameter, text: str | None) -> bytes | None:
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is no id of a cluster, 32 hexadecimal digits") from None


@click.command()
@click.option(
    "--from", "named", metavar="FILE|URL", multiple=True, required=True,
    help="A cluster.toml, or a place with archives, backups or compactions. May be repeated.",
)  # fmt: skip
@click.option("--into", metavar="DIR|URL", required=True, help="Target: an empty directory, or a new one.")
@click.option("--position", type=POSITION, help="Restore everything below it.  [default: all there is]")
@click.option(
    "--time", "time_ms", metavar="TIME", callback=_parsed_time,
    help="Restore entries ordered before about this time: 2026-11-22T12:00:00+01:00; without a zone it is UTC.",
)  # fmt: skip
@click.option("--state/--no-state", default=None, help="The state of a database.  [default: if it has one]")
@click.option("--history/--no-history", default=None, help="The log itself.  [default: if it has no database]")
@click.option("--since", type=POSITION, help="First position of the history.  [default: first one found]")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="Keep the state there as a store, too.")
@click.option(
    "--cluster-id", metavar="HEX", callback=_parsed_cluster, help="Cluster of the log, if the places have several."
)
@spark_options
@json_option
def restore(
    named: Sequence[str],
    into: str,
    position: int | None,
    time_ms: int | None,
    state: bool | None,
    history: bool | None,
    since: int | None,
    store: Path | None,
    cluster_id: bytes | None,
    master: str,
    configuration: dict[str, str],
    as_json: bool,
) -> None:
    """Make the start of a new cluster: a log as it was below one position, or the state of its database there.

    Everything that is left of the log is used: the log itself, archives of its segments, backups of the database, compactions. Nothing is
    changed there. The new cluster has an id of its own, and positions stay the same. Interrupted, the same command resumes.
    In the end `virtuallog up --restored INTO`, or `serve --restored INTO` on each node, starts the new cluster.

    \b
    Examples:
        virtuallog spark restore --from cluster.toml --from file:///mnt/backups --position 4711 --into /mnt/restored
        virtuallog spark restore --from s3://bucket/backups --time 2026-11-22T12:00:00Z --into /mnt/restored
    """
    if position is not None and time_ms is not None:
        raise click.UsageError("--position and --time exclude each other")
    if state is False and not history:
        raise click.UsageError("--no-state needs --history: nothing is left to restore")
    clusters = [name for name in named if Path(name).is_file()]
    for name in named:
        if name.endswith(".toml") and name not in clusters:
            raise click.BadParameter(f"there is no file {name}", param_hint="--from")
    if len(clusters) > 1:
        raise click.UsageError(f"one log at a time is restored, not those of {' and '.join(clusters)}")
    import trio

    from pyspark_virtuallog.archive.spark_executor import SparkExecutor
    from pyspark_virtuallog.restore.planner import RestoreRequest
    from pyspark_virtuallog.restore.restoration import restore as run
    from pyspark_virtuallog.session import open_session
    from virtuallog.contract.types import LogPosition
    from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url

    wanted = RestoreRequest(
        into=absolute_url(into),
        cluster=Path(clusters[0]) if clusters else None,
        places=[absolute_url(name) for name in named if name not in clusters],
        cluster_id=cluster_id,
        position=None if position is None else LogPosition(position),
        time_ms=time_ms,
        since=None if since is None else LogPosition(since),
        state=state,
        history=history,
        store=store,
    )
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar())

        def executor_factory(job: Job, reading: ReadableSegment, files: Files, clock: Clock) -> ArchiveExecutor:
            """Executor on Spark: only copying a history needs Spark, and waits for its start."""
            spark = stack.enter_context(open_session("virtuallog restore", master=master, configuration=configuration))
            return SparkExecutor(spark=spark, job=job, source=reading, files=files, clock=clock)

        restored = trio.run(run, wanted, SystemRandom(), teller(bar), executor_factory)
    _show(restored, wanted.into, as_json)


def _show(restored: Restored, into: str, as_json: bool) -> None:
    origin, state, history = restored.origin, restored.state, restored.history
    if as_json:
        echo_json(
            {
                "former": restored.former.hex(),
                "cluster": origin.cluster.hex(),
                "position": origin.position,
                "state": None if state is None else {"pairs": state.pairs, "digests": dict(state.digests)},
                "history": None
                if history is None
                else {"start": history.config.start, "entries": history.verified.entries},
                "into": into,
            }
        )
        return
    click.echo(f"restored cluster {restored.former.hex()} up to position {origin.position}, for a new one: {into}")
    if state is not None:
        click.echo(f"the state of its database: {state.pairs:,} pairs")
    if history is not None:
        click.echo(f"its log from {history.config.start} on: {history.verified.entries:,} entries, compared")
    click.echo(
        f"start it: virtuallog up --restored {into} --data NEW{' --zookeeper PORT' if state is not None else ''}"
    )
