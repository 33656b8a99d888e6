"""ZooKeeper as Debian packages it, as an ensemble of processes on loopback: for measurements that need a foreign log.

It ends with the process that started it, however that ends: a shell in front of each server kills
it when the pipe to us closes.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.local_cluster.layout import HOST, free_ports

JARS: Final = Path("/usr/share/java")
JAR_NAMES: Final = (
    "zookeeper.jar", "zookeeper-jute.jar", "slf4j-log4j12.jar", "log4j-1.2.jar", "servlet-api.jar", "netty-buffer.jar",
    "netty-codec.jar", "netty-common.jar", "netty-handler.jar", "netty-resolver.jar", "netty-transport.jar",
    "netty-transport-native-epoll.jar", "netty-transport-native-unix-common.jar",
)  # fmt: skip
"""The last ones are what the jar's own list of others leaves out."""
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LEASH: Final = '"$@" </dev/null & child=$!; read -r _; kill -9 $child'
"""Runs a command until stdin is closed."""
START_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.05


def is_installed() -> bool:
    """True if a ZooKeeper can be started here."""
    return shutil.which("java") is not None and all((JARS / name).exists() for name in JAR_NAMES)


def java_command(config: Path, *options: str) -> list[str]:
    """Command that runs one server.

    Args:
        config: its zoo.cfg.
        options: for the Java machine.
    """
    jars = ":".join(str(JARS / name) for name in JAR_NAMES)
    return ["java", *options, "-cp", jars, "-Dzookeeper.jmx.log4j.disable=true", MAIN, str(config)]


@attrs.define(eq=False)
class ZooKeeperServer:
    """One server; `run` it. Its folder keeps its data."""

    folder: Path
    port: int
    settings: Sequence[str] = ()
    """More lines for zoo.cfg."""
    clock: Clock = attrs.field(factory=SystemClock)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run it for the length of the block; see `wait_ready`."""
        command = ["/bin/sh", "-c", LEASH, "sh", *java_command(self._write_config(), "-Xmx512m", "-XX:+UseSerialGC")]
        with (self.folder / "log").open("ab") as log:
            process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0
            )
        try:
            yield
        finally:
            assert process.stdin is not None
            with trio.CancelScope(shield=True):  # what the shell kills is dead at once
                await process.stdin.aclose()
                await process.wait()

    async def wait_ready(self) -> None:
        """Return once it takes writes.

        Raises:
            UnavailableError: it does not, for long.
        """
        with self.clock.timeout(START_SECONDS):
            while not await self._serves():
                await self.clock.sleep(POLL_SECONDS)
            return
        words = (self.folder / "log").read_text(errors="replace").strip()[-300:]
        raise UnavailableError(f"ZooKeeper on {self.address} has not answered within {START_SECONDS:g} s: {words}")

    async def _serves(self) -> bool:
        # One that is just starting may take a connection, and never answer on it.
        with suppress(OSError, trio.BrokenResourceError), self.clock.timeout(ANSWER_SECONDS):
            async with await trio.open_tcp_stream(HOST, self.port) as stream:
                await stream.send_all(b"srvr")
                return b"Mode: " in await stream.receive_some()
        return False

    def _write_config(self) -> Path:
        config = self.folder / "zoo.cfg"
        lines = [
            "tickTime=1000", "initLimit=20", "syncLimit=10", f"dataDir={self.folder}/data", f"clientPort={self.port}",
            f"clientPortAddress={HOST}", "maxClientCnxns=0", "admin.enableServer=false", "4lw.commands.whitelist=*",
            *self.settings,
        ]  # fmt: skip
        config.write_text("\n".join(lines) + "\n")
        return config


@asynccontextmanager
async def open_ensemble(folder: Path, size: int = 3) -> AsyncIterator[str]:
    """Open that many servers that answer, for the length of the block; yields their addresses,
    separated by commas.

    Raises:
        UnavailableError: they do not answer.
    """
    servers = _plan(folder, size)
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server.run())
        for server in servers:
            await server.wait_ready()
        yield ",".join(server.address for server in servers)


def _plan(folder: Path, size: int) -> list[ZooKeeperServer]:
    ports = free_ports(3 * size)
    clients, peers, elections = ports[:size], ports[size : 2 * size], ports[2 * size :]
    pairs = enumerate(zip(peers, elections, strict=True), start=1)
    members = [f"server.{number}={HOST}:{peer}:{election}" for number, (peer, election) in pairs] if size > 1 else []
    servers = []
    for number, client in enumerate(clients, start=1):
        own = folder / f"zookeeper-{number}"
        (own / "data").mkdir(parents=True)
        (own / "data" / "myid").write_text(f"{number}\n")
        servers.append(ZooKeeperServer(own, client, members))
    return servers
