"""The work of `virtuallog raft-log`: format stores, run replicas, append, read, change the members."""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TextIO, TypeAlias, TypeVar

import attrs
import click
import trio

from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import NodeId
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.raft.messages import LogMembership
from virtuallog_loglets.raft.standalone.client import LogClient
from virtuallog_loglets.raft.standalone.facade import initialize as format_directory
from virtuallog_loglets.raft.standalone.facade import open_client, open_log
from virtuallog_loglets.raft.standalone.member_book import parse_peer
from virtuallog_loglets.raft.standalone.member_status import SILENT
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Unavailable
from virtuallog_server.cli.common.log_options import listed, tls_files
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.cli.paxos_log.trace import Appended, Content, Total, entries, parse_trace, replay
from virtuallog_server.cli.raft_log import output
from virtuallog_server.process import process
from virtuallog_server.process.end_signals import end_on_signal

OpenClient: TypeAlias = Callable[[], AbstractAsyncContextManager[LogClient]]
ResultT = TypeVar("ResultT")


def opener(peers: str | None, name: str, files: Mapping[str, Path | None]) -> OpenClient:
    """A function that opens the client which the options describe.

    Raises:
        click.UsageError: options are missing.
    """
    return partial(open_client, listed(peers), name, tls_files(files))


# -- stores -----------------------------------------------------------------------------------------------------------


def initialize(path: Path, listen: str, founds: bool, name: str, timeout: float, as_json: bool) -> None:
    """Format a directory as a store."""

    async def work() -> None:
        with SystemClock().timeout(timeout) as scope:
            identity = await format_directory(path, address=listen, founds=founds, name=name)
            if as_json:
                echo_json({"path": str(path), "store": identity.store, "address": listen, "founds": founds})
            else:
                what = f"founds log '{name}'" if founds else f"can be added to log '{name}'"
                click.echo(f"{path}: store {identity.store} {what}")
        if scope.cancelled_caught:
            raise Unavailable(f"not done within {timeout:g} s")

    event_loop.run(work)


def replica(path: Path, listen: str | None, files: Mapping[str, Path | None], as_json: bool) -> None:
    """Run the replica of a store until a signal ends it."""
    sys.setswitchinterval(process.SWITCH_SECONDS)
    event_loop.run(_replica, path, listen, tls_files(files), as_json)


async def _replica(path: Path, listen: str | None, tls: TlsFiles | None, as_json: bool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_on_signal, nursery.cancel_scope)
        async with open_log(path, listen=listen, tls=tls) as log:
            store, address = log.store, listen or log.identity.address
            _tell(as_json, f"store {store} at {address}", event="listening", store=store, address=address)
            await log.running()
            _tell(as_json, f"store {store} runs", event="running", store=store)
            raise await log.ended()


def read_directory(path: Path, first: int, last: int | None, as_json: bool) -> None:
    """Print the records in the directory of a stopped store."""
    event_loop.run(output.show_directory, path, first, last, as_json)


def status_of_directory(path: Path, as_json: bool) -> None:
    """Print the state of a stopped store."""
    row = event_loop.run(output.row_of_directory, path)
    if as_json:
        echo_json({"stores": [row]})
    else:
        output.show_rows([row])


# -- entries ----------------------------------------------------------------------------------------------------------


def read(
    open_own: OpenClient, first: int, last: int | None, store: int | None, linearizable: bool, as_json: bool
) -> None:
    """Print the entries of a log."""

    async def work(client: LogClient) -> None:
        stop = None if last is None else last + 1
        source = None if store is None else NodeId(store)
        for entry in await client.read(first, stop, store=source, linearizable=linearizable):
            output.show({"offset": entry.offset, **output.data(entry.data)}, as_json)

    _with(open_own, work)


def append(open_own: OpenClient, payloads: Iterator[bytes], as_json: bool) -> None:
    """Append entries, one after the other, and print their offsets."""

    async def work(client: LogClient) -> None:
        for payload in payloads:
            output.show({"offset": await client.append(payload)}, as_json)

    _with(open_own, work)


def trim(open_own: OpenClient, offset: int, as_json: bool) -> None:
    """Drop the entries below an offset."""
    _with(open_own, lambda client: client.trim(offset))
    _tell(as_json, f"entries below {offset} are dropped", trim=offset)


def benchmark(
    open_own: OpenClient, trace: TextIO, lines: TextIO | None, content: str, outstanding: int, as_json: bool
) -> None:
    """Append the entries of a trace, and print the totals."""
    payloads = entries(parse_trace(trace, ENTRY_BYTES_MAX), Content(content), random.Random())
    sys.setswitchinterval(process.SWITCH_SECONDS)

    def tell(appended: Appended) -> None:
        if lines is not None:
            lines.write(f"{appended}\n")

    async def work(client: LogClient) -> Total:
        return await replay(client.append, payloads, SystemClock(), tell, outstanding=outstanding)

    total = _with(open_own, work)
    if as_json:
        echo_json(attrs.asdict(total))
    else:
        click.echo(f"Total number of appends: {total.appends}")
        click.echo(f"Total time used: {total.seconds:.6f} s")


# -- members ----------------------------------------------------------------------------------------------------------


def status(open_own: OpenClient, as_json: bool) -> None:
    """Print the standing of each store.

    Raises:
        Unavailable: no store answers.
    """
    rows = [output.row_of(row) for row in _with(open_own, lambda client: client.status())]
    if as_json:
        echo_json({"stores": rows})
    else:
        output.show_rows(rows)
    if all(row["role"] == SILENT for row in rows):
        raise Unavailable("no store answers")


def add(open_own: OpenClient, peer: str, observer: bool, seen: int | None, as_json: bool) -> None:
    """Add a store."""
    store, address = parse_peer(peer)
    if store is None:
        raise InvalidSettingError("store", f"'{peer}' is not store@host:port: `initialize` has told its number")
    _show(_with(open_own, lambda client: client.add(store, address, observer=observer, seen=seen)), as_json)


def remove(open_own: OpenClient, store: int, seen: int | None, as_json: bool) -> None:
    """Remove a store."""
    _show(_with(open_own, lambda client: client.remove(NodeId(store), seen=seen)), as_json)


def transfer(open_own: OpenClient, store: int, as_json: bool) -> None:
    """Have another voter lead."""
    _with(open_own, lambda client: client.transfer(NodeId(store)))
    _tell(as_json, f"store {store} leads", leader=store)


def _show(view: LogMembership, as_json: bool) -> None:
    rows = output.member_rows(view)
    if as_json:
        echo_json({"index": view.index, "members": rows})
    else:
        click.echo(f"members since record {view.index}:")
        for row in rows:
            click.echo("  " + "  ".join(str(value) for value in row.values()))


def _tell(as_json: bool, text: str, **fields: object) -> None:
    if as_json:
        echo_json(fields)
    else:
        click.echo(text)


def _with(open_own: OpenClient, work: Callable[[LogClient], Awaitable[ResultT]]) -> ResultT:
    async def run() -> ResultT:
        async with open_own() as client:
            return await work(client)

    return event_loop.run(run)
