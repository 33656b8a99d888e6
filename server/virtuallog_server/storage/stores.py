"""The stores of a data directory. It knows durably which ones it has, so that a single missing one counts as lost.

    DIR/storage/ROLE, DIR/values/ROLE, DIR/stores/ROLE        a store of a role (server/virtuallog_server/storage/data_directory.py)
    DIR/founded.KIND.ROLE                                     an empty mark: this directory has that store
    DIR/founded                                               the marks are complete: a store without one was never there
    DIR/lost.KIND.ROLE                                        the store was lost, and its role has not founded it anew yet

A store is *founded* by its role, then marked, and only then does the role answer. So a store without a mark has received no
request, and is founded (again). A missing store with a mark has been lost: a mount that did not come up, a folder that was
moved away. Founded anew it would vote twice, or pass an empty copy off as whole. Its role is refused instead, as is a
directory without its identity.

A directory of a former version has no marks. The stores that exist are marked before any role opens. Any other one may have
been lost, unless no program of that version had it.

Some roles need no refusal: in their protocol they learn from others what a lost store has known, before they say anything.
They get to know that it was lost (`NodeEnvironment.is_lost`), also in a process that finds an empty store which the former
process had created and not founded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import DurableMap, Storage
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log

COMPLETE: Final = "founded"
"""Name of a file in the data directory, as are those below."""
LOST: Final = "lost"
FILES: Final = "storage"
VALUES: Final = "values"
REPLICAS: Final = "stores"
"""Folders of stores."""
RECOVERING: Final = frozenset({(VALUES, "paxos"), (REPLICAS, "database")})
"""Stores that other nodes restore. A replica of a paxos loglet recovers from a majority before it votes (docs/internals/protocols/paxos.md,
"Recovery"); a replica of a database installs a snapshot of another one. Any other lost store is lost with its directory.
"""
MARKED_FROM_THE_START: Final = frozenset({(FILES, "raft")})
"""Stores of roles that came after the marks: a directory without marks has never had them."""
_IN_STORE: Final = "founded"
"""A file in each folder of files, which is otherwise empty until its role writes something."""

_FOUNDED = CrashPoint("stores: a store is founded, the data directory does not say that it has it")


@attrs.define(eq=False)
class Stores:
    """The stores of one node's data directory. Use `open`."""

    _node: NodeId
    _root: Storage
    _data: Path
    """Path of the directory, for messages."""
    _present: set[tuple[str, str]]
    """Stores with any content when this process began, or founded by it, by folder and role."""
    _marked: set[str]
    """Names of all marks that the directory has."""
    _is_complete: bool

    @classmethod
    async def open(
        cls, node: NodeId, root: Storage, data: Path, present: Collection[tuple[str, str]], *, is_new: bool
    ) -> Stores:
        """Read the marks of a directory.

        Args:
            node: the node of the directory.
            root: the directory of the identity file.
            data: its path, for messages.
            present: the stores with any content.
            is_new: no peer can have asked this directory for anything before this process.

        Raises:
            StorageError: the disk failed.
        """
        names = set(await root.names())
        marked = {name for name in names if name.startswith((f"{COMPLETE}.", f"{LOST}."))}
        stores = cls(node, root, data, set(present), marked, COMPLETE in names)
        if is_new:
            await stores.complete()
        elif not stores._is_complete:  # a directory of a former version
            for kind, role in sorted(stores._present):
                await stores.mark(kind, role)
        return stores

    def is_lost(self, kind: str, role: str) -> bool:
        """True if the directory had this store, or may have had it, and has it no more."""
        if _lost_mark(kind, role) in self._marked:
            return True
        if (kind, role) in self._present:
            return False
        may_be_unmarked = not self._is_complete and (kind, role) not in MARKED_FROM_THE_START
        return _mark(kind, role) in self._marked or may_be_unmarked

    async def check(self, kind: str, role: str) -> None:
        """Check a store before it is opened, as opening creates a missing one.

        Raises:
            CorruptionError: it is lost.
            StorageError: the disk failed.
        """
        if not self.is_lost(kind, role):
            return
        await self.mark(kind, role)  # else it would look like one that was never there, once the marks are complete
        path = self._data / kind / role
        if (kind, role) in RECOVERING:
            # Opening it creates an empty one, which would look like one that is not lost.
            await self._create(_lost_mark(kind, role))
            log.warning("store lost", path=str(path), role=role, does="recovers from other nodes")
            return
        remedy = f"bring it back, or stop this node and give up its directory: `virtuallog node replace {self._node}`"
        raise CorruptionError(f"{path} is lost: this data directory had it, and it is gone or empty; {remedy}")

    async def mark(self, kind: str, role: str) -> None:
        """Mark that the directory has this store."""
        await self._create(_mark(kind, role))

    async def mark_founded(self, kind: str, role: str) -> None:
        """Mark that the directory has this store, and note that it exists: a role that begins anew in this process finds it."""
        await self.mark(kind, role)
        self._present.add((kind, role))
        if (lost := _lost_mark(kind, role)) in self._marked:
            await self._root.remove(lost)
            self._marked.remove(lost)

    async def complete(self) -> None:
        """Mark the directory as complete: from now on a store without a mark was never there."""
        await self._create(COMPLETE)
        self._is_complete = True

    def opening(
        self, storage: Callable[[str], Awaitable[Storage]], key_values: Callable[[str], Awaitable[DurableMap]]
    ) -> Opening:
        """The stores of one role that opens them through these ports."""
        return Opening(self, storage, key_values)

    async def _create(self, name: str) -> None:
        if name in self._marked:
            return
        if name not in await self._root.names():
            file = await self._root.create(name, 1)
            await file.close()
        self._marked.add(name)


@attrs.define(eq=False)
class Opening:
    """The stores of one role: checked as they are opened, marked once all of them are founded."""

    _stores: Stores
    _open_storage: Callable[[str], Awaitable[Storage]]
    _open_key_values: Callable[[str], Awaitable[DurableMap]]
    _files: dict[str, Storage] = attrs.field(factory=dict, init=False)
    _values: set[str] = attrs.field(factory=set, init=False)

    async def storage(self, role: str) -> Storage:
        """Check and open files (`NodePorts.storage`).

        Raises:
            CorruptionError: they are lost.
            StorageError: they cannot be opened.
        """
        await self._stores.check(FILES, role)
        self._files[role] = storage = await self._open_storage(role)
        return storage

    async def key_values(self, role: str) -> DurableMap:
        """Check and open a map (`NodePorts.key_values`); otherwise like `storage`."""
        await self._stores.check(VALUES, role)
        opened = await self._open_key_values(role)
        self._values.add(role)
        return opened

    def is_lost(self, role: str) -> bool:
        """True if the map was lost (`NodeEnvironment.is_lost`)."""
        return self._stores.is_lost(VALUES, role)

    async def founded(self) -> None:
        """Mark all stores that the role has opened: it has founded them."""
        if self._files or self._values:
            _FOUNDED.reached()
        for role, storage in self._files.items():
            if _IN_STORE not in await storage.names():
                file = await storage.create(_IN_STORE, 1)
                await file.close()
            await self._stores.mark_founded(FILES, role)
        for role in sorted(self._values):
            await self._stores.mark_founded(VALUES, role)


def _mark(kind: str, role: str) -> str:
    return f"{COMPLETE}.{kind}.{role}"


def _lost_mark(kind: str, role: str) -> str:
    return f"{LOST}.{kind}.{role}"
