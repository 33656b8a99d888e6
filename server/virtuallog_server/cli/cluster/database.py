"""Commands about the database that stands on the log. A server of it does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import click
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect, newest_register, open_services_to
from virtuallog.contract.errors import UnavailableError, UnsupportedError, UntrustedError, VirtualLogError
from virtuallog.contract.ports import Outcome, ReplyT, Request
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
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
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import POSITION, cluster_option, echo_json, json_option
from virtuallog_server.database.ownership import put_guard
from virtuallog_server.diagnosis.collector import gather_database
from virtuallog_server.diagnosis.core.database import DatabaseFacts, findings, problems

REFUSED: Final = "refused"
"""The state of a replica whose role is closed for good on its node."""


@click.group()
def database() -> None:
    """Look after the replicated tree that ZooKeeper's clients use."""


@database.command()
@cluster_option
@json_option
def status(cluster: ClusterFile, as_json: bool) -> None:
    """Show every replica: how far it is, its newest snapshot, and for whom the log is kept.

    A row for each node that runs a replica, and for each that should: the view of the database counts on it. Ends with 1 if a
    replica of the view is served by no node, or a node has been a server and is none any more; else with 0.

    \b
    Example:
        virtuallog database status
    """
    facts = trio.run(_ask_everybody, cluster)
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


@database.command()
@click.argument("name")
@click.argument("position", type=POSITION)
@click.option("--seconds", default=0.0, type=click.FloatRange(0), help="Dropped after so long.  [default: never]")
@cluster_option
def hold(cluster: ClusterFile, name: str, position: int, seconds: float) -> None:
    """Keep the log from POSITION on, whatever the database needs itself, until it is released; again: renew it.

    \b
    Example:
        virtuallog database hold backup 1200 --seconds 3600
    """
    _do(cluster, PlaceHold(name=name, position=position, milliseconds=round(seconds * 1000)))


@database.command()
@click.argument("name")
@cluster_option
def release(cluster: ClusterFile, name: str) -> None:
    """Drop a hold.

    \b
    Example:
        virtuallog database release backup
    """
    _do(cluster, ReleaseHold(name))


@database.command()
@click.argument("replica")
@cluster_option
def eject(cluster: ClusterFile, replica: str) -> None:
    """Keep the log for a replica no longer, since it does not come back. REPLICA is its name, as `status` has it.

    \b
    Example:
        virtuallog database eject 3-5f0c2a7be41d9c36
    """
    _do(cluster, EjectReplica(replica))


@database.command()
@cluster_option
@json_option
def checksum(cluster: ClusterFile, as_json: bool) -> None:
    """Have all replicas compare their states, at one position of the log, and print it.

    A replica whose state is not that of the majority stops; `virtuallog status` says so a little later.

    \b
    Example:
        virtuallog database checksum
    """
    compared = trio.run(_ask_one, cluster, CompareChecksums())
    if as_json:
        echo_json({"position": compared.position})
    else:
        click.echo(compared.position)


@database.command()
@click.option("--put", "puts", multiple=True, metavar="KEY=VALUE", help="In hexadecimal; repeatable.")
@click.option("--delete", "deletes", multiple=True, metavar="KEY", help="In hexadecimal; repeatable.")
@click.option("--yes", is_flag=True, help="You know what you are doing.")
@cluster_option
def brain_doctor(cluster: ClusterFile, puts: tuple[str, ...], deletes: tuple[str, ...], yes: bool) -> None:
    """Write to the local store of every replica, past everything that gives it a meaning: for emergencies.

    The writes are one entry of the log, so all replicas make them at the same position.

    \b
    Example:
        virtuallog database brain-doctor --delete 006c65617365 --yes
    """
    writes = [_write(*_split(put)) for put in puts] + [_write(key, None) for key in deletes]
    if not writes:
        raise click.UsageError("nothing to write: --put KEY=VALUE, --delete KEY")
    if not yes:
        raise click.UsageError("this changes the state past all checks; say --yes")
    _do(cluster, WriteRaw(writes=tuple(writes)))


@database.command()
@click.argument("engine")
@cluster_option
def enable(cluster: ClusterFile, engine: str) -> None:
    """Let an engine take effect, on all replicas from one position of the log on; refused while a replica does not know it.

    \b
    Example:
        virtuallog database enable lease
    """
    _do(cluster, SetEngine(name=engine, enabled=True))


@database.command()
@click.argument("engine")
@cluster_option
def disable(cluster: ClusterFile, engine: str) -> None:
    """Let an engine take effect no more.

    \b
    Example:
        virtuallog database disable lease
    """
    _do(cluster, SetEngine(name=engine, enabled=False))


@database.command()
@click.option(
    "--despite-entries", is_flag=True, help="Though the log has entries of others, which no longer append to it."
)
@cluster_option
def guard(cluster: ClusterFile, despite_entries: bool) -> None:
    """Let nobody but nodes and administrators append to the log from now on; this cannot be taken back.

    Servers of the database do this by themselves, unless the log has entries that are none of a database.

    \b
    Example:
        virtuallog database guard
    """
    register = trio.run(_guard, cluster, despite_entries)
    click.echo(f"guarded since version {register.guarded} of the chain")


async def _guard(cluster: ClusterFile, despite_entries: bool) -> Register:
    async with connect(await with_all_nodes(cluster)) as log:
        register = await log.view.refresh()
        if not register.database:
            raise UnsupportedError("no database stands on this log: clients may append to it")
        return await put_guard(log, despite_foreign=despite_entries)


def _do(cluster: ClusterFile, request: Request[Any]) -> None:
    trio.run(_ask_one, cluster, request)


async def _ask_everybody(cluster: ClusterFile) -> DatabaseFacts:
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster, [DATABASE]) as services:
        return await gather_database(services, newest_register(await fetch_statuses(services, _nodes(cluster))))


async def _ask_one(cluster: ClusterFile, request: Request[ReplyT]) -> ReplyT:
    """See `client.call_any_replica`."""
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster, [DATABASE]) as services:
        return await client.call_any_replica(services, _nodes(cluster), request)


def _nodes(cluster: ClusterFile) -> list[NodeId]:
    return [NodeId(node.id) for node in cluster.nodes]


def _plain(answer: Outcome[DatabaseStatus] | None) -> dict[str, Any]:
    """None: of a node that the cluster does not have."""
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
    """Who keeps the log, by the replica that knows most."""
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
