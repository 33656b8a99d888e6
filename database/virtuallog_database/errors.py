"""Errors of a database on the log; the family is `virtuallog.contract.errors`."""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import TerminalError


@attrs.define
class SnapshotNeededError(TerminalError):
    """The log was trimmed past this replica's cursor, so the replica cannot play on from here.
    Install a newer snapshot under the replica and start it again."""

    cursor: int
    first: int
    """First position that is still in the log."""

    def __str__(self) -> str:
        return f"the replica stands at {self.cursor}, the log starts at {self.first}: it needs a snapshot"


@attrs.define
class BinaryTooOldError(TerminalError):
    """The state uses an engine, or the log holds a command, that this program does not know. It
    must not go on: replicas with a newer program do what it cannot. Start a newer version on the
    same data."""

    reason: str

    def __str__(self) -> str:
        return self.reason
