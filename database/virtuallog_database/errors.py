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


@attrs.define
class NoPastStateError(TerminalError):
    """The state of a database at a position of the past cannot be made any more: the log before it was trimmed, and no
    snapshot is kept that is old enough. Ask for a later position, or name a place of backups that reaches so far back."""

    position: int
    reason: str

    def __str__(self) -> str:
        return f"the state at position {self.position} cannot be made any more: {self.reason}"


@attrs.define
class BeforeFirstEntryError(TerminalError):
    """A time lies before the first entry that the log still has. Ask for a later time, or for a position."""

    first: int
    """Position of the first entry."""
    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class NoSuchZnodeError(TerminalError):
    """The tree has no such znode at the position asked for."""

    path: str
    position: int

    def __str__(self) -> str:
        return f"there is no znode {self.path} at position {self.position}"
