"""What goes wrong with the disks of a machine: shared by its files (`storage.py`) and its small stores (`key_values.py`)."""

from __future__ import annotations

from typing import Final

import attrs

SLOW_SECONDS: Final = 0.001
"""What takes no longer is what a good disk needs, and not counted."""
STALL_SECONDS: Final = 0.05
"""What takes longer is counted as a stalled write: such a disk is not slow, it stands still now and then."""


@attrs.define(kw_only=True)
class DiskFaults:
    """What goes wrong, and how often. May be changed while the disk is in use."""

    write_error: float = 0.0
    """Probability that a write fails; some of its sectors may have been written."""
    sync_error: float = 0.0
    """Probability that the sync behind a write fails."""
    read_error: float = 0.0
    """Probability that a read fails."""
    create_error: float = 0.0
    """Probability that a file cannot be created."""
    capacity_bytes: int | None = None
    """Size of each disk; None: never full."""
    free_bytes: int | None = None
    """What is left for all that share these faults, the stores of one machine for instance: goes down as they grow, and
    up when files are removed. None: enough."""
    write_seconds: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest time a synced write takes."""
    change_seconds: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest time a create, rename, remove or truncate takes."""

    @property
    def failing(self) -> bool:
        """Whether anything may fail at present."""
        errors = self.write_error, self.sync_error, self.read_error, self.create_error
        return any(errors) or self.capacity_bytes is not None or self.free_bytes is not None

    def take_room(self, more_bytes: int) -> bool:
        """Use up `more_bytes` of what is left (give back, if negative); False: that much is not left."""
        if self.free_bytes is not None:
            if more_bytes > self.free_bytes:
                return False
            self.free_bytes -= more_bytes
        return True
