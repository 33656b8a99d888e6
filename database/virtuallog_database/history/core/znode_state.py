"""State of one znode at one moment, with its data and its ACL, also if they have separate records.

A record says more than that: the number of its children, when one of them came last, and the number of the next
sequential one. These follow from the changes of the children, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from virtuallog_database.ports import RecordReader
from virtuallog_database.tree import keys
from virtuallog_database.tree.commands import Acl
from virtuallog_database.tree.execution import FOUNDING, find_acl, find_data, find_znode
from virtuallog_database.tree.records import ZnodeKind


@attrs.frozen(kw_only=True)
class ZnodeState:
    """A znode, without its name and its children."""

    kind: int
    """A `ZnodeKind`."""
    owner: int
    """Session of an ephemeral; time to live of a TTL znode, in milliseconds; else 0."""
    czxid: int
    version: int
    """Number of changes of the data."""
    aversion: int
    """Number of changes of the ACL."""
    data: bytes | None
    acl: tuple[Acl, ...]
    mzxid: int = attrs.field(eq=False)
    """Zxid of the last change of the data."""
    mtime_ms: int = attrs.field(eq=False)
    """Wall-clock time of that change, in milliseconds, by the clock of the proposer."""

    @property
    def identity(self) -> tuple[int, int, int]:
        """Facts that never change in the life of a znode. A later znode at the same path differs in them."""
        return self.czxid, self.kind, self.owner

    @property
    def size(self) -> int:
        """Bytes of the data."""
        return len(self.data or b"")

    @property
    def session(self) -> int:
        """Session of an ephemeral; 0 for other znodes."""
        return self.owner if self.kind == ZnodeKind.EPHEMERAL else 0


@attrs.frozen
class FoundedRecords:
    """A store in which the tree always has its first znodes, also before the first command puts them there."""

    _store: RecordReader

    def get(self, key: bytes) -> bytes | None:
        found = self._store.get(key)
        if found is None and key in FOUNDING and self._store.get(keys.META) is None:
            return FOUNDING[key]
        return found


@attrs.frozen
class ChangedRecords:
    """Records with changes that are not in them yet."""

    _former: RecordReader
    _changes: Mapping[bytes, bytes | None]

    def get(self, key: bytes) -> bytes | None:
        return self._changes[key] if key in self._changes else self._former.get(key)


def state_of(records: RecordReader, path: str) -> ZnodeState | None:
    """State of the znode at a path. None if there is none.

    Raises:
        CorruptionError: a record is torn or missing.
    """
    znode = find_znode(records, path)
    if znode is None:
        return None
    return ZnodeState(
        kind=znode.kind,
        owner=znode.owner,
        czxid=znode.czxid,
        version=znode.version,
        aversion=znode.aversion,
        data=find_data(records, path, znode),
        acl=find_acl(records, path, znode),
        mzxid=znode.mzxid,
        mtime_ms=znode.mtime,
    )
