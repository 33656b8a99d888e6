"""Errors of a database that stands on the log; the family is `virtuallog.errors`."""

from __future__ import annotations

import attrs

from virtuallog.errors import TerminalError


@attrs.define
class SnapshotNeededError(TerminalError):
    """The log has been trimmed past the cursor of this replica: it cannot be played on from here. Put a newer snapshot
    under the replica, and start it again."""

    cursor: int
    first: int
    """First position that is still in the log."""

    def __str__(self) -> str:
        return f"the replica stands at {self.cursor}, the log starts at {self.first}: it needs a snapshot"
