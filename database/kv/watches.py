"""Watches: who wants to be told when a znode changes. Soft state of one replica.                                   Pure.

As in ZooKeeper 3.8 there are two tables. *data* is for the znode itself (set by reads of its data and by `exists`, also while
there is none), *child* for the names of its children. A watch that was added with a mode stands in both. A standard watch fires
once. A later watch by the same watcher on the same path and table takes the place of the earlier one.

The order is what makes watches useful: `fire` is called while a command is applied, in the order of zxids, before anybody can
read what changed and before the command itself is answered. A watcher that is told must put it in front of what it says later.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Protocol

import attrs

from database.kv import paths
from database.kv.results import Change, ChangeKind


class Watcher(Protocol):
    """Somebody who watches; a connection, as a rule. Compared by identity."""

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        """The znode has changed. Must not block, must not raise, and must not set watches."""
        ...


class WatchMode(enum.IntEnum):
    """Values of `PERSISTENT` and `PERSISTENT_RECURSIVE` are ZooKeeper's."""

    STANDARD = -1
    PERSISTENT = 0
    """Fires any number of times, for this one path."""
    PERSISTENT_RECURSIVE = 1
    """For this path and everything below it; creations, deletions and data, but no change of children."""


class WatchTable:
    """One of the two tables."""

    count: int = 0

    def __init__(self) -> None:
        self._modes: dict[str, dict[Watcher, WatchMode]] = {}
        self._paths: dict[Watcher, dict[str, None]] = {}
        self._recursive = 0

    def add(self, path: str, watcher: Watcher, mode: WatchMode = WatchMode.STANDARD) -> None:
        modes = self._modes.setdefault(path, {})
        former = modes.get(watcher)
        if former is None:
            self.count += 1
            self._paths.setdefault(watcher, {})[path] = None
        self._recursive += (mode is WatchMode.PERSISTENT_RECURSIVE) - (former is WatchMode.PERSISTENT_RECURSIVE)
        modes[watcher] = mode

    def remove(self, path: str, watcher: Watcher) -> bool:
        """Whether there was one."""
        modes = self._modes.get(path)
        if modes is None or watcher not in modes:
            return False
        self._recursive -= modes.pop(watcher) is WatchMode.PERSISTENT_RECURSIVE
        self.count -= 1
        if not modes:
            del self._modes[path]
        watched = self._paths[watcher]
        del watched[path]
        if not watched:
            del self._paths[watcher]
        return True

    def remove_all(self, watcher: Watcher) -> None:
        for path in list(self._paths.get(watcher, ())):
            self.remove(path, watcher)

    def contains(self, path: str, watcher: Watcher) -> bool:
        return watcher in self._modes.get(path, ())

    def paths_of(self, watcher: Watcher) -> list[str]:
        return list(self._paths.get(watcher, ()))

    def items(self) -> Iterator[tuple[str, Sequence[Watcher]]]:
        """Paths with those who watch them."""
        return ((path, list(modes)) for path, modes in self._modes.items())

    def take(self, path: str, kind: ChangeKind) -> list[Watcher]:
        """Who is to be told of this change; standard watches are gone with it."""
        if not self._modes:
            return []
        told = list(self._modes.get(path, ()))
        if told:
            modes = self._modes[path]
            if kind is ChangeKind.CHILDREN_CHANGED:
                told = [each for each in told if modes[each] is not WatchMode.PERSISTENT_RECURSIVE]
            for watcher in told:
                if modes[watcher] is WatchMode.STANDARD:
                    self.remove(path, watcher)
        if self._recursive and kind is not ChangeKind.CHILDREN_CHANGED:
            told += [each for each in self._above(path) if each not in told]
        return told

    def _above(self, path: str) -> dict[Watcher, None]:
        """Those who watch the whole of a tree that `path` is in."""
        found: dict[Watcher, None] = {}
        while path != "/":
            path = paths.parent_of(path)
            for watcher, mode in self._modes.get(path, {}).items():
                if mode is WatchMode.PERSISTENT_RECURSIVE:
                    found[watcher] = None
        return found


@attrs.define(eq=False)
class Watches:
    """All watches of one replica."""

    data: WatchTable = attrs.field(factory=WatchTable)
    child: WatchTable = attrs.field(factory=WatchTable)

    @property
    def count(self) -> int:
        return self.data.count + self.child.count

    def add(self, path: str, watcher: Watcher, mode: WatchMode) -> None:
        """ZooKeeper's addWatch: both tables."""
        self.data.add(path, watcher, mode)
        self.child.add(path, watcher, mode)

    def remove_all(self, watcher: Watcher) -> None:
        """The watcher is gone."""
        self.data.remove_all(watcher)
        self.child.remove_all(watcher)

    def fire(self, change: Change, zxid: int) -> None:
        """Tell everybody concerned, each at most once for each znode: the one that changed, then its parent."""
        kind, path = change
        told = self.data.take(path, kind)
        if kind is not ChangeKind.DATA_CHANGED:
            if kind is ChangeKind.DELETED:
                told += [each for each in self.child.take(path, kind) if each not in told]
            self._tell(told, kind, path, zxid)
            kind, path = ChangeKind.CHILDREN_CHANGED, paths.parent_of(path)
            told = self.child.take(path, kind)
        self._tell(told, kind, path, zxid)

    @staticmethod
    def _tell(watchers: list[Watcher], kind: ChangeKind, path: str, zxid: int) -> None:
        for watcher in watchers:
            watcher.fire(kind, path, zxid)
