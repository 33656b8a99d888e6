"""One real ZooKeeper, as Debian packages it, on loopback; installed if it is missing and may be.

Only the process that was started here is ever ended, by its pid.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import trio

from tests.debian import require
from tests.free_ports import free_ports
from virtuallog_lab.harness.zookeeper_ensemble import is_installed, java_command

PACKAGES = (
    "zookeeper", "libzookeeper-java", "libslf4j-java", "liblog4j1.2-java", "libnetty-java", "libservlet-api-java",
    "default-jre-headless",
)  # fmt: skip
START_SECONDS = 60.0
ANSWER_SECONDS = 2.0


def require_zookeeper() -> None:
    """Skip the test, loudly, if there is no ZooKeeper here and none can be had."""
    require("ZooKeeper", is_installed, *PACKAGES)


@attrs.define(eq=False)
class Server:
    """It keeps its data, so it can be ended and started again."""

    folder: Path
    port: int
    settings: tuple[str, ...] = ()
    """More lines for its configuration."""
    _process: trio.Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """False before `start`, and after `stop`."""
        return self._process is not None

    async def start(self) -> None:
        """Returns once it takes requests."""
        await self.launch()
        await self.wait_ready()

    async def launch(self) -> None:
        config = self.folder / "zoo.cfg"
        config.write_text(
            f"tickTime=200\nminSessionTimeout=400\ndataDir={self.folder}/data\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\ninitLimit=50\nsyncLimit=20\n4lw.commands.whitelist=*\n"
            + "\n".join(self.settings)
        )
        command = java_command(config, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        with (self.folder / "log").open("ab") as output:
            self._process = await trio.lowlevel.open_process(command, stdout=output, stderr=output)

    async def wait_ready(self) -> None:
        with trio.fail_after(START_SECONDS):  # noqa: TID251 -- a real process
            while not await self.mode():
                await trio.sleep(0.05)  # noqa: TID251 -- a real process

    async def stop(self) -> None:
        """kill -9. Its data stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def mode(self) -> str:
        """'standalone', 'leader' or 'follower'; empty if it serves no client."""
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        # One that is just starting may take a connection, and never answer on it.
        with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(ANSWER_SECONDS):  # noqa: TID251 -- a real process
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                await stream.send_all(b"srvr")
                answer = b""
                async for part in stream:
                    answer += part
                return answer.partition(b"Mode: ")[2].partition(b"\n")[0].decode()
        return ""


@asynccontextmanager
async def open_zookeeper(folder: Path, *settings: str) -> AsyncIterator[Server]:
    """A server that runs while the block does, with these lines more in its configuration."""
    require_zookeeper()
    server = Server(folder, free_ports(1), settings)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def open_ensemble(folder: Path, size: int = 3, *settings: str) -> AsyncIterator[list[Server]]:
    """Servers that have elected a leader, while the block runs, with these lines more in their configurations."""
    require_zookeeper()
    port = free_ports(3 * size)
    members = tuple(f"server.{n}=127.0.0.1:{port + size + n - 1}:{port + 2 * size + n - 1}" for n in range(1, size + 1))
    servers = []
    for number in range(1, size + 1):
        own = folder / f"server-{number}"
        (own / "data").mkdir(parents=True)
        (own / "data" / "myid").write_text(f"{number}\n")
        servers.append(Server(own, port + number - 1, (*settings, *members)))
    try:
        for server in servers:
            await server.launch()
        for server in servers:
            await server.wait_ready()
        yield servers
    finally:
        for server in servers:
            await server.stop()
