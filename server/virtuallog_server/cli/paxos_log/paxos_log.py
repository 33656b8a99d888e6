"""`virtuallog paxos-log`: the replicated log used by itself, as `mesos-log` is; and a look at replicas, whoever uses them.

Source: Mesos, `src/log/tool/`. docs/howto/paxos-log.md is its manual.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias, TypeVar

import attrs
import click
import trio

from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos.messages import Status
from virtuallog_loglets.paxos.standalone.facade import open_log, open_replica
from virtuallog_loglets.paxos.standalone.log import OUTSTANDING_MAX, Log
from virtuallog_loglets.paxos.standalone.writer import DATA_BYTES_MAX, LogWriter
from virtuallog_loglets.paxos.standalone.zookeeper_network import ZooKeeperMembership
from virtuallog_server.cli.common.failures import Failure, Unavailable
from virtuallog_server.cli.common.options import echo_json, json_option, read_own_cluster
from virtuallog_server.cli.paxos_log import records, replica_status
from virtuallog_server.cli.paxos_log.trace import Appended, Content, Total, entries, parse_trace, replay
from virtuallog_server.process import process

_Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Log]]
CommandT = TypeVar("CommandT", bound=Callable[..., Any])
START_SECONDS: Final = 15.0
"""For a writer to be elected, and 10 s for an append, as in Mesos."""
APPEND_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.1
"""Between two elections, so that two writers do not turn each other out for ever."""


@click.group(name="paxos-log")
def paxos_log() -> None:
    """The replicated log of Mesos, used by itself."""


def _path_option(command: CommandT, *, exists: bool = False) -> CommandT:
    kind = click.Path(path_type=Path, file_okay=False, exists=exists)
    return click.option("--path", required=True, type=kind, help="Directory of the replica.")(command)


def _timeout_option(command: CommandT) -> CommandT:
    return click.option("--timeout", default=10.0, show_default=True, type=click.FloatRange(0.1), help="Seconds.")(
        command
    )


def _tls_options(command: CommandT) -> CommandT:
    """Files to prove who we are with; `_tls` makes one value of them."""
    for name, what in (
        ("authority", "Whom to believe."),
        ("key", "Its key."),
        ("certificate", "Ours, as of a node of this number. Without it, this machine alone."),
    ):
        command = click.option(
            f"--{name}", envvar=f"VIRTUALLOG_{name.upper()}", show_envvar=True, metavar="FILE", help=what,
            type=click.Path(path_type=Path, dir_okay=False),
        )(command)  # fmt: skip
    return command


def _log_options(command: CommandT) -> CommandT:
    """What a replica needs to know; `_opened` makes a log of it."""
    options = (
        click.option("--quorum", required=True, type=click.IntRange(1), help="How many replicas decide."),
        _path_option,
        click.option("--id", "node", default=1, show_default=True, type=click.IntRange(1), help="Number of this replica."),
        click.option("--peers", metavar="ID@HOST:PORT,...", help="The replicas."),
        click.option("--listen", metavar="HOST:PORT", help="Where to be reached.  [default: as --peers says]"),
        click.option("--servers", metavar="HOST:PORT,...", help="ZooKeeper, to find the other replicas."),
        click.option("--znode", metavar="PATH", help="Where in ZooKeeper they are registered."),
        click.option("--auth", metavar="SCHEME:CREDENTIAL", envvar="VIRTUALLOG_ZOOKEEPER_AUTH", show_envvar=True,
                     help="To show ZooKeeper, such as digest:user:password."),
        click.option("--name", default="log", show_default=True, help="Of the log."),
        click.option("--initialize/--no-initialize", default=True, show_default=True,
                     help="Found the log if no replica knows one."),
    )  # fmt: skip
    for option in reversed((*options, _tls_options)):
        command = option(command)
    return command


@paxos_log.command()
@_path_option
@_timeout_option
@json_option
def initialize(path: Path, timeout: float, as_json: bool) -> None:
    """Make the replica in a directory vote, though it knows nothing.

    Only when the log is founded, on each of its replicas, with none running: a replica that has lost its directory must
    not vote before it has recovered.

    \b
    Example:
        virtuallog paxos-log initialize --path data/1
    """
    trio.run(_within, timeout, partial(_initialize, path))
    if as_json:
        echo_json({"path": str(path), "status": Status.VOTING.name})
    else:
        click.echo(f"{path}: {Status.VOTING.name}")


@paxos_log.command()
@partial(_path_option, exists=True)
@click.option("--from", "first", type=click.IntRange(0), help="First position.  [default: the beginning]")
@click.option("--to", "last", type=click.IntRange(0), help="Last position.  [default: the end]")
@_timeout_option
@json_option
def read(path: Path, first: int | None, last: int | None, timeout: float, as_json: bool) -> None:
    """Print what a replica that is not running has in its directory.

    Positions that are not known to be decided are told as such.

    \b
    Example:
        virtuallog paxos-log read --path data/1 --from 1
    """
    if first is not None and last is not None and last < first:
        raise click.UsageError(f"--to {last} is below --from {first}: the range is reversed")
    trio.run(_within, timeout, partial(records.show, path, first, last, as_json))


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
    trio.run(_replica, _opened(settings), as_json)


@paxos_log.command()
@_log_options
@click.option(
    "--input", "trace", required=True, type=click.File("r"), help="The trace: a size per line, such as 100B or 2MB."
)
@click.option("--output", type=click.File("w", lazy=False), help="A line for each append: time, bytes, ms.")
@click.option("--type", "content", default="random", show_default=True, type=click.Choice([each.value for each in Content]),
              help="What entries are made of.")  # fmt: skip
@click.option("--outstanding", default=1, show_default=True, type=click.IntRange(1, OUTSTANDING_MAX),
              help="Appends under way at a time.")  # fmt: skip
@json_option
def benchmark(
    trace: TextIO, output: TextIO | None, content: str, outstanding: int, as_json: bool, **settings: Any
) -> None:
    """Be a replica, and append what a trace says.

    \b
    Example:
        seq 1000 | sed 's/.*/100B/' | virtuallog paxos-log benchmark --quorum 1 --path data/1 --input -
    """
    sizes = parse_trace(trace, DATA_BYTES_MAX)
    payloads = entries(sizes, Content(content), random.Random())
    sys.setswitchinterval(process.SWITCH_SECONDS)
    total = trio.run(_benchmark, _opened(settings), payloads, output, outstanding)
    if as_json:
        echo_json(attrs.asdict(total))
    else:
        click.echo(f"Total number of appends: {total.appends}")
        click.echo(f"Total time used: {total.seconds:.6f} s")


@paxos_log.command()
@click.option(
    "--path", type=click.Path(path_type=Path, file_okay=False, exists=True), help="A replica that does not run."
)
@click.option("--peers", metavar="ID@HOST:PORT,...", help="A log used by itself.")
@click.option("--name", default="log", show_default=True, help="Of that log.")
@_tls_options
@click.option("--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
              type=click.Path(path_type=Path, dir_okay=False), help="The paxos loglets of a virtual log.")  # fmt: skip
@json_option
def status(
    path: Path | None, peers: str | None, name: str, cluster: Path | None, as_json: bool, **files: Path | None
) -> None:
    """Show how far each replica is. Exit code 3: none of them answers.

    \b
    Examples:
        virtuallog paxos-log status --path data/1
        virtuallog paxos-log status --peers 1@127.0.0.1:5051,2@127.0.0.1:5052,3@127.0.0.1:5053
        virtuallog paxos-log status --cluster cluster.toml
    """
    if path is not None:
        rows = trio.run(replica_status.of_path, path)
    elif peers is not None:
        rows = trio.run(replica_status.of_peers, _listed(peers), name, _tls(files))
    elif cluster is not None:
        rows = trio.run(replica_status.of_cluster, read_own_cluster(cluster))
    else:
        raise click.UsageError("name a directory (--path), replicas (--peers) or a cluster (--cluster)")
    if as_json:
        echo_json({"replicas": rows})
    else:
        replica_status.show(rows)
    if rows and all(row["status"] == replica_status.SILENT for row in rows):
        raise Unavailable("no replica answers")


# -- logs of the options ----------------------------------------------------------------------------------------------


def _opened(settings: dict[str, Any]) -> _Opened:
    """What opens the log that the options describe."""
    servers, znode, auth = (settings.pop(name) for name in ("servers", "znode", "auth"))
    if (servers is None) != (znode is None):
        raise click.UsageError("--servers and --znode go together")
    if servers is not None:
        scheme, _, credential = (auth or "").partition(":")
        given = (scheme, credential) if auth else None
        settings["zookeeper"] = ZooKeeperMembership(servers=servers, znode=znode, auth=given)
    settings["peers"] = _listed(settings["peers"])
    settings["tls"] = _tls({name: settings.pop(name) for name in ("certificate", "key", "authority")})
    settings["auto_initialize"] = settings.pop("initialize")
    return partial(open_log, settings.pop("path"), **settings)


def _tls(files: Mapping[str, Path | None]) -> TlsFiles | None:
    given = {name: path for name, path in files.items() if path is not None}
    if given and len(given) < len(files):
        raise click.UsageError("--certificate, --key and --authority go together")
    return TlsFiles(**given) if given else None


def _listed(peers: str | None) -> list[str]:
    return [part.strip() for part in peers.split(",")] if peers else []


async def _within(seconds: float, action: Callable[[], Awaitable[None]]) -> None:
    with SystemClock().timeout(seconds) as scope:
        await action()
    if scope.cancelled_caught:
        raise Unavailable(f"not done within {seconds:g} s")


# -- what the commands do ---------------------------------------------------------------------------------------------


async def _initialize(path: Path) -> None:
    async with open_replica(path) as replica:
        if replica.core.status is not Status.EMPTY:
            raise Failure(f"The log is not empty: its replica is {replica.core.status.name}")
        await replica.adopt(Status.VOTING)


async def _replica(opened: _Opened, as_json: bool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.end_on_signal, nursery.cancel_scope)
        async with opened() as log:
            own = log.own
            _tell(as_json, "listening", f"replica {own.node} at {own.address}", node=own.node, address=own.address)
            await log.recovered()
            _tell(as_json, "recovered", f"replica {own.node} votes", node=own.node)
            raise await log.ended()


def _tell(as_json: bool, event: str, text: str, **more: object) -> None:
    if as_json:
        echo_json({"event": event, **more})
    else:
        click.echo(text)


async def _benchmark(opened: _Opened, payloads: Iterator[bytes], output: TextIO | None, outstanding: int) -> Total:
    def tell(appended: Appended) -> None:
        if output is not None:
            output.write(f"{appended}\n")

    async with opened() as log:
        writer = await _started(log, outstanding)
        return await replay(
            writer.append, payloads, SystemClock(), tell, outstanding=outstanding, append_seconds=APPEND_SECONDS
        )


async def _started(log: Log, outstanding: int) -> LogWriter:
    writer, clock = LogWriter(log, outstanding), SystemClock()
    with clock.timeout(START_SECONDS):
        while await writer.start() is None:
            await clock.sleep(RETRY_SECONDS)
        return writer
    raise Unavailable(f"no writer could start within {START_SECONDS:g} s")
