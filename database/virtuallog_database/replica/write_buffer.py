"""Writes that are held back in memory, over a store that does not see them yet.                                      Pure.

For who must have something else durable before the store moves on: RocksDB makes writes durable when it likes, not only when it is
told to flush. What is read here has them all. `release` hands them to the store in one step.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.ports import LocalStore, StoreReader
from virtuallog_database.transaction import scan_changed


@attrs.define(eq=False)
class WriteBuffer:
    """A `virtuallog_database.ports.LocalStore` that `Replay` can write to. Memory for all that is held back."""

    _store: LocalStore
    _changes: dict[bytes, bytes | None] = attrs.field(factory=dict, init=False)
    _keys: list[bytes] = attrs.field(factory=list, init=False)
    """Of the changes, in order."""
    size: int = attrs.field(default=0, init=False)
    """Bytes that were written since the last release; more than is held, where a key was written more than once."""

    def get(self, key: bytes) -> bytes | None:
        if key in self._changes:
            return self._changes[key]
        return self._store.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        start, stop = span
        own = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]
        return scan_changed(self._store, self._changes, own, span, count)

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        assert not dropped, "nothing that plays a log drops spans"
        for key, value in changes.items():
            if key not in self._changes:
                insort(self._keys, key)
            self._changes[key] = value
            self.size += len(key) + len(value or b"")

    @property
    def is_behind(self) -> bool:
        return self._store.is_behind

    def release(self) -> None:
        """Write all of it to the store, in one step; nothing is held back then."""
        if self._changes:
            self._store.write(self._changes)
        self._changes, self._keys, self.size = {}, [], 0

    async def flush(self) -> None:
        """Of what has been released."""
        await self._store.flush()

    def snapshot(self) -> StoreReader:
        """Only while nothing is held back."""
        assert not self._changes
        return self._store.snapshot()

    async def close(self) -> None:
        """What is held back is gone."""
        await self._store.close()
