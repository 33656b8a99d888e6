"""Commands about nodes: start them, look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click
import structlog
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import newest_register, open_services_to
from virtuallog.contract.errors import StorageError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import NodeId
from virtuallog.runtime.toml import FieldError
from virtuallog_database.control.wire import DATABASE
from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import cluster_option, echo_json, json_option
from virtuallog_server.config.config_file import Amended, StartOptions, amend
from virtuallog_server.config.node_config import NodeConfig, parse_peers
from virtuallog_server.diagnosis.collector import gather_database
from virtuallog_server.diagnosis.core.database import DatabaseFacts, findings, problems
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster
from virtuallog_server.node.status import plain_status
from virtuallog_server.process import process

log = structlog.get_logger(__name__)

_restored_option = click.option(
    "--restored",
    "origin",
    metavar="DIR|URL",
    default="",
    callback=lambda _context, _option, place: absolute_url(place) if place else "",
    help="Begin a new cluster with what `virtuallog spark restore` has put there.",
)


@click.command()
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 9), help="How many nodes.")
@click.option("--log-nodes", default=0, show_default=True, type=click.IntRange(0, 9), help="How many more log servers.")
@click.option("--data", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where they keep data.")
@click.option("--base-port", type=click.IntRange(1, 65000), help="Port of the first node.  [default: 7001]")
@click.option("--console-port", type=click.IntRange(1, 65000), help="HTTP port of the first node: /metrics, /status.")
@click.option("--zookeeper", type=click.IntRange(1, 65000), help="ZooKeeper's protocol: port of the first node.")
@click.option("--tls", is_flag=True, help="Make certificates, and use them on all connections.")
@_restored_option
def up(
    nodes: int,
    log_nodes: int,
    data: Path,
    base_port: int | None,
    console_port: int | None,
    zookeeper: int | None,
    tls: bool,
    origin: str,
) -> None:
    """Run a cluster on this machine, in the foreground, until Ctrl-C or SIGTERM.

    Writes DATA/cluster.toml once the cluster answers; give that to the other commands. Each node keeps its data, its
    log and its pid in DATA/node-N. A node that dies is not started again. Started again on the same DATA, the cluster
    goes on where it was, with what its files DATA/node-N/node.toml say: an option that a file has not is written into it, one that
    a file contradicts is refused. The log begins on a native loglet; `virtuallog reconfigure --help` tells which other kinds there
    are. With --tls, DATA/cluster.toml has the certificate of an admin; there is one of a client beside it. With --zookeeper
    PORT each node (not the log nodes) is a server of the database: ZooKeeper's clients connect to PORT, PORT+1 and so on.
    With --restored DIR a new cluster goes on from what `virtuallog spark restore` has made.

    \b
    Examples:
        virtuallog up --nodes 3 --data /tmp/log
        virtuallog up --nodes 3 --data /tmp/log --zookeeper 2181
    """
    trio.run(_up, data, nodes, log_nodes, base_port, console_port, zookeeper, tls, origin)


@click.command()
@click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="A node.toml.")
@click.option("--id", "node", type=int, help="Number of this node.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory.")
@click.option("--peers", metavar="ID@HOST:PORT,...", help="All nodes of the cluster, this one included.")
@click.option("--console", metavar="HOST:PORT", help="Answer HTTP there: /metrics, /healthz, /readyz, /status.")
@click.option(
    "--zookeeper", metavar="HOST:PORT", help="Be a server of the database: ZooKeeper's clients connect there."
)
@_restored_option
@click.option("--end-with-parent", is_flag=True, hidden=True, help="End when stdin is closed.")
def serve(
    config_file: Path | None,
    node: int | None,
    data: Path | None,
    peers: str | None,
    console: str | None,
    zookeeper: str | None,
    origin: str,
    end_with_parent: bool,
) -> None:
    """Run one node in the foreground, until Ctrl-C or SIGTERM.

    Either with a config file (docs/reference/sample.toml lists every option), or with --id, --data and --peers. --console, --zookeeper and
    --restored are written into the config file, if it does not say so already, and refused if it says otherwise.

    \b
    Examples:
        virtuallog serve --config node.toml
        virtuallog serve --id 1 --data /tmp/one --peers 1@127.0.0.1:7001,2@127.0.0.1:7002,3@127.0.0.1:7003
        virtuallog serve --config node.toml --zookeeper 127.0.0.1:2181
    """
    if config_file is not None and (node, data, peers) != (None, None, None):
        raise click.UsageError("--config FILE says everything; leave out --id, --data and --peers")
    options = StartOptions(console=console or "", zookeeper=zookeeper or "", origin=origin)
    try:
        if config_file is not None:
            amended = amend(config_file, options)
            process.serve(amended.config, end_with_parent=end_with_parent, started=partial(_write, amended))
        else:
            process.serve(options.over(_config_of_options(node, data, peers)), end_with_parent=end_with_parent)
    except FieldError as error:
        raise click.UsageError(f"--{error.path[0]}: {error}") from error


def _write(amended: Amended) -> None:
    """A file that this user may not write keeps no node from its start."""
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


@click.command()
@cluster_option
@json_option
def status(cluster: ClusterFile, as_json: bool) -> None:
    """Show every node: does it answer, since which start, which roles does it refuse and why; and what the database lacks.

    Ends with 0 if no node refuses a role, and each replica in the view of the database is served; else with 1. A silent node alone is
    no failure of this command: `virtuallog explain` judges.

    \b
    Example:
        virtuallog status
    """
    answers, facts = trio.run(_ask_everybody, cluster)
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


async def _ask_everybody(cluster: ClusterFile) -> tuple[dict[NodeId, Outcome[NodeStatus]], DatabaseFacts | None]:
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
