"""Watches: notify a watcher when a znode changes. Soft state of one replica.

As in ZooKeeper there are two tables. *data* is for the znode itself (set by reads of its data and
by `exists`, also for a missing znode), *child* for the names of its children. A watch that was added
with a mode stands in both. A standard watch fires once. Watches of one watcher on one path do not
affect each other if their modes differ, as in ZooKeeper from 3.9 on (ZOOKEEPER-4466): one client may
hold a recursive watch of a tree and read the same znodes with watches, as Curator's caches do.

A watcher is notified only of what it may read when the change happens. A change of a znode needs
READ from its ACL (that before a removal); a change of children needs it from the parent's
(CVE-2024-23944; as ZooKeeper from 3.8.4 and 3.9.2 on). A standard watch is used up in either case.
To set a watch takes no right.

The order is what makes watches useful: `fire` is called while a command is applied, in the order of
zxids, before any client can read the change, and before the command itself is answered. A watcher
must send the notification ahead of its later replies.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import attrs

from virtuallog_database.tree import paths
from virtuallog_database.tree.acl import READ, PermittedIdentities
from virtuallog_database.tree.acl_codec import decode_acl
from virtuallog_database.tree.commands import OPEN_ACL, Identity
from virtuallog_database.tree.results import Change, ChangeKind, Error, RefusedError, Rights, StoredAcl

RECURSIVE_DEPTH_MAX: Final = 256
"""Names in a path with a recursive watch. A change looks up at most so many znodes above it."""
READERS_MAX: Final = 256
"""Cached ACLs of one command in comparable form: more than the long ones that a command may look at
(`bounds`)."""
PER_WATCHER_MAX: Final = 100_000
"""Paths that one watcher watches, in each table."""
PATH_CHARACTERS_MAX: Final = 32 << 20
"""Characters of these paths, in each table."""


class Watcher(Protocol):
    """Receiver of notifications; usually a connection. Compared by identity."""

    @property
    def identities(self) -> tuple[Identity, ...]:
        """Its present identities: rights are checked when a watch fires."""
        ...

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        """Notify of a change. Must not block, must not raise, and must not set watches."""
        ...


class WatchMode(enum.IntEnum):
    """Kinds of watches. Values of `PERSISTENT` and `PERSISTENT_RECURSIVE` are ZooKeeper's."""

    STANDARD = -1
    PERSISTENT = 0
    """Fires any number of times, for this one path."""
    PERSISTENT_RECURSIVE = 1
    """For this path and everything below it; creations, deletions and data, but no change of
    children."""


_BITS: Final = {mode: 1 << number for number, mode in enumerate(WatchMode)}
"""Modes of one watcher on one path are kept as a sum of these."""
_STANDARD: Final = _BITS[WatchMode.STANDARD]
_RECURSIVE: Final = _BITS[WatchMode.PERSISTENT_RECURSIVE]
_ALL: Final = sum(_BITS.values())


class WatchTable:
    """One of the two tables."""

    count: int = 0
    """Pairs of a watcher and a path: watches that differ in their mode alone count once."""

    def __init__(self) -> None:
        self._modes: dict[str, dict[Watcher, int]] = {}
        """Modes of each watcher by path, as bits."""
        self._paths: dict[Watcher, dict[str, None]] = {}
        self._characters: dict[Watcher, int] = {}
        """Characters of each watcher's paths."""
        self._recursive: Counter[int] = Counter()
        """Number of recursive watches by the length of their paths. Of the znodes above a change,
        only those with a path of such a length are looked up."""
        self._longest = 0
        """Length of the longest path with a recursive watch."""

    def add(self, path: str, watcher: Watcher, mode: WatchMode = WatchMode.STANDARD) -> None:
        """Add a watch. Raises RefusedError: BAD_ARGUMENTS: the watcher has too many."""
        watched = self._paths.get(watcher, {})
        if path not in watched:
            characters = self._characters.get(watcher, 0) + len(path)
            if len(watched) >= PER_WATCHER_MAX or characters > PATH_CHARACTERS_MAX:
                raise RefusedError(Error.BAD_ARGUMENTS)
            self.count += 1
            self._characters[watcher] = characters
            self._paths.setdefault(watcher, watched)[path] = None
        modes = self._modes.setdefault(path, {})
        former = modes.get(watcher, 0)
        modes[watcher] = former | _BITS[mode]
        if mode is WatchMode.PERSISTENT_RECURSIVE and not former & _RECURSIVE:
            self._count_recursive(path, 1)

    def remove(self, path: str, watcher: Watcher, mode: WatchMode | None = None) -> bool:
        """Remove the watch of this mode, or by default those of all modes; returns True if there was
        one."""
        modes = self._modes.get(path)
        if modes is None or watcher not in modes:
            return False
        former = modes[watcher]
        left = former & ~_bits(mode)
        if (former ^ left) & _RECURSIVE:
            self._count_recursive(path, -1)
        if left:
            modes[watcher] = left
            return left != former
        del modes[watcher]
        self.count -= 1
        if not modes:
            del self._modes[path]
        watched = self._paths[watcher]
        del watched[path]
        self._characters[watcher] -= len(path)
        if not watched:
            del self._paths[watcher], self._characters[watcher]
        return True

    def remove_all(self, watcher: Watcher) -> None:
        for path in list(self._paths.get(watcher, ())):
            self.remove(path, watcher)

    def contains(self, path: str, watcher: Watcher, mode: WatchMode | None = None) -> bool:
        """True if the watcher has a watch of this mode, or by default of any mode."""
        return self._modes.get(path, {}).get(watcher, 0) & _bits(mode) != 0

    def paths_of(self, watcher: Watcher) -> Iterable[str]:
        """Paths of a watcher, in the order in which they were added."""
        return self._paths.get(watcher, {}).keys()

    def count_at(self, path: str) -> int:
        """Number of watches on exactly this path."""
        return len(self._modes.get(path, ()))

    def items(self) -> Iterator[tuple[str, Sequence[Watcher]]]:
        """Paths with their watchers."""
        return ((path, list(modes)) for path, modes in self._modes.items())

    def take(self, path: str, kind: ChangeKind) -> dict[Watcher, None]:
        """Watchers to notify of this change, in order and each once. Removes their standard
        watches."""
        told: dict[Watcher, None] = {}
        for watcher, modes in list(self._modes.get(path, {}).items()):
            if modes == _RECURSIVE and kind is ChangeKind.CHILDREN_CHANGED:
                continue
            told[watcher] = None
            if modes & _STANDARD:
                self.remove(path, watcher, WatchMode.STANDARD)
        if self._recursive and kind is not ChangeKind.CHILDREN_CHANGED:
            told |= self._above(path)
        return told

    def _above(self, path: str) -> dict[Watcher, None]:
        """Watchers of whole trees that `path` is in. The time depends on the path, not on the
        number of watches."""
        found: dict[Watcher, None] = {}
        length = 0
        while 0 <= length <= self._longest:
            if length in self._recursive:
                watchers = self._modes.get(path[:length] or paths.ROOT, {})
                found |= {each: None for each, modes in watchers.items() if modes & _RECURSIVE}
            length = path.find("/", length + 1)
        return found

    def _count_recursive(self, path: str, change: int) -> None:
        length = 0 if path == paths.ROOT else len(path)  # descendants go on with a slash
        self._recursive[length] += change
        self._longest = max(self._longest, length)
        if not self._recursive[length]:
            del self._recursive[length]
        if not self._recursive:
            self._longest = 0


def _bits(mode: WatchMode | None) -> int:
    return _ALL if mode is None else _BITS[mode]


class _Readers:
    """Clients that one ACL lets read. The list is parsed once, and compared with the same
    identities once."""

    def __init__(self, acl: StoredAcl) -> None:
        self.acl: Final = acl
        """Referenced, as the cache is keyed by its address."""
        self._holders = PermittedIdentities(decode_acl(acl) if isinstance(acl, bytes) else acl, READ)
        self._known: dict[tuple[Identity, ...], bool] = {}

    def include(self, identities: tuple[Identity, ...]) -> bool:
        known = self._known.get(identities)
        if known is None:
            known = self._known[identities] = self._holders.include(identities)
        return known


@attrs.define(eq=False)
class Watches:
    """All watches of one replica."""

    data: WatchTable = attrs.field(factory=WatchTable)
    child: WatchTable = attrs.field(factory=WatchTable)
    _readers: dict[int, _Readers] = attrs.field(factory=dict, init=False)
    """Readers of the ACLs in one command's changes, by address: a multi may change a znode with a
    long ACL many times."""
    _zxid: int = attrs.field(default=0, init=False)
    """Zxid of that command."""

    @property
    def count(self) -> int:
        return self.data.count + self.child.count

    def add(self, path: str, watcher: Watcher, mode: WatchMode) -> None:
        """Add a watch to both tables: ZooKeeper's addWatch.

        Raises:
            RefusedError: BAD_ARGUMENTS: a recursive one on a path of more than
                `RECURSIVE_DEPTH_MAX` names; or the watcher has too many.
        """
        if mode is WatchMode.PERSISTENT_RECURSIVE and path.count("/") > RECURSIVE_DEPTH_MAX:
            raise RefusedError(Error.BAD_ARGUMENTS)
        self.data.add(path, watcher, mode)
        self.child.add(path, watcher, mode)

    def remove_all(self, watcher: Watcher) -> None:
        """Remove all watches of a watcher."""
        self.data.remove_all(watcher)
        self.child.remove_all(watcher)

    def fire(self, change: Change, zxid: int, rights: Rights) -> None:
        """Notify all watchers that may read the change, each at most once for each znode: the
        changed one, then its parent."""
        kind, path = change
        acl, parent_acl = rights
        told = self.data.take(path, kind)
        if kind is not ChangeKind.DATA_CHANGED:
            if kind is ChangeKind.DELETED:
                told |= self.child.take(path, kind)
            self._tell(told, kind, path, zxid, acl)
            kind, path, acl = ChangeKind.CHILDREN_CHANGED, paths.parent_of(path), parent_acl
            told = self.child.take(path, kind)
        self._tell(told, kind, path, zxid, acl)

    def _tell(self, watchers: Iterable[Watcher], kind: ChangeKind, path: str, zxid: int, acl: StoredAcl) -> None:
        readers = None if acl is OPEN_ACL or not watchers else self._readers_of(acl, zxid)
        for watcher in watchers:
            if readers is None or readers.include(watcher.identities):
                watcher.fire(kind, path, zxid)

    def _readers_of(self, acl: StoredAcl, zxid: int) -> _Readers:
        if zxid != self._zxid or len(self._readers) >= READERS_MAX:
            self._readers, self._zxid = {}, zxid
        found = self._readers.get(id(acl))
        if found is None:
            found = self._readers[id(acl)] = _Readers(acl)
        return found
