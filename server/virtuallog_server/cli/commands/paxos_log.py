"""`virtuallog paxos-log`: the replicated log used by itself, as `mesos-log` is; and the status of replicas, also those of a virtual log.

Source: Mesos, `src/log/tool/`. docs/howto/paxos-log.md is its manual.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from virtuallog_server.cli.common.limits import PAXOS_CONTENTS, PAXOS_OUTSTANDING_MAX
from virtuallog_server.cli.common.log_options import path_option, timeout_option, tls_options
from virtuallog_server.cli.common.options import json_option

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group(name="paxos-log")
def paxos_log() -> None:
    """The replicated log of Mesos, used by itself."""


def _log_options(command: CommandT) -> CommandT:
    """The settings of a replica (`virtuallog_server.cli.paxos_log.paxos_log_job.opener`)."""
    options = (
        click.option("--quorum", required=True, type=click.IntRange(1), help="Number of replicas that decide."),
        path_option,
        click.option("--id", "node", default=1, show_default=True, type=click.IntRange(1), help="Number of this replica."),
        click.option("--peers", metavar="ID@HOST:PORT,...", help="The replicas."),
        click.option("--listen", metavar="HOST:PORT", help="Address to listen on.  [default: as --peers says]"),
        click.option("--servers", metavar="HOST:PORT,...", help="ZooKeeper, to find the other replicas."),
        click.option("--znode", metavar="PATH", help="Znode under which they are registered."),
        click.option("--auth", metavar="SCHEME:CREDENTIAL", envvar="VIRTUALLOG_ZOOKEEPER_AUTH", show_envvar=True,
                     help="Credential for ZooKeeper, such as digest:user:password."),
        click.option("--name", default="log", show_default=True, help="Name of the log."),
        click.option("--initialize/--no-initialize", default=True, show_default=True,
                     help="Found the log if no replica knows one."),
    )  # fmt: skip
    for option in reversed((*options, tls_options)):
        command = option(command)
    return command


@paxos_log.command()
@path_option
@timeout_option
@json_option
def initialize(path: Path, timeout: float, as_json: bool) -> None:
    """Let the replica in a directory vote, although it knows nothing.

    Only when the log is founded, on each of its replicas, with none running: a replica that has lost its directory must
    not vote before it has recovered.

    \b
    Example:
        virtuallog paxos-log initialize --path data/1
    """
    from virtuallog_server.cli.paxos_log import paxos_log_job as work

    work.initialize(path, timeout, as_json)


@paxos_log.command()
@partial(path_option, exists=True)
@click.option("--from", "first", type=click.IntRange(0), help="First position.  [default: the beginning]")
@click.option("--to", "last", type=click.IntRange(0), help="Last position.  [default: the end]")
@timeout_option
@json_option
def read(path: Path, first: int | None, last: int | None, timeout: float, as_json: bool) -> None:
    """Print the records in the directory of a stopped replica.

    Positions that are not known to be decided are marked.

    \b
    Example:
        virtuallog paxos-log read --path data/1 --from 1
    """
    if first is not None and last is not None and last < first:
        raise click.UsageError(f"--to {last} is below --from {first}: the range is reversed")
    from virtuallog_server.cli.paxos_log import paxos_log_job as work

    work.read(path, first, last, timeout, as_json)


@paxos_log.command()
@_log_options
@json_option
def replica(as_json: bool, **settings: Any) -> None:
    """Run a replica until Ctrl-C or SIGTERM.

    \b
    Examples:
        virtuallog paxos-log replica --quorum 1 --path data/1
        virtuallog paxos-log replica --quorum 2 --path data/1 --id 1 --peers 1@127.0.0.1:5051,2@127.0.0.1:5052,3@127.0.0.1:5053
        virtuallog paxos-log replica --quorum 2 --path data/1 --id 1 --servers 127.0.0.1:2181 --znode /log
    """
    from virtuallog_server.cli.paxos_log import paxos_log_job as work

    work.replica(work.opener(settings), as_json)


@paxos_log.command()
@_log_options
@click.option(
    "--input", "trace", required=True, type=click.File("r"), help="The trace: a size per line, such as 100B or 2MB."
)
@click.option("--output", type=click.File("w", lazy=False), help="A line for each append: time, bytes, ms.")
@click.option("--type", "content", default="random", show_default=True, type=click.Choice(PAXOS_CONTENTS),
              help="Bytes of the entries.")  # fmt: skip
@click.option("--outstanding", default=1, show_default=True, type=click.IntRange(1, PAXOS_OUTSTANDING_MAX),
              help="Appends in progress at a time.")  # fmt: skip
@json_option
def benchmark(
    trace: TextIO, output: TextIO | None, content: str, outstanding: int, as_json: bool, **settings: Any
) -> None:
    """Be a replica, and append the entries of a trace.

    \b
    Example:
        seq 1000 | sed 's/.*/100B/' | virtuallog paxos-log benchmark --quorum 1 --path data/1 --input -
    """
    from virtuallog_server.cli.paxos_log import paxos_log_job as work

    work.benchmark(settings, trace, output, content, outstanding, as_json)


@paxos_log.command()
@click.option(
    "--path", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Directory of a stopped replica."
)
@click.option("--peers", metavar="ID@HOST:PORT,...", help="Replicas of a log used by itself.")
@click.option("--name", default="log", show_default=True, help="Name of that log.")
@tls_options
@click.option("--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
              type=click.Path(path_type=Path, dir_okay=False), help="The paxos loglets of a virtual log.")  # fmt: skip
@json_option
def status(
    path: Path | None, peers: str | None, name: str, cluster: Path | None, as_json: bool, **files: Path | None
) -> None:
    """Show the positions of each replica. Exit code 3: none of them answers.

    \b
    Examples:
        virtuallog paxos-log status --path data/1
        virtuallog paxos-log status --peers 1@127.0.0.1:5051,2@127.0.0.1:5052,3@127.0.0.1:5053
        virtuallog paxos-log status --cluster cluster.toml
    """
    if path is None and peers is None and cluster is None:
        raise click.UsageError("name a directory (--path), replicas (--peers) or a cluster (--cluster)")
    from virtuallog_server.cli.paxos_log import paxos_log_job as work

    work.status(path, peers, name, cluster, files, as_json)
