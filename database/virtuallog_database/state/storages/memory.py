"""Storage in memory: for tests, and the model of all others."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from virtuallog_database.state.storage import check_size, may_set
from virtuallog_database.state.variable import StateEntry

VALUE_BYTES_MAX: Final = 64 << 20


@attrs.define(eq=False)
class MemoryStorage:
    """Implements `StateStorage` in a dict. Every method is a checkpoint."""

    _entries: dict[str, StateEntry] = attrs.field(factory=dict)
    value_bytes_max: int = VALUE_BYTES_MAX

    async def get(self, name: str) -> StateEntry | None:
        await trio.lowlevel.checkpoint()
        return self._entries.get(name)

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        check_size(name, entry.value, self.value_bytes_max)
        await trio.lowlevel.checkpoint()  # before the write, so a cancelled call has done nothing
        present = self._version(name)
        if present == entry.version:
            return True
        if not may_set(present, expected, may_create=may_create):
            return False
        self._entries[name] = entry
        return True

    async def expunge(self, name: str, expected: bytes) -> bool:
        await trio.lowlevel.checkpoint()
        if self._version(name) != expected:
            return False
        del self._entries[name]
        return True

    async def names(self) -> frozenset[str]:
        await trio.lowlevel.checkpoint()
        return frozenset(self._entries)

    def _version(self, name: str) -> bytes | None:
        entry = self._entries.get(name)
        return None if entry is None else entry.version
