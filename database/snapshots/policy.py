"""When the next snapshot is due, and which ones are let go.                                                        Pure.

A snapshot costs a flush, and lets the log be trimmed to it: many make the disk busy, few make it full, and a restart long
(it plays what came after the last flush). So one is due after so many bytes of the log, or after so much time if anything was applied.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.types import LogPosition


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
    """The newest ones. The one before the last is for a peer that is reading it."""


@attrs.frozen(kw_only=True)
class Applied:
    """How far a replica has come."""

    cursor: LogPosition
    log_bytes: int
    """Of entries, since it was opened."""


@attrs.define
class Schedule:
    """Of one replica. `last` is how far it was at its last snapshot, or when it was opened."""

    settings: SnapshotSettings
    last: Applied
    taken_at: float
    """By a monotonic clock."""

    def is_due(self, applied: Applied, now: float) -> bool:
        if applied.cursor <= self.last.cursor or now < self.taken_at + self.settings.seconds_min:
            return False
        grown = applied.log_bytes - self.last.log_bytes
        return grown >= self.settings.log_bytes or now >= self.taken_at + self.settings.seconds

    def took(self, applied: Applied, now: float) -> None:
        self.last, self.taken_at = applied, now


def name_of(position: LogPosition) -> str:
    """Of a snapshot; names sort like positions."""
    return f"{position:020d}"


def position_of(name: str) -> LogPosition | None:
    """None for a name that `name_of` has not made."""
    return LogPosition(int(name)) if len(name) == 20 and name.isascii() and name.isdigit() else None


def superfluous(positions: Sequence[LogPosition], keep: int, in_use: frozenset[LogPosition]) -> list[LogPosition]:
    """Which snapshots to remove: all but the newest `keep`, and those that are being read."""
    return [position for position in sorted(positions)[:-keep] if position not in in_use]
