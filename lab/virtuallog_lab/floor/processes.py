"""Starts the processes of the floor, and connects a client in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog_lab.floor.client import FloorClient
from virtuallog_lab.harness.program import PeerError

PROGRAM: Final = (sys.executable, "-P", "-m", "virtuallog_lab.floor.server")


@attrs.frozen(eq=False)
class Floor:
    """A running floor."""

    client: FloorClient
    sequencer: int
    """Process id."""
    log_servers: tuple[int, int]
    """Process ids."""

    @property
    def processes(self) -> list[tuple[str, int]]:
        """Names and ids of the processes, for `CpuMeter`. The client is this one, and the sequencer stores entries as well."""
        return [("client", os.getpid()), ("sequencer", self.sequencer), *(("servers", pid) for pid in self.log_servers)]


@asynccontextmanager
async def open_floor(program: Sequence[str] = PROGRAM) -> AsyncIterator[Floor]:
    """Open a new floor, in a folder for temporary files, for the length of the block.

    Args:
        program: what runs a process of `virtuallog_lab.floor.server`.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="virtuallog-floor-")))
        (first, first_port), (second, second_port) = [
            await stack.enter_async_context(_process([*program, "log", str(folder / name)]))
            for name in ("log-1", "log-2")
        ]
        sequencer, port = await stack.enter_async_context(
            _process([*program, "sequencer", str(folder / "sequencer"), str(first_port), str(second_port)])
        )
        client = FloorClient(port)
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(client.run)
        try:
            yield Floor(client, sequencer, (first, second))
        finally:
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _process(command: Sequence[str]) -> AsyncIterator[tuple[int, int]]:
    """A process, as its id and the port at which it listens; killed at the end."""
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    try:
        yield process.pid, await _port(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):  # the folder is removed next
            await process.wait()


async def _port(process: trio.Process) -> int:
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        chunk = await process.stdout.receive_some()
        if not chunk:
            raise PeerError(f"a process of the floor has ended with {await process.wait()}")
        line += chunk
    return int(line)
