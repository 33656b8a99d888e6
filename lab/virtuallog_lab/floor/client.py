"""The client of the floor. Appends of one scheduler turn share a batch, as with an appender of the product."""

from __future__ import annotations

import socket

import trio
from trio.abc import Instrument

from virtuallog_lab.floor.wire import MESSAGE, Wire


class FloorClient(Instrument):
    """One connection to a sequencer. `run` it while it is used."""

    def __init__(self, port: int) -> None:
        self._wire = Wire(socket.create_connection(("127.0.0.1", port)))
        self._queue: list[tuple[bytes, trio.lowlevel.Task]] = []
        self._batches: dict[int, list[trio.lowlevel.Task]] = {}
        self._number = 0

    async def append(self, payload: bytes) -> None:
        """Return once the entry is durable. Cannot be cancelled."""
        self._queue.append((payload, trio.lowlevel.current_task()))
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    async def run(self) -> None:
        """Send and receive until the sequencer ends, or until cancelled."""
        trio.lowlevel.add_instrument(self)
        try:
            await self._wire.run(self._on_acknowledged)
        finally:
            trio.lowlevel.remove_instrument(self)

    def before_io_wait(self, timeout: float) -> None:  # the name that trio calls
        """Send what the turn has brought."""
        if self._queue:
            queue, self._queue = self._queue, []
            self._number += 1
            self._batches[self._number] = [task for _, task in queue]
            blob = b"".join([payload for payload, _ in queue])
            self._wire.send(MESSAGE.new_message(batch=self._number, entries=[blob]).to_bytes())

    def _on_acknowledged(self, frames: list[bytes]) -> None:
        for frame in frames:
            with MESSAGE.from_bytes(frame) as message:
                for task in self._batches.pop(message.batch):
                    trio.lowlevel.reschedule(task)
