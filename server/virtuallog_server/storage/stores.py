"""The stores of a data directory: which of them it has, durably, so that one which is gone alone counts as lost.

    DIR/storage/ROLE, DIR/values/ROLE, DIR/stores/ROLE        a store of a role (server/virtuallog_server/storage/data_directory.py)
    DIR/founded.KIND.ROLE                                     an empty mark: this directory has that store
    DIR/founded                                               the marks are complete: what has none was never there
    DIR/lost.KIND.ROLE                                        the store was lost, and its role has not founded it anew yet

A store is *founded* by its role, then marked, and only then does the role answer anybody. So a store without a mark has been asked for
nothing, and is founded (again); one with a mark that is not there has been lost: a mount that did not come up, a folder that was moved away.
Founded anew it would vote twice, or call an empty copy whole. Its role is refused instead, as a directory without its identity is.

A directory of a former version has no marks. It has had all that is there, which is marked before any role opens, and whatever is not
there may have been lost.

Some roles need no refusal: their protocol tells them from others what a lost store has known, before they say anything. They are told
that it was lost (`NodeEnvironment.is_lost`), also by a process that finds an empty store which the one before it had made and not founded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final

import attrs
import structlog

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import DurableMap, Storage
from virtuallog.contract.types import NodeId

COMPLETE: Final = "founded"
"""Name of a file in the data directory, as are those below."""
LOST: Final = "lost"
FILES: Final = "storage"
VALUES: Final = "values"
REPLICAS: Final = "stores"
"""The folders that stores are in."""
RECOVERING: Final = frozenset({(VALUES, "paxos"), (REPLICAS, "database")})
"""Stores that others give back: a replica of a paxos loglet recovers from a majority before it votes (docs/internals/protocols/paxos.md, "Recovery"),
that of a database installs a snapshot of another one. Any other store that is lost is lost with its directory."""
_IN_STORE: Final = "founded"
"""A file in a folder of files, which is empty until its role has written something."""

log = structlog.get_logger(__name__)

_FOUNDED = CrashPoint("stores: a store is founded, the data directory does not say that it has it")


@attrs.define(eq=False)
class Stores:
    """Of the data directory of one node. Use `open`."""

    _node: NodeId
    _root: Storage
    _data: Path
    """For people."""
    _present: set[tuple[str, str]]
    """Stores of which anything was there when this process began, or that it has founded, by folder and role."""
    _marked: set[str]
    """Names of all marks that the directory has."""
    _is_complete: bool

    @classmethod
    async def open(
        cls, node: NodeId, root: Storage, data: Path, present: Collection[tuple[str, str]], *, is_new: bool
    ) -> Stores:
        """Read the marks of a directory.

        Args:
            node: that it is of.
            root: where its identity file lies.
            data: where that is, for people.
            present: the stores of which anything is there.
            is_new: nobody can have asked this directory for anything before this process.

        Raises:
            StorageError: the disk failed.
        """
        names = set(await root.names())
        marked = {name for name in names if name.startswith((f"{COMPLETE}.", f"{LOST}."))}
        stores = cls(node, root, data, set(present), marked, COMPLETE in names)
        if is_new:
            await stores.complete()
        elif not stores._is_complete:  # of a former version
            for kind, role in sorted(stores._present):
                await stores.mark(kind, role)
        return stores

    def is_lost(self, kind: str, role: str) -> bool:
        """Whether the directory had this store, or may have had it, and has it no more."""
        if _lost_mark(kind, role) in self._marked:
            return True
        if (kind, role) in self._present:
            return False
        return _mark(kind, role) in self._marked or not self._is_complete

    async def check(self, kind: str, role: str) -> None:
        """To be called before a store is opened: opening makes what is not there.

        Raises:
            CorruptionError: it is lost.
            StorageError: the disk failed.
        """
        if not self.is_lost(kind, role):
            return
        await self.mark(kind, role)  # else it would look like one that was never there, once the marks are complete
        path = self._data / kind / role
        if (kind, role) in RECOVERING:
            await self._create(
                _lost_mark(kind, role)
            )  # opening it makes an empty one, that looks like one which is not lost
            log.warning("store lost", path=str(path), role=role, does="recovers from other nodes")
            return
        remedy = f"bring it back, or stop this node and give up its directory: `virtuallog node replace {self._node}`"
        raise CorruptionError(f"{path} is lost: this data directory had it, and it is gone or empty; {remedy}")

    async def mark(self, kind: str, role: str) -> None:
        """From now on the directory has this store."""
        await self._create(_mark(kind, role))

    async def mark_founded(self, kind: str, role: str) -> None:
        """The same, and it is there: a role that begins anew in this process finds it."""
        await self.mark(kind, role)
        self._present.add((kind, role))
        if (lost := _lost_mark(kind, role)) in self._marked:
            await self._root.remove(lost)
            self._marked.remove(lost)

    async def complete(self) -> None:
        """From now on a store without a mark was never there."""
        await self._create(COMPLETE)
        self._is_complete = True

    def opening(
        self, storage: Callable[[str], Awaitable[Storage]], key_values: Callable[[str], Awaitable[DurableMap]]
    ) -> Opening:
        """For one role that opens its stores through these ports."""
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
        """`NodePorts.storage`.

        Raises:
            CorruptionError: it is lost.
            StorageError: it cannot be opened.
        """
        await self._stores.check(FILES, role)
        self._files[role] = storage = await self._open_storage(role)
        return storage

    async def key_values(self, role: str) -> DurableMap:
        """`NodePorts.key_values`; otherwise like `storage`."""
        await self._stores.check(VALUES, role)
        opened = await self._open_key_values(role)
        self._values.add(role)
        return opened

    def is_lost(self, role: str) -> bool:
        """`NodeEnvironment.is_lost`."""
        return self._stores.is_lost(VALUES, role)

    async def founded(self) -> None:
        """The role has founded all that it has opened: mark it."""
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
