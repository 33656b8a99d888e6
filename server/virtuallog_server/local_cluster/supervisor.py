"""A supervisor for a cluster of local processes: `virtuallog up`, the demo, benchmarks, tests.

Its files are laid out in `virtuallog_server.local_cluster.layout`.
It restarts no node: its callers want to see the effect of a crash on the log. A node that an operator starts again by hand, in
its directory, is no child: the supervisor neither watches its exit code nor ends it.

No child outlives the supervisor, however that ends: each holds the read end of a pipe as stdin, and ends when the
other end is gone (`virtuallog serve --end-with-parent`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import call_each, fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.errors import StorageError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Clock, Outcome, Services
from virtuallog.contract.register import decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.node_services import open_services_to
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.file_errors import file_errors
from virtuallog_database.control.messages import SERVING, DatabaseStatus, GetDatabaseStatus
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.config.environment import without_settings
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.local_cluster import layout
from virtuallog_server.storage import pid_file

PROGRAM: Final = (sys.executable, "-P", "-m", "virtuallog_server")
"""Command that runs this very version."""
END_SECONDS: Final = 10.0
"""Time for children to end in order before they are killed: a flush, and answers to calls in progress."""
POLL_SECONDS: Final = 0.05
"""Seconds between two looks at the node processes."""
START_SECONDS: Final = 60.0
"""Timeout of the first answer of a cluster. Imports and formatting take two seconds, on a busy machine many."""


@attrs.define(eq=False)
class LocalNode:
    """One child process, running or not."""

    config: NodeConfig
    program: Sequence[str] = PROGRAM
    """Command of the node; a whole `serve` command follows."""
    process: trio.Process | None = None

    @property
    def id(self) -> NodeId:
        return self.config.node

    @property
    def zookeeper(self) -> str:
        """Address for ZooKeeper's clients. Empty if there is none without TLS."""
        return self.config.zookeeper.listen if self.config.zookeeper else ""

    @property
    def pid(self) -> int | None:
        """Process id of the child. None unless it runs."""
        return self.process.pid if self.process and self.process.poll() is None else None

    @property
    def last_words(self) -> str:
        """The last line that the child has logged."""
        with suppress(OSError):
            lines = (self.config.data / "log").read_text(errors="replace").splitlines()
            words = next((words for line in reversed(lines) if (words := line.strip(" |+-"))), "")
            return words.removeprefix("virtuallog: ")
        return ""


@attrs.define(eq=False)
class LocalCluster:
    """The processes of a cluster. Use `open_local_cluster`."""

    path: Path
    nodes: dict[NodeId, LocalNode]
    clock: Clock
    tls: TlsFiles | None = None
    """Files for clients. None if the nodes do not use TLS."""

    @property
    def file(self) -> ClusterFile:
        """The cluster file for clients."""
        return ClusterFile(
            nodes=tuple(NodeAddress(id=node.id, address=node.config.listen) for node in self.nodes.values()),
            tls=self.tls,
        )

    @property
    def file_path(self) -> Path:
        return self.path / "cluster.toml"

    async def start(self, node: NodeId) -> None:
        """Start a node's process; return at once.

        Raises:
            StorageError: its directory cannot be written.
        """
        child = self.nodes[node]
        assert child.pid is None
        with file_errors(child.config.data), (child.config.data / "log").open("ab") as log:
            child.process = await trio.lowlevel.open_process(
                [*child.program, "serve", "--end-with-parent", "--config", layout.config_file(child.config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=without_settings(os.environ),
                process_group=0,  # Ctrl-C in a terminal goes to the supervisor, which passes it on
            )

    async def kill(self, *nodes: NodeId) -> None:
        """Kill -9, all at once, and wait until they are dead."""
        await self._end([self.nodes[node] for node in nodes], signal.SIGKILL)

    async def stop(self, *nodes: NodeId) -> None:
        """End nodes in order, all if none is named; kill what has not ended in time."""
        await self._end([self.nodes[node] for node in nodes or self.nodes], signal.SIGTERM)

    @property
    def running(self) -> list[LocalNode]:
        """The nodes that run just now."""
        return [node for node in self.nodes.values() if node.pid is not None]

    async def wait_ended(self) -> AsyncIterator[LocalNode]:
        """Yield each child that has ended by itself, when it has; its `pid` file is gone by then. Ends once no node runs in the
        directory, including those that were started by hand.
        """
        watched = self.running
        while self.strangers() or watched:
            for node in [node for node in watched if node.pid is None]:
                watched.remove(node)
                assert node.process is not None
                pid_file.drop(node.config.data, node.process.pid)
                yield node
            await self.clock.sleep(POLL_SECONDS)

    def strangers(self) -> dict[str, int]:
        """Folder name -> pid of the nodes that run in the directory and are no children. `pid` files of processes that are gone are
        removed.
        """
        own = {node.config.data.name: node.pid for node in self.running}
        found = {}
        for folder in layout.node_folders(self.path):
            pid = pid_file.read(folder)
            if pid is None or folder.name in own:
                continue
            if pid_file.find(folder) is None:
                pid_file.drop(folder, pid)
            else:
                found[folder.name] = pid
        return found

    async def wait_ready(self) -> None:
        """Wait until a majority of the MetaStore's members knows a register, and all servers of the database serve.

        Raises:
            StorageError: a node ended instead; names it, with its last words.
            UnavailableError: `START_SECONDS` were not enough.
        """
        with self.clock.timeout(START_SECONDS):
            # Not before: a link that meets no listener pauses, longer each time, and would miss the moment when there is one.
            while not self._has_majority(self._has_opened):
                await self._pause()
            async with open_services_to(self.file, [DATABASE]) as services:
                while not (await self._has_register(services) and await self._serves_clients(services)):
                    await self._pause()
                return
        raise UnavailableError(f"the cluster has not answered within {START_SECONDS:g} s; see {self.path}/node-*/log")

    def write_file(self) -> None:
        """Write cluster.toml, in one step."""
        with file_errors(self.path):
            new = self.file_path.with_suffix(".new")
            new.write_text(self.file.spell())
            new.replace(self.file_path)

    async def _pause(self) -> None:
        self._check_running()
        await self.clock.sleep(POLL_SECONDS)

    def _has_opened(self, node: NodeId) -> bool:
        """True if a process has the directory of the node: it listens in a moment."""
        return node in self.nodes and pid_file.find(self.nodes[node].config.data) is not None

    async def _has_register(self, services: Services) -> bool:
        """True if a majority of the MetaStore's members knows a register."""
        answers = await fetch_statuses(services, self._members)
        return self._has_majority(lambda node: _knows_register(answers[node]))

    def _has_majority(self, holds: Callable[[NodeId], bool]) -> bool:
        return sum(map(holds, self._members)) > len(self._members) // 2

    @property
    def _members(self) -> Sequence[NodeId]:
        return next(iter(self.nodes.values())).config.members

    async def _serves_clients(self, services: Services) -> bool:
        """True if every node that should serves ZooKeeper's clients."""
        asked = [node.id for node in self.nodes.values() if node.config.zookeeper]
        answers = await call_each(services, asked, GetDatabaseStatus())
        return all(isinstance(answer, DatabaseStatus) and answer.state == SERVING for answer in answers.values())

    def _check_running(self) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.pid is None:
                raise StorageError(f"node {node.id} ended with code {node.process.returncode}: {node.last_words}")

    async def _end(self, nodes: Sequence[LocalNode], first: signal.Signals) -> None:
        running = [node.process for node in nodes if node.process is not None and node.pid is not None]
        for process in running:
            process.send_signal(first)
        # Shielded: a supervisor that is being cancelled must still end its children. Bounded by the kill.
        with trio.CancelScope(shield=True):
            with self.clock.timeout(END_SECONDS):
                for process in running:
                    await process.wait()
            for process in running:
                process.kill()
                await process.wait()
            for node in nodes:
                await _forget(node)


@asynccontextmanager
async def open_local_cluster(
    path: Path,
    nodes: int = 3,
    log_nodes: int = 0,
    base_port: int | None = None,
    loglet: str = "native",
    program: Sequence[str] = PROGRAM,
    console_port: int | None = None,
    zookeeper_port: int | None = None,
    tls: bool = False,
    origin: str = "",
    told: Callable[[str], None] = lambda line: None,
) -> AsyncIterator[LocalCluster]:
    """Start the cluster in `path`, new or as it was left, and end it with the block.

    `program` runs the nodes; the other arguments are those of `layout.prepare`.

    Raises:
        InvalidSettingError: `path` holds a cluster of another shape, or one that runs.
        StorageError: `path` cannot be written.
    """
    with layout.hold(path):
        configs = layout.prepare(
            path, nodes, log_nodes, base_port, loglet,
            tls=tls, origin=origin, console_port=console_port, zookeeper_port=zookeeper_port, told=told,
        )  # fmt: skip
        children = {config.node: LocalNode(config, program) for config in configs}
        cluster = LocalCluster(path, children, SystemClock(), layout.client_tls(configs))
        try:
            for node in cluster.nodes:
                await cluster.start(node)
            yield cluster
        finally:
            await cluster.stop()


def _knows_register(answer: Outcome[NodeStatus]) -> bool:
    if isinstance(answer, VirtualLogError) or not answer.register:
        return False
    return decode_untrusted(answer.register).version >= 1


async def _forget(node: LocalNode) -> None:
    if node.process is not None and node.process.stdin is not None:
        await node.process.stdin.aclose()
    if node.process is not None:
        pid_file.drop(node.config.data, node.process.pid)
    node.process = None
