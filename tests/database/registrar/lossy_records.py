"""A registry of names, over records in memory that lose answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import attrs
import trio

from virtuallog.contract.errors import (
    UnavailableError,
    VirtualLogError,
)
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.registrar import Registrar, RegistrarSettings, open_registrar
from virtuallog_database.state.core.record_changes import RecordChanges, VersionedRecords
from virtuallog_database.state.records import PackedRecords
from virtuallog_database.state.storages.memory import MemoryStorage

NAMES = RecordTable[str]("names", str.encode, bytes.decode)
NAME = "registry"


@attrs.frozen
class Admit:
    """Adds a name, once."""

    key: str
    name: str = "a name"

    def perform(self, edit: Edit) -> None:
        if edit.get(NAMES, self.key) is not None:
            raise NotPermittedError(f"{self.key} is admitted")
        edit.put(NAMES, self.key, self.name)


@attrs.frozen
class Remove:
    key: str

    def perform(self, edit: Edit) -> None:
        edit.delete(NAMES, self.key)


@attrs.define(eq=False)
class Storage:
    """Records in memory. It loses answers, or refuses to answer, as a test wants."""

    inner: PackedRecords = attrs.field(factory=lambda: PackedRecords(MemoryStorage()))
    is_silent: bool = False
    """Nothing is done, and no call returns."""
    lost_answers: int = 0
    """Updates that happen, and whose callers hear nothing."""
    lost_calls: int = 0
    """Updates that do not happen, and whose callers hear nothing."""
    broken: VirtualLogError | None = None
    """What the next update raises, without having happened."""
    updates: list[RecordChanges] = attrs.field(factory=list)
    changes_bytes_max: int = 1 << 20
    is_open: trio.Event = attrs.field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.is_open.set()

    async def load(self, name: str) -> VersionedRecords | None:
        await self._answer()
        return await self.inner.load(name)

    async def update(self, name: str, expected: bytes, changes: RecordChanges, *, may_create: bool) -> bool:
        await self._answer()
        if self.lost_calls:
            self.lost_calls -= 1
            raise UnavailableError("lost on the way there")
        if self.broken is not None:
            error, self.broken = self.broken, None
            raise error
        self.updates.append(changes)
        is_done = await self.inner.update(name, expected, changes, may_create=may_create)
        if self.lost_answers:
            self.lost_answers -= 1
            raise UnavailableError("lost on the way back")
        return is_done

    async def _answer(self) -> None:
        await self.is_open.wait()
        if self.is_silent:
            await trio.sleep_forever()

    async def stored(self) -> Mapping[str, str]:
        """Names as a new owner would find them."""
        found = await self.inner.load(NAME)
        records = {} if found is None else found.records
        return {key[6:].decode(): value[8:].decode() for key, value in records.items() if key.startswith(b"names\0")}


def opened(storage: Storage, owner: str = "one", **settings: object) -> AbstractAsyncContextManager[Registrar]:
    """A registrar of the registry of these tests."""
    return open_registrar(storage, NAME, tables=[NAMES], owner=owner, settings=RegistrarSettings(**settings))  # type: ignore[arg-type]
