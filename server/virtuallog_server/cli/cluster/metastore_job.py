"""The work of `virtuallog metastore`: the members that decide the register, and recovery when they are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.admin.membership import ReconfigMembers
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.errors import InvalidSettingError, StorageError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.register import Register
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.contract.types import NodeId
from virtuallog.node_services import newest_register, open_services_to
from virtuallog_metastore.disaster_recovery.chain_edit import edit
from virtuallog_metastore.disaster_recovery.dump import DUMP_BYTES_MAX, Dump, decode_untrusted, dump
from virtuallog_server.cli.cluster.node_job import ask, listed
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import echo_json, read_own_cluster
from virtuallog_server.storage import register_import

WARNING: Final = """this makes another cluster out of an exported register. Lost for good is
  * every change of the chain, the members or the nodes that was decided after the export,
  * every entry in a segment that came after it, although its append was acknowledged.
Import the same file for the same members on every node that is left, each while it is stopped, before you start any
of them. Do it only if a majority of the MetaStore's members is gone for good; then say --force."""


def members(cluster: ClusterFile, wanted: str | None, seen: str | None, as_json: bool) -> None:
    """Print the members; with `wanted`, change them first."""
    if wanted is not None:
        before, after = event_loop.run(_set_members, cluster, _numbers(wanted), _numbers(seen) if seen else ())
        if not as_json:
            click.echo(f"members: {_listed(before)} -> {_listed(after)}")
    rows = event_loop.run(_members, cluster)
    if as_json:
        echo_json({"members": rows})
        return
    from rich.console import Console  # takes longer than to ask the cluster
    from rich.table import Table

    table = Table()
    for column in ("member", "state", "version", "problem"):
        table.add_column(column)
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("member", "state", "version", "problem")))
    Console().print(table)


def export(file: Path, data: Path | None, cluster: Path | None, as_json: bool) -> None:
    """Write the newest register to a file, from a stopped node's directory or from a cluster."""
    found = event_loop.run(_read, data, cluster)
    _write(file, found.encode())
    summary = _summary(found)
    if as_json:
        echo_json(summary)
    else:
        click.echo(
            f"{file}: version {summary['version']} of cluster {summary['cluster']}, {summary['segments']} segments"
        )


def edit_file(file: Path, edited: Path, close_at: int | None, start_at: int | None) -> None:
    """Write a changed copy of an exported register."""
    found = edit(decode_untrusted(_bytes(file)), close_at, start_at)
    _write(edited, found.encode())
    segments = found.register.chain.segments
    spelt = [
        f"{segment.start} to {'now' if segment.stop is None else segment.stop} ({segment.kind})" for segment in segments
    ]
    click.echo(f"{edited}: {len(segments)} segment{'s' * (len(segments) > 1)}: {', '.join(spelt)}")


def import_file(file: Path, data: Path, wanted: str, force: bool, cluster: Path | None, as_json: bool) -> None:
    """Make an exported register the newest one of a stopped node.

    Raises:
        Failure: without `force`; its message says what is lost.
    """
    chosen = _numbers(wanted)
    found = decode_untrusted(_bytes(file))
    if not force:
        raise Failure(f"nothing has been changed: {WARNING}")
    tls = read_own_cluster(cluster).tls if cluster else None
    decision = event_loop.run(register_import.import_register, data, found, chosen, tls)
    register = decode_register(decision.proposal.value)
    if as_json:
        echo_json({"cluster": register.cluster.hex(), "version": register.version, "members": list(register.members)})
    else:
        click.echo(f"{data}: now of cluster {register.cluster.hex()}, version {register.version}")


async def _set_members(
    cluster: ClusterFile, wanted: tuple[NodeId, ...], seen: tuple[NodeId, ...]
) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """Change the members. Return those before and after."""
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster) as services:
        answers = await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes])
        before = tuple(sorted(seen)) or newest_register(answers).members
        changed = await ask(services, cluster, ReconfigMembers(members=wanted, seen=before), None)
    return before, decode_register(changed.register).members


async def _members(cluster: ClusterFile) -> list[dict[str, Any]]:
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster) as services:
        answers = await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes])
        register = newest_register(answers)
        return [_member(register, member, answers.get(member)) for member in register.members]


def _member(register: Register, member: NodeId, answer: Outcome[NodeStatus] | None) -> dict[str, Any]:
    entry = register.nodes.get(member)
    row: dict[str, Any] = {"member": member, "version": 0, "problem": ""}
    if entry is None or entry.is_expected:
        return {**row, "state": "expected", "problem": "its data directory is given up; a new one has not come yet"}
    if answer is None or isinstance(answer, VirtualLogError):
        return {**row, "state": "silent", "problem": "no address" if answer is None else str(answer)}
    if answer.store_id != entry.store_id:
        return {**row, "state": "stranger", "problem": "has another data directory than the register names"}
    return {**row, "state": "answers", "version": decode_register(answer.register).version if answer.register else 0}


async def _read(data: Path | None, cluster: Path | None) -> Dump:
    if data is not None:
        return await register_import.read_dump(data)
    assert cluster is not None
    async with connect(read_own_cluster(cluster), brief=True) as log:
        _, value = await log.view.metastore.get()
        return dump(value)


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(DUMP_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSettingError(str(file), f"cannot be read: {error.strerror}") from error


def _write(file: Path, content: bytes) -> None:
    """Write a file in one step: a file of this name is always complete."""
    new = file.with_name(file.name + ".new")
    try:
        new.write_bytes(content)
        with new.open("rb") as opened:
            register_import.sync_file(opened.fileno())
        new.replace(file)
    except OSError as error:
        raise StorageError(f"{file}: {error.strerror}") from error


def _summary(found: Dump) -> dict[str, Any]:
    register = found.register
    return {
        "cluster": register.cluster.hex(),
        "version": register.version,
        "members": list(register.members),
        "nodes": {node: list(entry.addresses) for node, entry in sorted(register.nodes.items())},
        "segments": len(register.chain.segments),
    }


def _listed(members: tuple[NodeId, ...]) -> str:
    return ", ".join(map(str, members))


def _numbers(text: str) -> tuple[NodeId, ...]:
    return tuple(listed(text, lambda part: NodeId(int(part)) if part.isdecimal() else None, "node numbers: 1,2,3"))
