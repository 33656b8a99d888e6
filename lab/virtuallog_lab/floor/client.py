"""The client of the floor. Appends of one scheduler turn share a batch, as with an appender of the product."""

from __future__ import annotations

import socket
from typing import Final

import trio
from trio.abc import Instrument

from virtuallog_lab.floor.wire import MESSAGE, Wire, parse
from virtuallog_lab.harness.program import PeerError

BATCH_BYTES: Final = 1 << 20
"""Bytes of a batch, as of an appender of the product: large entries are stored while later ones are on their way."""


class FloorClient(Instrument):
    """One connection to a sequencer. `run` it while it is used."""

    def __init__(self, port: int) -> None:
        self._wire = Wire(socket.create_connection(("127.0.0.1", port)))
        self._queue: list[tuple[bytes, trio.lowlevel.Task]] = []
        self._batches: dict[int, list[trio.lowlevel.Task]] = {}
        self._queued_bytes = self._number = 0
        self._is_over = False

    async def append(self, payload: bytes) -> None:
        """Return once the entry is durable. Cancelling it ends the client."""
        self._queue.append((payload, trio.lowlevel.current_task()))
        self._queued_bytes += len(payload)
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    async def run(self) -> None:
        """Send and receive until cancelled.

        Raises:
            PeerError: the sequencer has ended.
        """
        trio.lowlevel.add_instrument(self)
        try:
            await self._wire.run(self._on_acknowledged)
        finally:
            trio.lowlevel.remove_instrument(self)
        raise PeerError("the sequencer of the floor has ended")

    def before_io_wait(self, timeout: float) -> None:  # the name that trio calls
        """Send what the turn has brought."""
        if self._queue:
            queue, size = self._queue, self._queued_bytes
            self._queue, self._queued_bytes = [], 0
            count = max(1, len(queue) * BATCH_BYTES // max(1, size))
            for start in range(0, len(queue), count):
                self._send_batch(queue[start : start + count])

    def _send_batch(self, entries: list[tuple[bytes, trio.lowlevel.Task]]) -> None:
        self._number += 1
        self._batches[self._number] = [task for _, task in entries]
        blob = b"".join([payload for payload, _ in entries])
        self._wire.send(MESSAGE.new_message(batch=self._number, entries=[blob]).to_bytes())

    def _abort(self, _raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self._is_over = True
        return trio.lowlevel.Abort.SUCCEEDED

    def _on_acknowledged(self, frames: list[bytes]) -> None:
        if self._is_over:  # a task that was cancelled is in one of the batches, and waits no more
            return
        for frame in frames:
            with parse(frame) as message:
                for task in self._batches.pop(message.batch):
                    trio.lowlevel.reschedule(task)
