"""The work of `virtuallog up`. It imports nothing of a node: the nodes are processes of their own, and start the sooner."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import click
import trio

from virtuallog.contract.errors import StorageError
from virtuallog_server.cli.common import event_loop
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster
from virtuallog_server.process.end_signals import end_on_signal

_NEXT: Final = """
Next, in another terminal:
    export VIRTUALLOG_CLUSTER={file}
    virtuallog append "hello"          prints the position of the entry
    virtuallog read --from 0           prints all entries
    virtuallog reconfigure --to paxos  swaps the consensus protocol, while the log is in use
    virtuallog explain                 says what there is, and why
    virtuallog console                 shows that in a browser, and lets curl append and read
Ctrl-C ends the nodes; the same command starts them again, with all that was written."""


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
    event_loop.run(_up, data, nodes, log_nodes, base_port, console_port, zookeeper_port, tls, origin)


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
        nursery.start_soon(end_on_signal, nursery.cancel_scope)
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
    await cluster.wait_ready()
    cluster.write_file()
    click.echo(f"ready: {cluster.file_path}")
    click.echo(_NEXT.format(file=shlex.quote(str(cluster.file_path))))
