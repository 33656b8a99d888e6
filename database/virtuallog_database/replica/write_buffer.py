"""Buffer that holds back writes to a store until `release`.

For callers that must make something else durable before the store moves on: RocksDB makes writes
durable at any time, not only on a flush. Reads of the buffer see all writes. `release` passes them
to the store in one step.
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
    """A `virtuallog_database.ports.LocalStore` that `Replay` can write to. Needs memory for all
    held writes."""

    _store: LocalStore
    _changes: dict[bytes, bytes | None] = attrs.field(factory=dict, init=False)
    _keys: list[bytes] = attrs.field(factory=list, init=False)
    """Keys of the changes, in order."""
    size: int = attrs.field(default=0, init=False)
    """Bytes written since the last release; more than is held if a key was written more than once."""

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
        """Write everything held to the store in one step."""
        if self._changes:
            self._store.write(self._changes)
        self._changes, self._keys, self.size = {}, [], 0

    async def flush(self) -> None:
        """Make the released writes durable."""
        await self._store.flush()

    def snapshot(self) -> StoreReader:
        """Snapshot of the store; allowed only while nothing is held back."""
        assert not self._changes
        return self._store.snapshot()

    async def close(self) -> None:
        """Close the store. Held writes are lost."""
        await self._store.close()
