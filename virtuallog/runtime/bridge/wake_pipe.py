"""Wake-ups of an event loop by another thread: at most one byte in a pipe.

The loops' own ways (`run_sync_soon`, `call_soon_threadsafe`) read until nothing is left, which raises an error each time, and take
a lock or make a handle: two thirds of what a lone call costs.
"""

from __future__ import annotations

import os
import weakref


class WakePipe:
    """A pipe whose readable end belongs to one loop, and whose other end to one other thread."""

    def __init__(self) -> None:
        """Open the pipe. It is closed by `close`, or with the object."""
        self._readable, self._writable = os.pipe()
        self._is_due = False
        self._closing = weakref.finalize(self, _close, self._readable, self._writable)

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._readable

    def wake(self) -> bool:
        """Make the descriptor readable; returns False if it is so already, or soon will be. What the loop is to find must be there before."""
        if self._is_due:
            return False
        self._is_due = True
        if self._closing.alive:
            os.write(self._writable, b"\0")
        return True

    def clear(self) -> None:
        """Take the wake-up, before looking at what it is about: what is there later wakes the loop again."""
        os.read(self._readable, 1)
        self._is_due = False

    def close(self) -> None:
        """Close it, once neither thread uses it. Later wake-ups have no effect."""
        self._closing()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
