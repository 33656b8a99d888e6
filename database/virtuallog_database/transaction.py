"""One atomic change of a local store, with reads of its own writes and partial rollback.

Collects the effects of one or more consecutive log entries and writes them in one step (group
commit). A *savepoint* stands for the nested transactions of the paper (SOSP'21, section 3.3): if an
upper layer fails with a deterministic error, its writes and those of the layers above are rolled
back; writes of the layers below stay.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NewType, Protocol

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.ports import LocalStore, StoreReader

Savepoint = NewType("Savepoint", int)
_UNTOUCHED: Final = object()


class Record(Protocol):
    """A value that is not encoded yet."""

    def encode(self) -> bytes: ...


@attrs.define(eq=False)
class StoreTransaction:
    """Changes that are not in the store yet. For one task.

    Records: nearly every command of a group changes the counters and its session. `put_record`
    keeps such a value as an object, which later commands change in place. It is encoded at the next
    savepoint, or at the commit.

    Memory: the pending writes, and for each open savepoint at most one former value of each key
    that has changed since. A released savepoint leaves only what an earlier one needs.
    """

    _store: LocalStore
    _changes: dict[bytes, Any] = attrs.field(factory=dict, init=False)
    """Pending values by key: bytes, records, or None for a deletion."""
    _undo: list[dict[bytes, object]] = attrs.field(factory=list, init=False)
    """For each open savepoint, the value in `_changes` that the first later change of a key has
    replaced."""
    _former: dict[bytes, object] | None = attrs.field(default=None, init=False)
    """The last element of `_undo`. None if no savepoint is open."""
    _ordered: list[bytes] | None = attrs.field(default=None, init=False)
    """Keys of `_changes` at the last scan, in order. None if there was no scan."""
    _records: set[bytes] = attrs.field(factory=set, init=False)
    """Keys of records that were put since the last savepoint."""
    operations: int = attrs.field(default=0, init=False)
    """Steps spent on this transaction, as counted by the application; rolled back ones included.
    Bounds it, as everything applied together waits for the whole transaction."""
    ends_here: bool = attrs.field(default=False, init=False)
    """True if the transaction must be committed before the next entry is applied. Set by engines
    that need the store at exactly one position, such as for a checksum. A function of the log,
    without effect on the state."""

    def get(self, key: bytes) -> bytes | None:
        changed = self._changes.get(key, _UNTOUCHED)
        if changed is _UNTOUCHED:
            return self._store.get(key)
        if changed is None or type(changed) is bytes:
            return changed
        return changed.encode()  # type: ignore[no-any-return]

    def put(self, key: bytes, value: bytes) -> None:
        changes, former = self._changes, self._former  # inlined `change`: this is called several times for each command
        if former is not None and key not in former:
            former[key] = changes.get(key, _UNTOUCHED)
        changes[key] = value

    def put_record(self, key: bytes, record: Record) -> None:
        """Put a record; `record.encode()` is called when the bytes are needed."""
        self.put(key, record)  # type: ignore[arg-type]
        self._records.add(key)

    def record(self, key: bytes) -> Any:
        """The record at `key`, to be changed in place. None if the value has to be parsed from
        `get`."""
        changed = self._changes.get(key)
        return None if changed is None or type(changed) is bytes else changed

    def has_changed(self, key: bytes) -> bool:
        """True if the value at `key` was put or deleted in this transaction."""
        return key in self._changes

    def delete(self, key: bytes) -> None:
        self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Put every pair, and delete where the value is None."""
        own, former = self._changes, self._former
        for key, value in changes.items():
            if former is not None and key not in former:
                former[key] = own.get(key, _UNTOUCHED)
            own[key] = value

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` pairs in `span`, in order of their keys. The first scan sorts the
        changed keys."""
        self._encode_records()
        start, stop = span
        ordered = self._arrange()
        own = ordered[bisect_left(ordered, start) : bisect_left(ordered, stop)]
        return scan_changed(self._store, self._changes, own, span, count)

    def savepoint(self) -> Savepoint:
        """A mark to return to, open until `rollback` or `release`. Encodes records."""
        self._encode_records()
        undo = self._undo
        self._former = {}
        undo.append(self._former)
        return Savepoint(len(undo) - 1)

    @property
    def next_savepoint(self) -> Savepoint:
        """The value that `savepoint` would return: `release` of it closes all savepoints made from
        here on."""
        return Savepoint(len(self._undo))

    def rollback(self, savepoint: Savepoint) -> None:
        """Undo everything since `savepoint`. Closes it and the savepoints made after it."""
        changes, undo = self._changes, self._undo
        self._records.clear()  # all records were put since this savepoint
        ordered = None if self._ordered is None else self._arrange()
        while len(undo) > savepoint:
            for key, former in undo.pop().items():
                if former is not _UNTOUCHED:
                    changes[key] = former
                elif changes.pop(key, _UNTOUCHED) is not _UNTOUCHED and ordered is not None:
                    del ordered[bisect_left(ordered, key)]
        self._former = undo[-1] if undo else None

    def release(self, savepoint: Savepoint) -> None:
        """Close `savepoint` and those made after it. The changes stay, and only an earlier
        savepoint can undo them."""
        undo = self._undo
        if not savepoint:  # no savepoint is left that could undo anything
            undo.clear()
            self._former = None
            return
        while len(undo) > savepoint:
            inner = undo.pop()
            outer = undo[-1]
            if outer:
                for key, former in inner.items():
                    outer.setdefault(key, former)
            else:
                undo[-1] = inner
        self._former = undo[-1] if undo else None

    def commit(self) -> None:
        """Write all changes in one step, then start an empty transaction."""
        self._encode_records()
        if self._changes:
            self._store.write(self._changes)
        self._changes, self._undo, self._former, self._ordered = {}, [], None, None
        self.ends_here, self.operations = False, 0

    @property
    def changed(self) -> int:
        """Number of keys to be written."""
        return len(self._changes)

    @property
    def changes(self) -> Mapping[bytes, bytes | None]:
        """A copy of the pending writes."""
        self._encode_records()
        return dict(self._changes)

    @property
    def undo_bytes(self) -> int:
        """Bytes of former values that open savepoints hold."""
        return sum(len(value) for former in self._undo for value in former.values() if isinstance(value, bytes))

    def _encode_records(self) -> None:
        changes, records = self._changes, self._records
        while records:
            key = records.pop()
            changes[key] = self.get(key)

    def _arrange(self) -> list[bytes]:
        """All keys of `_changes`, in order. Cheap after the first call: a dict appends new keys
        behind the sorted ones."""
        ordered, changes = self._ordered, self._changes
        if ordered is None:
            ordered = self._ordered = sorted(changes)
        for key in islice(reversed(changes), len(changes) - len(ordered)):
            insort(ordered, key)
        return ordered


def scan_changed(
    store: StoreReader, changes: Mapping[bytes, bytes | None], own: Sequence[bytes], span: Span, count: int
) -> list[tuple[bytes, bytes]]:
    """The first `count` pairs in `span` of a store overlaid with `changes`. `own` holds the changed
    keys in the span, in order."""
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
