"""Commands about the register itself: who decides it, and what to do when those are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.admin.membership import ReconfigMembers
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect, newest_register, open_services_to
from virtuallog.contract.errors import InvalidSettingError, StorageError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.register import Register
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.contract.types import NodeId
from virtuallog_metastore.disaster_recovery.chain_edit import edit
from virtuallog_metastore.disaster_recovery.dump import DUMP_BYTES_MAX, Dump, decode_untrusted, dump
from virtuallog_server.cli.cluster.membership import ask, listed
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import cluster_option, echo_json, json_option, read_own_cluster
from virtuallog_server.storage import register_import

WARNING: Final = """this makes another cluster out of an exported register. Lost for good is
  * every change of the chain, the members or the nodes that was decided after the export,
  * every entry in a segment that came after it, although its append was acknowledged.
Import the same file for the same members on every node that is left, each while it is stopped, before you start any
of them. Do it only if a majority of the MetaStore's members is gone for good; then say --force."""


@click.group()
def metastore() -> None:
    """Look after the register that everything else is decided by."""


@metastore.command()
@click.option("--set", "wanted", metavar="ID,...", help="Let these nodes decide from now on.")
@click.option("--seen", metavar="ID,...", help="With --set: the members that these take the place of.")
@cluster_option
@json_option
def members(cluster: ClusterFile, wanted: str | None, seen: str | None, as_json: bool) -> None:
    """Show who decides the register, and who of them answers; or change it.

    A change is refused if the members are others by then than this command has seen, or than --seen says: so two operators do
    not undo each other's changes. Drained nodes get no seat.

    \b
    Examples:
        virtuallog metastore members
        virtuallog metastore members --set 1,2,3
        virtuallog metastore members --set 1,2,4 --seen 1,2,3
    """
    if seen is not None and wanted is None:
        raise click.UsageError("--seen goes with --set")
    if wanted is not None:
        before, after = trio.run(_set_members, cluster, _numbers(wanted), _numbers(seen) if seen else ())
        if not as_json:
            click.echo(f"members: {_listed(before)} -> {_listed(after)}")
    rows = trio.run(_members, cluster)
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


@metastore.command(name="export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Of a node that is stopped."
)
@click.option("--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
              type=click.Path(path_type=Path, dir_okay=False), help="Of a cluster that runs.")  # fmt: skip
@json_option
def export(file: Path, data: Path | None, cluster: Path | None, as_json: bool) -> None:
    """Write the newest register to a file, for disasters; once a day is often enough for most, after changes better.

    From the cluster, or with --data from the directory of a member that is left when a majority of them is lost.

    \b
    Example:
        virtuallog metastore export register-monday
    """
    if data is None and cluster is None:
        raise click.UsageError("name the cluster (--cluster FILE) or a data directory (--data DIR)")
    found = trio.run(_read, data, cluster)
    _write(file, found.encode())
    summary = _summary(found)
    if as_json:
        echo_json(summary)
    else:
        click.echo(
            f"{file}: version {summary['version']} of cluster {summary['cluster']}, {summary['segments']} segments"
        )


@metastore.command(name="edit")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("edited", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--close-at", type=click.IntRange(min=0), metavar="POSITION",
              help="The open segment ends here, without a seal: past everything that was ever acknowledged.")  # fmt: skip
@click.option("--start-at", type=click.IntRange(min=0), metavar="POSITION",
              help="The segments wholly below are left out, with all that is in them.")  # fmt: skip
def edit_(file: Path, edited: Path, close_at: int | None, start_at: int | None) -> None:
    """Change an exported register, when a loglet is lost for good that nobody can seal any more. Import the result.

    \b
    Example:
        virtuallog metastore edit register-monday register-edited --close-at 5000000
    """
    found = edit(decode_untrusted(_bytes(file)), close_at, start_at)
    _write(edited, found.encode())
    segments = found.register.chain.segments
    spelt = [
        f"{segment.start} to {'now' if segment.stop is None else segment.stop} ({segment.kind})" for segment in segments
    ]
    click.echo(f"{edited}: {len(segments)} segment{'s' * (len(segments) > 1)}: {', '.join(spelt)}")


@metastore.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--data", required=True, type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Of a node that is left; it must be stopped.")  # fmt: skip
@click.option("--members", "wanted", required=True, metavar="ID,...", help="Who decides from now on.")
@click.option("--force", is_flag=True, help="Yes, the MetaStore is lost.")
@click.option("--cluster", metavar="FILE", envvar="VIRTUALLOG_CLUSTER", show_envvar=True,
              type=click.Path(path_type=Path, dir_okay=False),
              help="Needed with TLS, for its certificates: nodes answer nobody without.")  # fmt: skip
@json_option
def import_(file: Path, data: Path, wanted: str, force: bool, cluster: Path | None, as_json: bool) -> None:
    """Go on from an exported register when a majority of the MetaStore is lost for good. Read what it costs first.

    \b
    Example:
        virtuallog metastore import register-monday --data node-1 --members 1,2 --force
    """
    members = _numbers(wanted)
    found = decode_untrusted(_bytes(file))
    if not force:
        raise Failure(f"nothing has been changed: {WARNING}")
    tls = read_own_cluster(cluster).tls if cluster else None
    decision = trio.run(register_import.import_register, data, found, members, tls)
    register = decode_register(decision.proposal.value)
    if as_json:
        echo_json({"cluster": register.cluster.hex(), "version": register.version, "members": list(register.members)})
    else:
        click.echo(f"{data}: now of cluster {register.cluster.hex()}, version {register.version}")


async def _set_members(
    cluster: ClusterFile, wanted: tuple[NodeId, ...], seen: tuple[NodeId, ...]
) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """The members before and after the change."""
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
    async with connect(read_own_cluster(cluster)) as log:
        _, value = await log.view.metastore.get()
        return dump(value)


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(DUMP_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSettingError(str(file), f"cannot be read: {error.strerror}") from error


def _write(file: Path, content: bytes) -> None:
    """In one step: a file of this name is a whole one."""
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
