"""Faults of the disks of a machine, shared by its files (`disk.py`) and its small stores
(`key_values.py`)."""

from __future__ import annotations

from typing import Final

import attrs

SLOW_SECONDS: Final = 0.001
"""Duration that a good disk needs. Up to this an operation is not counted as slow."""
STALL_SECONDS: Final = 0.05
"""Duration above which a write counts as stalled: such a disk is not slow, it stands still now and
then."""


@attrs.define(kw_only=True)
class DiskFaults:
    """Faults and their frequencies. May be changed while the disk is in use."""

    write_error: float = 0.0
    """Probability that a write fails; some of its sectors may have been written."""
    sync_error: float = 0.0
    """Probability that the sync behind a write fails."""
    read_error: float = 0.0
    """Probability that a read fails."""
    create_error: float = 0.0
    """Probability that a file cannot be created."""
    capacity_bytes: int | None = None
    """Size of each disk in bytes; None if never full."""
    free_bytes: int | None = None
    """Bytes left for all that share these faults, such as the stores of one machine; None if unlimited.

    Goes down as they grow, and up when files are removed.
    """
    write_seconds: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest time a synced write takes."""
    prompt: float = 0.0
    """Probability that a write without a waiting caller is durable, and called back, at the end of the
    turn that has begun it: a fast disk on which the event loop writes itself."""
    change_seconds: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest time a create, rename, remove or truncate takes."""

    @property
    def failing(self) -> bool:
        """True if anything may fail at present."""
        errors = self.write_error, self.sync_error, self.read_error, self.create_error
        return any(errors) or self.capacity_bytes is not None or self.free_bytes is not None

    def take_room(self, more_bytes: int) -> bool:
        """Use up `more_bytes` (give back, if negative). False if that many are not left."""
        if self.free_bytes is not None:
            if more_bytes > self.free_bytes:
                return False
            self.free_bytes -= more_bytes
        return True
