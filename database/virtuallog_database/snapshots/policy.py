"""Policy of snapshots: when the next one is due, and which ones to remove.

A snapshot costs a flush, and lets the log be trimmed up to it. Many snapshots load the disk. Few
make the disk full and a restart long, as a restart plays everything after the last flush. So a
snapshot is due after a number of log bytes, or after a time if anything was applied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from virtuallog.contract.types import LogPosition

NONE = LogPosition(0)
"""Position of the empty snapshot that a replica has before its first one."""


@attrs.frozen(kw_only=True)
class SnapshotSettings:
    """Frequency and number of snapshots. Sizes in bytes, times in seconds."""

    log_bytes: int = 64 << 20
    """Bytes of entries applied since the last snapshot."""
    seconds: float = 600.0
    """Seconds since the last snapshot, if anything has been applied since. SOSP'21 has ten minutes."""
    seconds_min: float = 5.0
    """Shortest interval: each snapshot syncs, and blocks the event loop for some ten milliseconds."""
    keep: int = 2
    """Snapshots to keep, newest first. The second newest is for a peer that was just offered it."""


@attrs.define
class SnapshotSchedule:
    """Schedule of one replica, from the moment when it was opened."""

    settings: SnapshotSettings
    newest: LogPosition
    """Position of its newest snapshot."""
    taken_at: float
    """Monotonic time of that snapshot."""
    taken_bytes: int = 0
    """Log bytes that had been applied then, counted since the replica was opened."""

    def is_due(self, cursor: LogPosition, applied_bytes: int, now: float) -> bool:
        """True if a snapshot is due. A replica without a snapshot takes one at once: until then
        neither its own log is trimmed nor that of any other replica."""
        if cursor <= self.newest:
            return False
        if self.newest == NONE:
            return True
        if now < self.taken_at + self.settings.seconds_min:
            return False
        grown = applied_bytes - self.taken_bytes
        return grown >= self.settings.log_bytes or now >= self.taken_at + self.settings.seconds

    def took(self, position: LogPosition, applied_bytes: int, now: float) -> None:
        self.newest, self.taken_bytes, self.taken_at = position, applied_bytes, now


def name_of(position: LogPosition) -> str:
    """Name of a snapshot; names sort like positions."""
    return f"{position:020d}"


def position_of(name: str) -> LogPosition | None:
    """Position in a snapshot's name. None for a name that `name_of` has not made."""
    return LogPosition(int(name)) if len(name) == 20 and name.isascii() and name.isdigit() else None


def superfluous(positions: Sequence[LogPosition], keep: int, in_use: Collection[LogPosition]) -> list[LogPosition]:
    """Snapshots to remove: all but the newest `keep` and those being read."""
    return [position for position in sorted(positions)[:-keep] if position not in in_use]
