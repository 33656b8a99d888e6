"""Answers about the past: znodes, lists, differences and changes, with values cut to a bound and without hashes of passwords."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_database.history.core.changes import ZnodeChange
from virtuallog_database.history.core.differences import ZnodeDifference
from virtuallog_database.history.core.znode_state import ZnodeState
from virtuallog_database.tree import acl
from virtuallog_database.tree.commands import Acl
from virtuallog_database.tree.records import ZnodeKind
from virtuallog_database.tree.results import Stat

_ACL_BYTES: Final = 200
"""Memory of an entry of an ACL, besides its texts."""


@attrs.frozen(kw_only=True)
class PastValue:
    """Data of a znode, or the first part of them."""

    size: int
    """Bytes of the whole data."""
    data: bytes | None
    """The first bytes. None if the znode has no data."""

    @property
    def is_cut(self) -> bool:
        """True if there are more."""
        return len(self.data or b"") < self.size

    @classmethod
    def of(cls, data: bytes | None, bytes_max: int) -> PastValue:
        return cls(size=len(data or b""), data=None if data is None else data[:bytes_max])


@attrs.frozen(kw_only=True)
class PastState:
    """State of a znode."""

    kind: ZnodeKind
    owner: int
    """Session of an ephemeral; time to live of a TTL znode, in milliseconds; else 0."""
    czxid: int
    mzxid: int
    mtime_ms: int
    version: int
    aversion: int
    value: PastValue
    acl: tuple[Acl, ...]

    @property
    def size(self) -> int:
        """Bytes of the part of the value that is here, and of the ACL."""
        return len(self.value.data or b"") + sum(len(each.scheme) + len(each.id) + _ACL_BYTES for each in self.acl)

    @classmethod
    def of(cls, state: ZnodeState | None, bytes_max: int) -> PastState | None:
        """None for None."""
        if state is None:
            return None
        return cls(
            kind=ZnodeKind(state.kind), owner=state.owner, czxid=state.czxid, mzxid=state.mzxid, mtime_ms=state.mtime_ms,
            version=state.version, aversion=state.aversion, value=PastValue.of(state.data, bytes_max),
            acl=acl.masked(state.acl),
        )  # fmt: skip


@attrs.frozen(kw_only=True)
class PastZnode:
    """A znode at a position."""

    path: str
    position: int
    zxid: int
    """Zxid of the last command before the position."""
    stat: Stat
    value: PastValue
    acl: tuple[Acl, ...]


@attrs.frozen(kw_only=True)
class PastChild:
    """A child at a position."""

    name: str
    stat: Stat


@attrs.frozen(kw_only=True)
class PastChildren:
    """Some children of a znode at a position, in the order of their names."""

    path: str
    position: int
    zxid: int
    total: int
    """Number of all children."""
    children: tuple[PastChild, ...]
    more_after: str | None
    """Name behind which the rest begins. None if there is no more."""


@attrs.frozen(kw_only=True)
class PastDifference:
    """A znode that differs at two positions."""

    path: str
    kind: str
    """added, removed, changed or replaced."""
    fields: tuple[str, ...]
    """Names of the fields that differ, of a znode that is there at both."""
    before: PastState | None
    after: PastState | None

    @property
    def size(self) -> int:
        """Bytes of both states."""
        return sum(each.size for each in (self.before, self.after) if each is not None)

    @classmethod
    def of(cls, found: ZnodeDifference, bytes_max: int) -> PastDifference:
        return cls(
            path=found.path, kind=found.kind.value, fields=found.fields,
            before=PastState.of(found.before, bytes_max), after=PastState.of(found.after, bytes_max),
        )  # fmt: skip


@attrs.frozen(kw_only=True)
class PastDifferences:
    """Some differences between two positions, in the order of their paths."""

    path: str
    start: int
    stop: int
    compared: int
    """Znodes that were compared: those whose records entries in between have written."""
    differences: tuple[PastDifference, ...]
    more_after: str | None
    """Path behind which the rest begins. None if there is no more."""


@attrs.frozen(kw_only=True)
class PastChange:
    """One change of one znode."""

    position: int
    """Position of the entry."""
    time_ms: int
    path: str
    effect: str
    """created, deleted, data or acl."""
    cause: str
    """The operation, or other work of the database: see `virtuallog_database.history.core.changes.Cause`."""
    zxid: int
    session: int
    """Session of the client; 0 for work of servers."""
    client: tuple[str, ...]
    """Identities of the client, as scheme:id."""
    state: PastState
    """State after the change; of a deleted znode, the one before."""

    @property
    def size(self) -> int:
        """Bytes of the state."""
        return self.state.size

    @classmethod
    def of(cls, change: ZnodeChange, bytes_max: int) -> PastChange:
        state = PastState.of(change.after or change.before, bytes_max)
        assert state is not None, "a change has a state before or after"
        named = acl.masked(tuple(Acl(0, each.scheme, each.id) for each in change.origin.identities))
        return cls(
            position=change.position, time_ms=change.time_ms, path=change.path, effect=change.effect.value,
            cause=change.cause.value, zxid=change.zxid, session=change.origin.session,
            client=tuple(f"{each.scheme}:{each.id}" for each in named), state=state,
        )  # fmt: skip


@attrs.frozen(kw_only=True)
class PastChanges:
    """Some changes in a range of the log, in their order."""

    path: str
    start: int
    stop: int
    changes: tuple[PastChange, ...]
    more_from: int | None
    """Position from which the rest begins. None if there is no more."""
    dropped: int
    """Earlier changes of the range that were left out, as only the last ones were asked for."""
    state: PastState | None
    """State of the znode at the path where the answer ends. None if there was no such znode."""
