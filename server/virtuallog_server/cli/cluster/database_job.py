"""The work of `virtuallog database`. A server of the database carries it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import click

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.errors import UnavailableError, UnsupportedError, UntrustedError, VirtualLogError
from virtuallog.contract.ports import Outcome, ReplyT, Request
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.node_services import newest_register, open_services_to
from virtuallog_database.control import client
from virtuallog_database.control.messages import (
    CompareChecksums,
    DatabaseStatus,
    EjectReplica,
    PlaceHold,
    RawWrite,
    ReleaseHold,
    SetEngine,
    WriteRaw,
)
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.database.ownership import put_guard
from virtuallog_server.diagnosis.core.database import DatabaseFacts, findings, problems
from virtuallog_server.diagnosis.database_collector import gather_database

REFUSED: Final = "refused"
"""State of a replica whose role is closed for good on its node."""


def status(cluster: ClusterFile, as_json: bool) -> None:
    """Print the state of all replicas, and what is wrong.

    Raises:
        click.exceptions.Exit: something is wrong.
    """
    facts = event_loop.run(_ask_all, cluster)
    rows = {node: _plain(facts.answers.get(node)) for node in facts.concerned}
    lacking = problems(findings(facts))
    if as_json:
        echo_json({"replicas": [{"node": node, **row} for node, row in rows.items()], "problems": lacking})
    else:
        _show(rows, lacking)
    if lacking or any(row["state"] == REFUSED for row in rows.values()):
        raise click.exceptions.Exit(FAILED)


def _show(rows: Mapping[NodeId, Mapping[str, Any]], lacking: Sequence[str]) -> None:
    from rich.console import Console  # takes longer than to ask the cluster
    from rich.table import Table

    table, console = Table(), Console()
    columns = ("state", "cursor", "known_tail", "snapshot", "zxid", "clients")
    for column in ("node", *columns):
        table.add_column(column.replace("_", " "), justify="left" if column == "state" else "right")
    for node, row in rows.items():
        table.add_row(str(node), *(str(row.get(column, "")) for column in columns))
    console.print(table)
    for line in [*_needs(rows), *lacking]:
        console.print(line, soft_wrap=True, markup=False)


def hold(cluster: ClusterFile, name: str, position: int, seconds: float) -> None:
    """Place or renew a hold on the log; it is dropped after `seconds`, or never if that is 0."""
    _do(cluster, PlaceHold(name=name, position=position, milliseconds=round(seconds * 1000)))


def release(cluster: ClusterFile, name: str) -> None:
    """Drop a hold."""
    _do(cluster, ReleaseHold(name))


def eject(cluster: ClusterFile, replica: str) -> None:
    """Stop keeping the log for a replica."""
    _do(cluster, EjectReplica(replica))


def checksum(cluster: ClusterFile, as_json: bool) -> None:
    """Let all replicas compare their states, and print the position of that."""
    compared = event_loop.run(_ask_one, cluster, CompareChecksums())
    if as_json:
        echo_json({"position": compared.position})
    else:
        click.echo(compared.position)


def write_raw(cluster: ClusterFile, puts: Sequence[str], deletes: Sequence[str], yes: bool) -> None:
    """Write to the local store of every replica.

    Raises:
        click.UsageError: a key or value is not hexadecimal, or `yes` is missing.
    """
    writes = [_write(*_split(put)) for put in puts] + [_write(key, None) for key in deletes]
    if not yes:
        raise click.UsageError("this changes the state past all checks; say --yes")
    _do(cluster, WriteRaw(writes=tuple(writes)))


def set_engine(cluster: ClusterFile, name: str, *, enabled: bool) -> None:
    """Let an engine take effect on all replicas, or no more."""
    _do(cluster, SetEngine(name=name, enabled=enabled))


def guard(cluster: ClusterFile, despite_entries: bool) -> None:
    """Let only nodes and administrators append to the log."""
    register = event_loop.run(_guard, cluster, despite_entries)
    click.echo(f"guarded since version {register.guarded} of the chain")


async def _guard(cluster: ClusterFile, despite_entries: bool) -> Register:
    async with connect(await with_all_nodes(cluster), brief=True) as log:
        register = await log.view.refresh()
        if not register.database:
            raise UnsupportedError("no database stands on this log: clients may append to it")
        return await put_guard(log, despite_foreign=despite_entries)


def _do(cluster: ClusterFile, request: Request[Any]) -> None:
    event_loop.run(_ask_one, cluster, request)


async def _ask_all(cluster: ClusterFile) -> DatabaseFacts:
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster, [DATABASE]) as services:
        return await gather_database(services, newest_register(await fetch_statuses(services, _nodes(cluster))))


async def _ask_one(cluster: ClusterFile, request: Request[ReplyT]) -> ReplyT:
    """Send a request to any replica that answers (`client.call_any_replica`)."""
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster, [DATABASE]) as services:
        return await client.call_any_replica(services, _nodes(cluster), request)


def _nodes(cluster: ClusterFile) -> list[NodeId]:
    return [NodeId(node.id) for node in cluster.nodes]


def _plain(answer: Outcome[DatabaseStatus] | None) -> dict[str, Any]:
    """The answer as a row of the table. `answer` is None if the cluster has no such node."""
    match answer:
        case None:
            return {"state": "gone", "error": "the cluster has no such node"}
        case UnsupportedError():
            return {"state": "off", "error": "its config has no [zookeeper]"}
        case UnavailableError() | UntrustedError():
            return {"state": "silent", "error": str(answer)}
        case VirtualLogError():
            return {"state": REFUSED, "error": str(answer)}
        case _:
            return attrs.asdict(answer)


def _needs(rows: Mapping[NodeId, Mapping[str, Any]]) -> list[str]:
    """Reasons why the log is kept, from the replica that is furthest; and the errors of nodes."""
    newest: Mapping[str, Any] = max(rows.values(), key=lambda row: row.get("cursor", -1), default={})
    lines = [f"the log may be trimmed up to {newest['allowed']}"] if "allowed" in newest else []
    lines += [f"replica {each['name']} needs it from {each['durable']} on" for each in newest.get("members", ())]
    lines += [f"hold {each['name']} keeps it from {each['position']} on" for each in newest.get("holds", ())]
    return lines + [f"node {node}: {row['error']}" for node, row in rows.items() if row.get("error")]


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--put {text}: must be KEY=VALUE")
    return key, value


def _write(key: str, value: str | None) -> RawWrite:
    try:
        return RawWrite(key=bytes.fromhex(key), value=None if value is None else bytes.fromhex(value))
    except ValueError as error:
        raise click.UsageError(f"{key}: {error}") from error
