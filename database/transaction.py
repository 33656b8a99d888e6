"""One atomic change of a local store: read your writes, and take back a part of them.                          Pure.

Everything that one or more consecutive log entries do to the store is collected here and written in one step: group commit. A
*savepoint* stands for the nested transactions of the paper (SOSP'21, section 3.3): if an upper layer fails with a deterministic
error, what it and those above have written is taken back, what layers below wrote stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, NewType

import attrs

from database.ports import LocalStore, Reading
from virtuallog.ports import Span

Savepoint = NewType("Savepoint", int)
_UNTOUCHED: Final = object()


@attrs.define(eq=False)
class Transaction:
    """Changes that are not in the store yet. For one task."""

    _store: LocalStore
    _changes: dict[bytes, bytes | None] = attrs.field(factory=dict, init=False)
    _undo: list[tuple[bytes, object]] = attrs.field(factory=list, init=False)
    """What each change has replaced in `_changes`."""
    _parsed: dict[bytes, tuple[bytes, Any]] = attrs.field(factory=dict, init=False)
    """What some of `_changes` mean, with the bytes of which that is so: a rollback leaves other bytes, and this is passed over."""
    ends_here: bool = attrs.field(default=False, init=False)
    """Whether this is to be committed before the next entry is applied: set by who needs the store as it is at exactly one
    position, such as for a checksum. A function of the log, and without any effect on the state."""

    def get(self, key: bytes) -> bytes | None:
        changed = self._changes.get(key, _UNTOUCHED)
        return self._store.get(key) if changed is _UNTOUCHED else changed  # type: ignore[return-value]

    def put(self, key: bytes, value: bytes) -> None:
        changes = self._changes  # as `_change`: this is called several times for each command
        self._undo.append((key, changes.get(key, _UNTOUCHED)))
        changes[key] = value

    def put_parsed(self, key: bytes, value: bytes, meaning: Any) -> None:
        """`put`, for a record that nearly every entry of a group looks at and writes again. `meaning` is given away: the next
        one to ask for it may change it."""
        self.put(key, value)
        self._parsed[key] = value, meaning

    def take_parsed(self, key: bytes) -> Any:
        """The meaning of what is at `key`; None if it has to be parsed. Told once: whoever has it, and does not come to `put_parsed`
        because something fails, may have changed it."""
        found = self._parsed.pop(key, None)
        return found[1] if found is not None and self._changes.get(key) is found[0] else None

    def delete(self, key: bytes) -> None:
        self._change(key, None)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` pairs in `span`, in order of their keys. Sorts what this transaction has changed."""
        start, stop = span
        own = sorted(key for key in self._changes if start <= key < stop)
        return scan_changed(self._store, self._changes, own, span, count)

    def savepoint(self) -> Savepoint:
        """A mark to return to."""
        return Savepoint(len(self._undo))

    def rollback(self, savepoint: Savepoint) -> None:
        """Take back everything since `savepoint`."""
        while len(self._undo) > savepoint:
            key, former = self._undo.pop()
            if former is _UNTOUCHED:
                del self._changes[key]
            else:
                self._changes[key] = former  # type: ignore[assignment]

    def commit(self) -> None:
        """Write all of it in one step; then begin anew."""
        if self._changes:
            self._store.write(self._changes)
        self._changes, self._undo, self._parsed, self.ends_here = {}, [], {}, False

    @property
    def changed(self) -> int:
        """Keys that are to be written."""
        return len(self._changes)

    @property
    def changes(self) -> Mapping[bytes, bytes | None]:
        """What is to be written so far: a copy."""
        return dict(self._changes)

    def _change(self, key: bytes, value: bytes | None) -> None:
        self._undo.append((key, self._changes.get(key, _UNTOUCHED)))
        self._changes[key] = value


def scan_changed(
    store: Reading, changes: Mapping[bytes, bytes | None], own: Sequence[bytes], span: Span, count: int
) -> list[tuple[bytes, bytes]]:
    """The first `count` pairs in `span` of a store with some changes, of which `own` are the keys in the span, in order."""
    if not own:
        return store.scan(span, count)
    start, stop = span
    found: list[tuple[bytes, bytes]] = []
    while len(found) < count:
        stored = store.scan((start, stop), count)
        limit = stop if len(stored) < count else stored[-1][0] + b"\0"
        merged = dict(stored)
        for key in own[bisect_left(own, start) : bisect_left(own, limit)]:
            value = changes[key]
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        found += sorted(merged.items())
        if limit == stop:
            break
        start = limit
    return found[:count]
