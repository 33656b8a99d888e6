"""The work of `virtuallog paxos-log`: run the replicated log by itself, as `mesos-log` does; show replicas.

Source: Mesos, `src/log/tool/`. docs/howto/paxos-log.md is its manual.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

import attrs
import click
import trio

from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos.messages import Status
from virtuallog_loglets.paxos.standalone.facade import open_log, open_replica
from virtuallog_loglets.paxos.standalone.log import Log
from virtuallog_loglets.paxos.standalone.writer import DATA_BYTES_MAX, LogWriter
from virtuallog_loglets.paxos.standalone.zookeeper_network import ZooKeeperMembership
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure, Unavailable
from virtuallog_server.cli.common.log_options import listed, tls_files
from virtuallog_server.cli.common.options import echo_json, read_own_cluster
from virtuallog_server.cli.paxos_log import records, replica_status
from virtuallog_server.cli.paxos_log.trace import Appended, Content, Total, entries, parse_trace, replay
from virtuallog_server.process import process
from virtuallog_server.process.end_signals import end_on_signal

OpenLog: TypeAlias = Callable[[], AbstractAsyncContextManager[Log]]
START_SECONDS: Final = 15.0
"""Timeout of the election of a writer, as in Mesos."""
APPEND_SECONDS: Final = 10.0
"""Timeout of an append, as in Mesos."""
RETRY_SECONDS: Final = 0.1
"""Pause between two elections, so that two writers do not displace each other for ever."""


def initialize(path: Path, timeout: float, as_json: bool) -> None:
    """Let the replica in a directory vote, although it knows nothing."""
    event_loop.run(_within, timeout, partial(_initialize, path))
    if as_json:
        echo_json({"path": str(path), "status": Status.VOTING.name})
    else:
        click.echo(f"{path}: {Status.VOTING.name}")


def read(path: Path, first: int | None, last: int | None, timeout: float, as_json: bool) -> None:
    """Print the records in the directory of a stopped replica."""
    event_loop.run(_within, timeout, partial(records.show, path, first, last, as_json))


def replica(open_own: OpenLog, as_json: bool) -> None:
    """Run a replica until a signal ends it."""
    event_loop.run(_replica, open_own, as_json)


def benchmark(
    settings: dict[str, Any], trace: TextIO, output: TextIO | None, content: str, outstanding: int, as_json: bool
) -> None:
    """Run a replica, append the entries of a trace, and print the totals."""
    sizes = parse_trace(trace, DATA_BYTES_MAX)
    payloads = entries(sizes, Content(content), random.Random())
    sys.setswitchinterval(process.SWITCH_SECONDS)
    total = event_loop.run(_benchmark, opener(settings), payloads, output, outstanding)
    if as_json:
        echo_json(attrs.asdict(total))
    else:
        click.echo(f"Total number of appends: {total.appends}")
        click.echo(f"Total time used: {total.seconds:.6f} s")


def status(
    path: Path | None, peers: str | None, name: str, cluster: Path | None, files: Mapping[str, Path | None],
    as_json: bool,
) -> None:  # fmt: skip
    """Print the positions of replicas: of the one in `path`, else of `peers`, else of all in the cluster.

    Raises:
        Unavailable: no replica answers.
    """
    if path is not None:
        rows = event_loop.run(replica_status.of_path, path)
    elif peers is not None:
        rows = event_loop.run(replica_status.of_peers, listed(peers), name, tls_files(files))
    else:
        assert cluster is not None
        rows = event_loop.run(replica_status.of_cluster, read_own_cluster(cluster))
    if as_json:
        echo_json({"replicas": rows})
    else:
        replica_status.show(rows)
    if rows and all(row["status"] == replica_status.SILENT for row in rows):
        raise Unavailable("no replica answers")


def opener(settings: dict[str, Any]) -> OpenLog:
    """A function that opens the log which the options describe.

    Raises:
        click.UsageError: options are missing.
    """
    servers, znode, auth = (settings.pop(name) for name in ("servers", "znode", "auth"))
    if (servers is None) != (znode is None):
        raise click.UsageError("--servers and --znode go together")
    if servers is not None:
        scheme, _, credential = (auth or "").partition(":")
        given = (scheme, credential) if auth else None
        settings["zookeeper"] = ZooKeeperMembership(servers=servers, znode=znode, auth=given)
    settings["peers"] = listed(settings["peers"])
    settings["tls"] = tls_files({name: settings.pop(name) for name in ("certificate", "key", "authority")})
    settings["auto_initialize"] = settings.pop("initialize")
    return partial(open_log, settings.pop("path"), **settings)


async def _within(seconds: float, action: Callable[[], Awaitable[None]]) -> None:
    with SystemClock().timeout(seconds) as scope:
        await action()
    if scope.cancelled_caught:
        raise Unavailable(f"not done within {seconds:g} s")


async def _initialize(path: Path) -> None:
    async with open_replica(path) as replica:
        if replica.core.status is not Status.EMPTY:
            raise Failure(f"The log is not empty: its replica is {replica.core.status.name}")
        await replica.adopt(Status.VOTING)


async def _replica(open_own: OpenLog, as_json: bool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_on_signal, nursery.cancel_scope)
        async with open_own() as log:
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


async def _benchmark(open_own: OpenLog, payloads: Iterator[bytes], output: TextIO | None, outstanding: int) -> Total:
    def tell(appended: Appended) -> None:
        if output is not None:
            output.write(f"{appended}\n")

    async with open_own() as log:
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
