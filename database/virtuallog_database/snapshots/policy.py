"""When the next snapshot is due, and which ones are let go.                                                        Pure.

A snapshot costs a flush, and lets the log be trimmed up to it: many make the disk busy, few make it full, and a restart long, which
plays what came after the last flush. So one is due after so many bytes of the log, or after so much time if anything was applied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from virtuallog.contract.types import LogPosition

NONE = LogPosition(0)
"""The position of the snapshot that a replica has before its first one: nothing is in it."""


@attrs.frozen(kw_only=True)
class SnapshotSettings:
    """How often, and how many. Sizes in bytes, times in seconds."""

    log_bytes: int = 64 << 20
    """Of entries applied since the last one."""
    seconds: float = 600.0
    """Since the last one, if anything has been applied since. SOSP'21 has ten minutes."""
    seconds_min: float = 5.0
    """Never more often: each one syncs, and holds up the event loop for some ten milliseconds."""
    keep: int = 2
    """The newest ones. The one before the last is for a peer that has just been offered it."""


@attrs.define
class SnapshotSchedule:
    """Of one replica, from the moment when it was opened."""

    settings: SnapshotSettings
    newest: LogPosition
    """Position of its newest snapshot."""
    taken_at: float
    """When, by a monotonic clock."""
    taken_bytes: int = 0
    """Bytes of the log that had been applied then, since it was opened."""

    def is_due(self, cursor: LogPosition, applied_bytes: int, now: float) -> bool:
        """A replica without a snapshot takes one at once: its own log is not trimmed before, nor anybody's."""
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
    """Of a snapshot; names sort like positions."""
    return f"{position:020d}"


def position_of(name: str) -> LogPosition | None:
    """None for a name that `name_of` has not made."""
    return LogPosition(int(name)) if len(name) == 20 and name.isascii() and name.isdigit() else None


def superfluous(positions: Sequence[LogPosition], keep: int, in_use: Collection[LogPosition]) -> list[LogPosition]:
    """Which snapshots to remove: all but the newest `keep`, and those that are being read."""
    return [position for position in sorted(positions)[:-keep] if position not in in_use]
