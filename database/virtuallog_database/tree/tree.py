"""Reads of the tree: the applied state of one replica.

Every method answers at once, from the local store. It sees everything that this replica has applied
and nothing else, so the result may be older than what other clients have seen (docs/reference/promises.md).
`identities` are the reader's: rights are checked here.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.ports import StoreReader
from virtuallog_database.tree import acl, bounds, keys, paths
from virtuallog_database.tree.acl import ADMIN, READ
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Identity
from virtuallog_database.tree.execution import FOUNDING, find_acl, find_data, find_session
from virtuallog_database.tree.records import (
    APART_BYTES,
    Meta,
    SeparateRecord,
    SessionRecord,
    Znode,
    decode_meta,
    decode_session,
    decode_znode,
)
from virtuallog_database.tree.results import Error, RefusedError, Stat

Identities: TypeAlias = tuple[Identity, ...]

_CHILD_LOOK: Final = 256
"""Work of a read for each name of a child, in bytes: 1.5 us, as for 200 bytes of records."""
_SCAN_CHILDREN: Final = 4
"""Fixed cost of a scan, in names of children."""


class _Founding:
    """Stand-in for the store before the first command: nothing of the tree is stored yet."""

    def get(self, key: bytes) -> bytes | None:
        return FOUNDING.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        start, stop = span
        return sorted((key, value) for key, value in FOUNDING.items() if start <= key < stop)[:count]


@attrs.define(eq=False)
class Tree:
    """Reads of the tree. Methods raise RefusedError with ZooKeeper's error, unless they say
    otherwise."""

    _store: StoreReader
    last_zxid: int = attrs.field(init=False)
    """Zxid of the last command, as of the last call of `applied`."""
    looked: int = attrs.field(default=0, init=False)
    """Work of the reads so far, in bytes (`bounds`): records that were looked at, 64 for each look,
    and 256 for each child."""
    looked_at_acls: int = attrs.field(default=0, init=False)
    """Share of the work that long ACLs have taken."""
    _reading: StoreReader = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.load()

    def load(self) -> None:
        """Read the store anew, after its state was replaced."""
        is_founded = self._store.get(keys.META) is not None
        self._reading = self._store if is_founded else _Founding()
        self.last_zxid = self.meta.zxid

    def applied(self, zxid: int) -> None:
        """Note that a command is in the store."""
        self._reading = self._store
        self.last_zxid = zxid

    @property
    def meta(self) -> Meta:
        """Counters of the whole tree."""
        blob = self._reading.get(keys.META)
        assert blob is not None
        return decode_meta(blob)

    def get_data(self, path: str, identities: Identities) -> tuple[bytes | None, Stat]:
        znode = self._readable(path, identities)
        data = znode.data
        if isinstance(data, SeparateRecord):
            self.looked += bounds.LOOK + len(data)
            data = find_data(self._reading, path, znode)
        return data, znode.stat()

    def exists(self, path: str) -> Stat:
        """Stat of a znode. Needs no right, as in ZooKeeper 3.8."""
        return self._znode(path).stat()

    def look(self, path: str) -> tuple[Stat, tuple[Acl, ...]]:
        """A stat, and the ACL as it is stored: for the replica itself, which checks rights by it."""
        znode = self._znode(path)
        return znode.stat(), self._acl(path, znode)

    def get_children(self, path: str, identities: Identities) -> tuple[list[str], Stat]:
        """Names of the children, sorted."""
        stat = self._readable(path, identities).stat()
        if not stat.children:
            return [], stat
        start = len(keys.children(path)[0])
        self.looked += _CHILD_LOOK * (stat.children + _SCAN_CHILDREN)
        return [keys.decoded(key[start:]) for key, _ in keys.scan_all(self._reading, keys.children(path))], stat

    def get_children_behind(
        self, path: str, identities: Identities, after: str, count: int, work_max: int
    ) -> tuple[list[tuple[str, Stat]], bool]:
        """Children with names behind `after`, sorted, each with its stat; and True if there are more.

        Ends behind `count` of them, or behind `work_max` bytes of records.
        """
        self._readable(path, identities)
        start, stop = keys.children(path)
        pairs = self._reading.scan((keys.child(path, after) + b"\0" if after else start, stop), count + 1)
        self.looked += _CHILD_LOOK * (len(pairs) + _SCAN_CHILDREN)
        found: list[tuple[str, Stat]] = []
        most = self.looked + work_max
        for key, _ in pairs[:count]:
            name = keys.decoded(key[len(start) :])
            found.append((name, self._znode(f"{path.rstrip('/')}/{name}").stat()))
            if self.looked > most:
                break
        return found, len(found) < len(pairs)

    def count_ephemerals(self, session: int, most: int) -> int:
        """Number of the session's ephemerals; `most` if there are more. Refuses no caller."""
        return len(self._reading.scan(keys.ephemerals(session), most))

    def sessions_behind(self, after: int, count: int) -> dict[int, SessionRecord]:
        """The next `count` sessions behind this number, in the order of their numbers."""
        start, stop = keys.SESSIONS
        span = (max(start, keys.session(after) + b"\0"), stop)
        return {keys.session_of(key): decode_session(blob) for key, blob in self._reading.scan(span, count)}

    def get_acl(self, path: str, identities: Identities) -> tuple[tuple[Acl, ...], Stat]:
        """ACL of a znode. Hashes of passwords are hidden from clients that may not change them."""
        znode = self._znode(path)
        rights = self._acl(path, znode)
        acl.check(rights, READ | ADMIN, identities)
        is_shown = acl.allows(rights, ADMIN, identities)
        return rights if is_shown else acl.masked(rights), znode.stat()

    def get_ephemerals(self, session: int, prefix: str) -> list[str]:
        """Paths of the session's ephemerals that start with `prefix`, sorted. Refuses no caller."""
        owned = (keys.decoded(key[9:]) for key, _ in keys.scan_all(self._reading, keys.ephemerals(session)))
        return [path for path in owned if path.startswith(prefix)]

    def count_descendants(self, path: str, identities: Identities) -> int:
        """Number of descendants. Looks at each of them, except for the root: the whole tree is
        counted already."""
        self._readable(path, identities)
        if path == paths.ROOT:
            return self.meta.znodes - 1
        return sum(1 for _ in keys.scan_all(self._reading, keys.znodes_below(path), keys.ZNODES_COUNT))

    def session(self, session: int) -> SessionRecord | None:
        """Record of a session. None if there is none, any more or yet. Refuses no caller."""
        return find_session(self._reading, session)

    def sessions(self) -> dict[int, SessionRecord]:
        """All sessions, in order of their numbers."""
        return {keys.session_of(key): decode_session(blob) for key, blob in keys.scan_all(self._reading, keys.SESSIONS)}

    def some_sessions(self, count: int) -> dict[int, SessionRecord]:
        """The first `count` sessions, in order of their numbers."""
        return {keys.session_of(key): decode_session(blob) for key, blob in self._reading.scan(keys.SESSIONS, count)}

    def some_ephemerals(self, count: int) -> dict[int, list[str]]:
        """Ephemerals by session: at most `count` paths in all, in order of the numbers of sessions.
        Refuses no caller."""
        found: dict[int, list[str]] = {}
        for key, _ in self._reading.scan(keys.EPHEMERALS, count):
            found.setdefault(keys.session_of(key), []).append(keys.decoded(key[9:]))
        return found

    def reapable(self, after: str, count: int) -> list[tuple[str, Znode]]:
        """The next `count` containers and TTL znodes behind this path, in order of their paths."""
        start, stop = keys.REAPABLE
        pairs = self._reading.scan((max(start, keys.reapable(after) + b"\0"), stop), count)
        return [(path, self._znode(path)) for path in (keys.decoded(key[1:]) for key, _ in pairs)]

    def _znode(self, path: str) -> Znode:
        blob = self._reading.get(keys.znode(path))
        if blob is None:
            self.looked += bounds.LOOK
            raise RefusedError(Error.NO_NODE)
        self.looked += bounds.LOOK + len(blob)
        znode = decode_znode(blob)
        if znode.acl is not OPEN_ACL and len(blob) > 3 * APART_BYTES:  # of the former version
            self._count_acl(len(blob) - len(znode.data or b""))
        return znode

    def _readable(self, path: str, identities: Identities) -> Znode:
        znode = self._znode(path)
        if znode.acl is not OPEN_ACL:
            acl.check(self._acl(path, znode), READ, identities)
        return znode

    def _acl(self, path: str, znode: Znode) -> tuple[Acl, ...]:
        if isinstance(znode.acl, SeparateRecord):
            self._count_acl(len(znode.acl))
        return find_acl(self._reading, path, znode)

    def _count_acl(self, size: int) -> None:
        work = bounds.LOOK + bounds.ACL_LOOKS * size
        self.looked += work
        self.looked_at_acls += work
