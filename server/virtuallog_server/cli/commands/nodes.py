"""`virtuallog up`, `serve` and `status`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import cluster_option, json_option, restored_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.command()
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 9), help="Number of nodes.")
@click.option(
    "--log-nodes", default=0, show_default=True, type=click.IntRange(0, 9), help="Number of additional log servers."
)
@click.option(
    "--data", required=True, type=click.Path(path_type=Path, file_okay=False), help="Directory for their data."
)
@click.option("--base-port", type=click.IntRange(1, 65000), help="Port of the first node.  [default: 7001]")
@click.option("--console-port", type=click.IntRange(1, 65000), help="HTTP port of the first node: /metrics, /status.")
@click.option("--zookeeper", type=click.IntRange(1, 65000), help="ZooKeeper's protocol: port of the first node.")
@click.option("--tls", is_flag=True, help="Make certificates, and use them on all connections.")
@restored_option
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
    continues where it was, with the options in its files DATA/node-N/node.toml: an option that a file lacks is written into
    it, one that a file contradicts is refused. The log begins on a native loglet; `virtuallog reconfigure --list` shows the
    other kinds. With --tls, DATA/cluster.toml has the certificate of an admin; that of a client lies beside it. With
    --zookeeper PORT each node (not the log nodes) is a server of the database: ZooKeeper's clients connect to PORT, PORT+1
    and so on. With --restored DIR a new cluster continues from what `virtuallog spark restore` has made.

    \b
    Examples:
        virtuallog up --nodes 3 --data /tmp/log
        virtuallog up --nodes 3 --data /tmp/log --zookeeper 2181
    """
    from virtuallog_server.cli.cluster import up_job as work

    work.up(data, nodes, log_nodes, base_port, console_port, zookeeper, tls, origin)


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="VIRTUALLOG_SERVE_CONFIG",
    show_envvar=True,
    help="A node.toml.",
)
@click.option("--id", "node", type=int, help="Number of this node.")
@click.option("--data", type=click.Path(file_okay=False), help="Data directory.")
@click.option("--peers", metavar="ID@HOST:PORT,...", help="All nodes of the cluster, this one included.")
@click.option("--console", metavar="HOST:PORT", help="Answer HTTP there: /metrics, /healthz, /readyz, /status.")
@click.option(
    "--probes", metavar="HOST:PORT", help="Answer /healthz, /readyz and /metrics there, to other machines too."
)
@click.option(
    "--zookeeper", metavar="HOST:PORT", help="Be a server of the database: ZooKeeper's clients connect there."
)
@restored_option
@click.option("--end-with-parent", is_flag=True, hidden=True, help="End when stdin is closed.")
def serve(
    config_file: Path | None,
    node: int | None,
    data: str | None,
    peers: str | None,
    console: str | None,
    probes: str | None,
    zookeeper: str | None,
    origin: str,
    end_with_parent: bool,
) -> None:
    """Run one node in the foreground, until Ctrl-C or SIGTERM.

    Give either a config file (docs/reference/sample.toml lists every option), or --id, --data and --peers. --console, --probes,
    --zookeeper and --restored are written into the config file if it lacks them, and refused if it contradicts them.
    Each option of the file has an environment variable, such as VIRTUALLOG_SERVE_LISTEN, which goes before the file;
    options of the command go before both.

    \b
    Examples:
        virtuallog serve --config node.toml
        virtuallog serve --id 1 --data /tmp/one --peers 1@127.0.0.1:7001,2@127.0.0.1:7002,3@127.0.0.1:7003
        virtuallog serve --config node.toml --zookeeper 127.0.0.1:2181
    """
    if config_file is not None and (node, data, peers) != (None, None, None):
        raise click.UsageError("--config FILE says everything; leave out --id, --data and --peers")
    from virtuallog_server.cli.cluster import serve_job as work
    from virtuallog_server.config.config_file import StartOptions

    options = StartOptions(console=console or "", probes=probes or "", zookeeper=zookeeper or "", origin=origin)
    if config_file is not None:
        work.serve_file(config_file, options, end_with_parent)
    else:
        work.serve_options(node, data, peers, options, end_with_parent)


@click.command()
@cluster_option
@json_option
def status(cluster: ClusterFile, as_json: bool) -> None:
    """Show every node: its answer, its start, its roles, the roles it refuses and why; and what the database lacks.

    Ends with 0 if no node refuses a role, and each replica in the view of the database is served; else with 1. A silent node alone is
    no failure of this command: `virtuallog explain` judges.

    \b
    Example:
        virtuallog status
    """
    from virtuallog_server.cli.cluster import status_job as work

    work.status(cluster, as_json)
