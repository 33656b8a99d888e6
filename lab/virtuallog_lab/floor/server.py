"""The processes of the floor that store entries.

    python -m virtuallog_lab.floor.server log FILE
    python -m virtuallog_lab.floor.server sequencer FILE PORT PORT

Each prints the port at which it listens, takes one connection, and ends with it. The sequencer is given the ports of the two log
servers.
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from functools import partial
from pathlib import Path
from typing import Final

import trio

from virtuallog_lab.floor.disk import FloorDisk
from virtuallog_lab.floor.wire import MESSAGE, OnFrames, Wire, parse

SWITCH_SECONDS: Final = 0.0005
"""The same as `virtuallog_server.process.process.SWITCH_SECONDS`: importing that would load the product into this process."""
ACCEPT_SECONDS: Final = 60.0
"""Time after which a process ends to which there has been no connection."""


class FloorSequencer:
    """Makes a wave of the batches that one read brought, and acknowledges what two of three disks have."""

    def __init__(self, disk: FloorDisk, client: Wire, servers: list[Wire]) -> None:
        self._disk = disk
        self._client = client
        self._servers = servers
        self._durable = [0] * (1 + len(servers))
        """Last wave on the disk of this process, and on those of the log servers."""
        self._wave = 0
        self._pending: deque[tuple[int, int]] = deque()
        """Batches without an acknowledgement, each with its wave."""

    def on_batches(self, frames: list[bytes]) -> None:
        """Replicate the batches that have come together as one wave."""
        self._wave = wave = self._wave + 1
        entries: list[bytes] = []
        for frame in frames:
            with parse(frame) as message:
                entries += [bytes(entry) for entry in message.entries]
                self._pending.append((message.batch, wave))
        encoded: bytes = MESSAGE.new_message(wave=wave, entries=entries).to_bytes()
        for server in self._servers:
            server.send(encoded)
        self._disk.append(encoded, lambda: self._stored(0, wave))

    def on_stored(self, server: int) -> OnFrames:
        """The function for what log server 1 or 2 sends."""

        def on_frames(frames: list[bytes]) -> None:
            with parse(frames[-1]) as message:
                self._stored(server, message.wave)

        return on_frames

    def _stored(self, server: int, wave: int) -> None:
        self._durable[server] = wave
        committed, replies = sorted(self._durable)[1], []
        while self._pending and self._pending[0][1] <= committed:
            replies.append(MESSAGE.new_message(batch=self._pending.popleft()[0]).to_bytes())
        if replies:
            self._client.send(*replies)


async def run_log_server(file: Path) -> None:
    """Store what a sequencer sends."""
    disk = FloorDisk(file)
    wire = Wire(_accept())

    def on_waves(frames: list[bytes]) -> None:
        for frame in frames:
            with parse(frame) as message:
                stored = MESSAGE.new_message(wave=message.wave).to_bytes()
            disk.append(frame, partial(wire.send, stored))

    await wire.run(on_waves)


async def run_sequencer(file: Path, ports: list[int]) -> None:
    """Order the batches of one client."""
    disk = FloorDisk(file)
    servers = [Wire(socket.create_connection(("127.0.0.1", port))) for port in ports]
    client = Wire(_accept())
    sequencer = FloorSequencer(disk, client, servers)
    async with trio.open_nursery() as nursery:
        for number, server in enumerate(servers, start=1):
            nursery.start_soon(server.run, sequencer.on_stored(number))
        await client.run(sequencer.on_batches)
        nursery.cancel_scope.cancel()


def _accept() -> socket.socket:
    """Tell the port, and wait for the one connection. Blocks: the process has nothing else to do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(ACCEPT_SECONDS)
        print(listener.getsockname()[1], flush=True)  # noqa: T201  # for the process that starts this one
        return listener.accept()[0]


def main() -> None:
    """Run the role that the command line names."""
    sys.setswitchinterval(SWITCH_SECONDS)
    role, file, *ports = sys.argv[1:]
    if role == "log":
        trio.run(run_log_server, Path(file))
    else:
        trio.run(run_sequencer, Path(file), [int(port) for port in ports])


if __name__ == "__main__":
    main()
