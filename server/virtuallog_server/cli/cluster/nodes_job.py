"""The work of `virtuallog up`, `serve` and `status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import newest_register, open_services_to
from virtuallog.contract.errors import StorageError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log
from virtuallog.runtime.toml import FieldError
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.config.config_file import Amended, StartOptions, amend
from virtuallog_server.config.node_config import NodeConfig, parse_peers
from virtuallog_server.diagnosis.collector import gather_database
from virtuallog_server.diagnosis.core.database import DatabaseFacts, findings, problems
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster
from virtuallog_server.node.status import plain_status
from virtuallog_server.process import process


def up(
    data: Path,
    nodes: int,
    log_nodes: int,
    base_port: int | None,
    console_port: int | None,
    zookeeper_port: int | None,
    tls: bool,
    origin: str,
) -> None:
    """Run a cluster on this machine until a signal ends it."""
    trio.run(_up, data, nodes, log_nodes, base_port, console_port, zookeeper_port, tls, origin)


def serve_file(config_file: Path, options: StartOptions, end_with_parent: bool) -> None:
    """Run the node of a config file until a signal ends it. Options that the file lacks are written into it."""
    with _options_named():
        amended = amend(config_file, options)
        process.serve(amended.config, end_with_parent=end_with_parent, started=partial(_write, amended))


def serve_options(
    node: int | None, data: Path | None, peers: str | None, options: StartOptions, end_with_parent: bool
) -> None:
    """Run the node that the options describe until a signal ends it."""
    with _options_named():
        process.serve(options.over(_config_of_options(node, data, peers)), end_with_parent=end_with_parent)


@contextmanager
def _options_named() -> Iterator[None]:
    """Turn the error of a config field into wrong usage of the option with its name."""
    try:
        yield
    except FieldError as error:
        raise click.UsageError(f"--{error.path[0]}: {error}") from error


def _write(amended: Amended) -> None:
    """Write added options into the config file. If that fails, the node starts all the same."""
    if not amended.added:
        return
    file, added = str(amended.path), ", ".join(amended.added)
    try:
        amended.write()
    except StorageError as error:
        log.warning(
            "put these options into the config file: a start without them loses them",
            file=file,
            options=added,
            reason=str(error),
        )
    else:
        log.warning("options written into the config file", file=file, options=added)


def status(cluster: ClusterFile, as_json: bool) -> None:
    """Print the state of all nodes, and what the database lacks.

    Raises:
        click.exceptions.Exit: a node refuses a role, or a replica is not served.
    """
    answers, facts = trio.run(_ask_all, cluster)
    rows = [_plain(node, answer, facts) for node, answer in answers.items()]
    lacking = problems(findings(facts))
    if as_json:
        echo_json({"nodes": rows, "problems": lacking})
    else:
        _show(rows, lacking)
    if lacking or any(row.get("failures") for row in rows):
        raise click.exceptions.Exit(FAILED)


def _show(rows: Sequence[Mapping[str, Any]], lacking: Sequence[str]) -> None:
    from rich.console import Console  # takes longer than to ask the cluster
    from rich.table import Table

    table = Table()
    for column in ("node", "state", "boot", "chain", "roles", "problems"):
        table.add_column(column)
    for row in rows:
        told = "\n".join([*row.get("failures", []), *row.get("healing", [])]) or row.get("error", "")
        cells = [str(row.get(name, "")) for name in ("boot", "version")]
        table.add_row(str(row["node"]), row["state"], *cells, ", ".join(row.get("roles", [])), told)
    console = Console()
    console.print(table)
    for line in lacking:
        console.print(line, soft_wrap=True, markup=False)


async def _up(
    data: Path,
    nodes: int,
    log_nodes: int,
    base_port: int | None,
    console_port: int | None,
    zookeeper_port: int | None,
    tls: bool,
    origin: str,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.end_on_signal, nursery.cancel_scope)
        async with open_local_cluster(
            data, nodes, log_nodes, base_port,
            console_port=console_port, zookeeper_port=zookeeper_port, tls=tls, origin=origin, told=click.echo,
        ) as cluster:  # fmt: skip
            for node in cluster.nodes.values():
                places = [f"pid {node.pid}", node.config.listen, str(node.config.data)]
                places += [f"http://{node.config.console}"] if node.config.console else []
                places += [f"zookeeper {node.zookeeper}"] if node.zookeeper else []
                click.echo(f"node {node.id}: {', '.join(places)}")
            await _announce(cluster)
            async for node in cluster.wait_ended():
                assert node.process is not None
                code = node.process.returncode
                click.echo(f"virtuallog: node {node.id} has ended with code {code}: {node.last_words}", err=True)
                if not cluster.running and (others := cluster.strangers()):
                    names = ", ".join(f"{name} (pid {pid})" for name, pid in others.items())
                    click.echo(f"virtuallog: waiting for what was started by hand: {names}", err=True)
            raise StorageError("all nodes have ended")


async def _announce(cluster: LocalCluster) -> None:
    async with open_services_to(cluster.file, [DATABASE]) as services:
        await cluster.wait_ready(services)
    cluster.write_file()
    click.echo(f"ready: {cluster.file_path}")


def _config_of_options(node: int | None, data: Path | None, peers: str | None) -> NodeConfig:
    if node is None or data is None:
        raise click.UsageError("needs --config FILE, or --id and --data")
    try:
        listed = parse_peers(peers) if peers is not None else ()
        mine = [peer.address for peer in listed if peer.id == node]
        config = NodeConfig(id=node, data=data, peers=listed)
        return attrs.evolve(config, listen=mine[0]) if mine else config
    except FieldError as error:
        raise click.UsageError(f"{' '.join(str(part) for part in error.path)}: {error}") from error


async def _ask_all(cluster: ClusterFile) -> tuple[dict[NodeId, Outcome[NodeStatus]], DatabaseFacts | None]:
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster, [DATABASE]) as services:
        answers = await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes])
        try:
            register = newest_register(answers)
        except VirtualLogError:
            return answers, None
        return answers, await gather_database(services, register)


def _plain(node: NodeId, answer: Outcome[NodeStatus], facts: DatabaseFacts | None) -> dict[str, Any]:
    if isinstance(answer, VirtualLogError):
        return {"node": node, "state": "silent", "error": str(answer)}
    row = plain_status(answer)
    if facts is not None and node in facts.replicas:
        row["roles"].append("database")
    return row
