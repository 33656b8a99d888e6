"""`virtuallog raft-log`: a Raft log used by itself. docs/howto/raft-log.md is its manual."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from virtuallog_server.cli.common.limits import PAXOS_CONTENTS, POSITION_MAX, RAFT_OUTSTANDING_MAX
from virtuallog_server.cli.common.log_options import path_option, timeout_option, tls_options
from virtuallog_server.cli.common.options import json_option

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_STORE = click.IntRange(1, POSITION_MAX)
_store_path = partial(path_option, owner="the store")
_stopped_path = click.option(
    "--path", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Directory of a stopped store."
)


@click.group(name="raft-log")
def raft_log() -> None:
    """A Raft log, used by itself."""


def _name_option(command: CommandT) -> CommandT:
    return click.option("--name", default="log", show_default=True, help="Name of the log.")(command)


def _client_options(command: CommandT, *, required: bool = True) -> CommandT:
    """The settings of a client (`virtuallog_server.cli.raft_log.raft_log_job.opener`)."""
    command = json_option(tls_options(command, certificate="Certificate of this client."))
    return click.option(
        "--peers", required=required, metavar="[STORE@]HOST:PORT,...", help="Some stores of the log."
    )(_name_option(command))  # fmt: skip


def _seen_option(command: CommandT) -> CommandT:
    return click.option(
        "--seen", type=click.IntRange(0, POSITION_MAX), metavar="INDEX",
        help="Index of the members that you have seen (status).  [default: that of now]",
    )(command)  # fmt: skip


@raft_log.command()
@_store_path
@click.option("--listen", required=True, metavar="HOST:PORT", help="Address at which the members reach this store.")
@click.option("--found/--join", "founds", default=True, show_default=True,
              help="Found a log with this store as its only voter, or wait until a log adds it.")  # fmt: skip
@_name_option
@timeout_option
@json_option
def initialize(path: Path, listen: str, founds: bool, name: str, timeout: float, as_json: bool) -> None:
    """Format a directory as a store, and draw its number.

    A log is founded once, by its first store. All others join: they are added while it runs.

    \b
    Examples:
        virtuallog raft-log initialize --path data/1 --listen 127.0.0.1:5051
        virtuallog raft-log initialize --path data/2 --listen 127.0.0.1:5052 --join
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.initialize(path, listen, founds, name, timeout, as_json)


@raft_log.command()
@_store_path
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on.  [default: that of the store]")
@tls_options
@json_option
def replica(path: Path, listen: str | None, as_json: bool, **files: Path | None) -> None:
    """Run the replica of a store until Ctrl-C or SIGTERM.

    \b
    Example:
        virtuallog raft-log replica --path data/1
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.replica(path, listen, files, as_json)


@raft_log.command()
@_stopped_path
@partial(_client_options, required=False)
@click.option("--store", type=_STORE, help="Store to read from.  [default: the leader]")
@click.option("--linearizable", is_flag=True, help="Wait until that store knows all that was acknowledged before.")
@click.option(
    "--from", "first", default=0, show_default=True, type=click.IntRange(0, POSITION_MAX), help="First offset."
)
@click.option("--to", "last", type=click.IntRange(0, POSITION_MAX), help="Last offset.  [default: the end]")
def read(
    path: Path | None, peers: str | None, store: int | None, linearizable: bool, first: int, last: int | None,
    as_json: bool, name: str, **files: Path | None,
) -> None:  # fmt: skip
    """Print the entries of a log, or the records in the directory of a stopped store.

    A store gives what it knows to be committed; that may be less than the leader knows. Records in a directory that are not
    known to be committed are marked.

    \b
    Examples:
        virtuallog raft-log read --peers 127.0.0.1:5051 --from 1
        virtuallog raft-log read --peers 127.0.0.1:5051 --linearizable
        virtuallog raft-log read --path data/1
    """
    if (path is None) == (peers is None):
        raise click.UsageError("name either a directory (--path) or stores (--peers)")
    if last is not None and last < first:
        raise click.UsageError(f"--to {last} is below --from {first}: the range is reversed")
    if path is not None and (store is not None or linearizable):
        raise click.UsageError("--store and --linearizable go with --peers")
    from virtuallog_server.cli.raft_log import raft_log_job as work

    if path is not None:
        work.read_directory(path, first, last, as_json)
    else:
        work.read(work.opener(peers, name, files), first, last, store, linearizable, as_json)


@raft_log.command()
@click.argument("payload", required=False)
@click.option("--lines", type=click.File("rb"), metavar="FILE", help="One entry per line of FILE; - is stdin.")
@_client_options
def append(
    payload: str | None, lines: Any, peers: str, name: str, as_json: bool, **files: Path | None
) -> None:  # fmt: skip
    """Append PAYLOAD as one entry, or each line of a file as one, and print their offsets.

    Each is in the log once, durable on a majority of the voters. Exit code 3: the last one may be in the log, or not.

    \b
    Examples:
        virtuallog raft-log append "hello" --peers 127.0.0.1:5051,127.0.0.1:5052
        seq 100 | virtuallog raft-log append --lines - --peers 127.0.0.1:5051
    """
    if (payload is None) == (lines is None):
        raise click.UsageError("give either a PAYLOAD or --lines FILE")
    from virtuallog_server.cli.raft_log import raft_log_job as work

    payloads = (line.removesuffix(b"\n") for line in lines) if payload is None else iter((payload.encode(),))
    work.append(work.opener(peers, name, files), payloads, as_json)


@raft_log.command()
@click.argument("offset", type=click.IntRange(0, POSITION_MAX))
@_client_options
def trim(offset: int, peers: str, name: str, as_json: bool, **files: Path | None) -> None:
    """Drop all entries below OFFSET, for good. A store that does not answer keeps its own until a later trim.

    \b
    Example:
        virtuallog raft-log trim 1000 --peers 127.0.0.1:5051
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.trim(work.opener(peers, name, files), offset, as_json)


@raft_log.command()
@_stopped_path
@partial(_client_options, required=False)
def status(path: Path | None, peers: str | None, name: str, as_json: bool, **files: Path | None) -> None:
    """Show role, state, term, commit index and lag of each store. Exit code 3: none of them answers.

    Roles: LEADER, FOLLOWER, CANDIDATE, LEARNER, NON_PARTICIPANT. States: BOOTSTRAPPING (it reads its records), CONFIGURING
    (it waits for a leader), RUNNING.

    \b
    Examples:
        virtuallog raft-log status --peers 127.0.0.1:5051,127.0.0.1:5052
        virtuallog raft-log status --path data/1
    """
    if (path is None) == (peers is None):
        raise click.UsageError("name either a directory (--path) or stores (--peers)")
    from virtuallog_server.cli.raft_log import raft_log_job as work

    if path is not None:
        work.status_of_directory(path, as_json)
    else:
        work.status(work.opener(peers, name, files), as_json)


@raft_log.command()
@click.argument("store", metavar="STORE@HOST:PORT")
@click.option("--observer", is_flag=True, help="It receives everything and never votes.")
@_seen_option
@_client_options
def add(
    store: str, observer: bool, seen: int | None, peers: str, name: str, as_json: bool, **files: Path | None
) -> None:  # fmt: skip
    """Add a store that has joined no log. It becomes a voter once it has caught up.

    \b
    Example:
        virtuallog raft-log add 4611686018427387904@127.0.0.1:5052 --peers 127.0.0.1:5051
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.add(work.opener(peers, name, files), store, observer, seen, as_json)


@raft_log.command()
@click.argument("store", type=_STORE)
@_seen_option
@_client_options
def remove(store: int, seen: int | None, peers: str, name: str, as_json: bool, **files: Path | None) -> None:
    """Remove a store, for good. The leader cannot be removed: transfer the leadership first.

    \b
    Example:
        virtuallog raft-log remove 4611686018427387904 --peers 127.0.0.1:5051
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.remove(work.opener(peers, name, files), store, seen, as_json)


@raft_log.command()
@click.argument("store", type=_STORE)
@_client_options
def transfer(store: int, peers: str, name: str, as_json: bool, **files: Path | None) -> None:
    """Have another voter lead.

    \b
    Example:
        virtuallog raft-log transfer 4611686018427387904 --peers 127.0.0.1:5051
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.transfer(work.opener(peers, name, files), store, as_json)


@raft_log.command()
@click.option(
    "--input", "trace", required=True, type=click.File("r"), help="The trace: a size per line, such as 100B or 2MB."
)
@click.option("--output", type=click.File("w", lazy=False), help="A line for each append: time, bytes, ms.")
@click.option("--type", "content", default="random", show_default=True, type=click.Choice(PAXOS_CONTENTS),
              help="Bytes of the entries.")  # fmt: skip
@click.option("--outstanding", default=1, show_default=True, type=click.IntRange(1, RAFT_OUTSTANDING_MAX),
              help="Appends in progress at a time.")  # fmt: skip
@_client_options
def benchmark(
    trace: TextIO, output: TextIO | None, content: str, outstanding: int, peers: str, name: str, as_json: bool,
    **files: Path | None,
) -> None:  # fmt: skip
    """Append the entries of a trace.

    \b
    Example:
        seq 1000 | sed 's/.*/100B/' | virtuallog raft-log benchmark --peers 127.0.0.1:5051 --input -
    """
    from virtuallog_server.cli.raft_log import raft_log_job as work

    work.benchmark(work.opener(peers, name, files), trace, output, content, outstanding, as_json)
