"""The disk of a process of the floor: a file of zeros, and a thread that writes and syncs it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import trio

FILE_BYTES: Final = 64 << 20
"""Size of the file: a segment of the product. It is written from the start again before its end."""

Job = tuple[bytes, Callable[[], None]]


class FloorDisk:
    """Makes data durable, in order. One sync for all that waits.

    Args:
        path: a new file.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        os.pwrite(self._descriptor, bytes(FILE_BYTES), 0)
        os.fsync(self._descriptor)
        self._offset = 0
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        threading.Thread(target=self._run, daemon=True).start()

    def append(self, data: bytes, done: Callable[[], None]) -> None:
        """Queue data. `done` is called on the event loop once it is durable."""
        self._jobs.put((data, done))

    def _run(self) -> None:
        jobs = self._jobs
        while True:
            group = [jobs.get()]
            while not jobs.empty():
                group.append(jobs.get())
            self._offset += os.pwritev(self._descriptor, [data for data, _ in group], self._offset)
            if self._offset > FILE_BYTES * 3 // 4:
                self._offset = 0
            os.fdatasync(self._descriptor)
            try:
                self._token.run_sync_soon(_call_all, [done for _, done in group])
            except trio.RunFinishedError:  # the process ends
                return


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()
