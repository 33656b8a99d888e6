"""Difference of a znode between two states of the tree."""

from __future__ import annotations

import enum

import attrs

from virtuallog_database.history.core.znode_state import ZnodeState, state_of
from virtuallog_database.ports import RecordReader


class DifferenceKind(enum.StrEnum):
    """Kinds of a difference."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REPLACED = "replaced"
    """Deleted, and created again."""


@attrs.frozen
class ZnodeDifference:
    """A znode that is not the same in two states of the tree. One of the two is there."""

    path: str
    before: ZnodeState | None
    """None if there was no such znode."""
    after: ZnodeState | None
    """None if there is no such znode any more."""

    @property
    def kind(self) -> DifferenceKind:
        if self.before is None:
            return DifferenceKind.ADDED
        if self.after is None:
            return DifferenceKind.REMOVED
        return DifferenceKind.CHANGED if self.before.identity == self.after.identity else DifferenceKind.REPLACED

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of `ZnodeState` that differ. Empty unless both states are there."""
        before, after = self.before, self.after
        if before is None or after is None:
            return ()
        names = ("kind", "owner", "czxid", "version", "aversion", "data", "acl")
        return tuple(name for name in names if getattr(before, name) != getattr(after, name))


def difference_at(path: str, before: RecordReader, after: RecordReader) -> ZnodeDifference | None:
    """Difference of the znode at a path. None if there is none.

    Raises:
        CorruptionError: a record is torn or missing.
    """
    former, now = state_of(before, path), state_of(after, path)
    return None if former == now else ZnodeDifference(path, former, now)
