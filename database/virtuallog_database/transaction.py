"""One atomic change of a local store: read your writes, and take back a part of them.                          Pure.

Everything that one or more consecutive log entries do to the store is collected here and written in one step: group commit. A
*savepoint* stands for the nested transactions of the paper (SOSP'21, section 3.3): if an upper layer fails with a deterministic
error, what it and those above have written is taken back, what layers below wrote stays.
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

    Records: nearly every command of a group changes the counters and its session. `put_record` leaves such a value as an object, which
    later commands change in place; it is encoded at the next savepoint, or at the commit.

    Memory: what is to be written, and for each open savepoint at most one former value of each key that has changed since. A savepoint
    that is released leaves nothing that an earlier one does not need."""

    _store: LocalStore
    _changes: dict[bytes, Any] = attrs.field(factory=dict, init=False)
    """Values, None for a deletion, and records."""
    _undo: list[dict[bytes, object]] = attrs.field(factory=list, init=False)
    """For each open savepoint: what the first change of a key since then has replaced in `_changes`."""
    _former: dict[bytes, object] | None = attrs.field(default=None, init=False)
    """The last of these."""
    _ordered: list[bytes] | None = attrs.field(default=None, init=False)
    """The keys that `_changes` had at the last scan, in order; None: there was no scan."""
    _records: set[bytes] = attrs.field(factory=set, init=False)
    """Keys at which records were put since the last savepoint."""
    operations: int = attrs.field(default=0, init=False)
    """Steps that were taken for it, as far as the application counts them: what else is applied with it, a larger transaction holds up.
    Of those that were taken back as well."""
    ends_here: bool = attrs.field(default=False, init=False)
    """Whether this is to be committed before the next entry is applied: set by who needs the store as it is at exactly one
    position, such as for a checksum. A function of the log, and without any effect on the state."""

    def get(self, key: bytes) -> bytes | None:
        changed = self._changes.get(key, _UNTOUCHED)
        if changed is _UNTOUCHED:
            return self._store.get(key)
        if changed is None or type(changed) is bytes:
            return changed
        return changed.encode()  # type: ignore[no-any-return]

    def put(self, key: bytes, value: bytes) -> None:
        changes, former = self._changes, self._former  # as `change`: this is called several times for each command
        if former is not None and key not in former:
            former[key] = changes.get(key, _UNTOUCHED)
        changes[key] = value

    def put_record(self, key: bytes, record: Record) -> None:
        """`put` what `record.encode()` returns when it is needed."""
        self.put(key, record)  # type: ignore[arg-type]
        self._records.add(key)

    def record(self, key: bytes) -> Any:
        """The record that is the value at `key`, to be changed in place; None: the value is to be parsed, `get` has it."""
        changed = self._changes.get(key)
        return None if changed is None or type(changed) is bytes else changed

    def has_changed(self, key: bytes) -> bool:
        """Whether the value at `key` was put or deleted here."""
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
        """The first `count` pairs in `span`, in order of their keys. The first scan sorts what this transaction has changed."""
        self._encode_records()
        start, stop = span
        ordered = self._arrange()
        own = ordered[bisect_left(ordered, start) : bisect_left(ordered, stop)]
        return scan_changed(self._store, self._changes, own, span, count)

    def savepoint(self) -> Savepoint:
        """A mark to return to. Open until `rollback` or `release`. Records are encoded."""
        self._encode_records()
        undo = self._undo
        self._former = {}
        undo.append(self._former)
        return Savepoint(len(undo) - 1)

    @property
    def next_savepoint(self) -> Savepoint:
        """What `savepoint` would return: to `release` all that are made from here on."""
        return Savepoint(len(self._undo))

    def rollback(self, savepoint: Savepoint) -> None:
        """Take back everything since `savepoint`. It is closed then, and so are those made after it."""
        changes, undo = self._changes, self._undo
        self._records.clear()  # all of them were put since
        ordered = None if self._ordered is None else self._arrange()
        while len(undo) > savepoint:
            for key, former in undo.pop().items():
                if former is not _UNTOUCHED:
                    changes[key] = former
                elif changes.pop(key, _UNTOUCHED) is not _UNTOUCHED and ordered is not None:
                    del ordered[bisect_left(ordered, key)]
        self._former = undo[-1] if undo else None

    def release(self, savepoint: Savepoint) -> None:
        """Close `savepoint` and those made after it; what was done since stays, and can be taken back with an earlier one only."""
        undo = self._undo
        if not savepoint:  # nothing is left that could be taken back
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
        """Write all of it in one step; then begin anew."""
        self._encode_records()
        if self._changes:
            self._store.write(self._changes)
        self._changes, self._undo, self._former, self._ordered = {}, [], None, None
        self.ends_here, self.operations = False, 0

    @property
    def changed(self) -> int:
        """Keys that are to be written."""
        return len(self._changes)

    @property
    def changes(self) -> Mapping[bytes, bytes | None]:
        """What is to be written so far: a copy."""
        self._encode_records()
        return dict(self._changes)

    @property
    def undo_bytes(self) -> int:
        """Of former values that open savepoints hold."""
        return sum(len(value) for former in self._undo for value in former.values() if isinstance(value, bytes))

    def _encode_records(self) -> None:
        changes, records = self._changes, self._records
        while records:
            key = records.pop()
            changes[key] = self.get(key)

    def _arrange(self) -> list[bytes]:
        """All keys of `_changes`, in order. A dict keeps new keys behind those that are in order already."""
        ordered, changes = self._ordered, self._changes
        if ordered is None:
            ordered = self._ordered = sorted(changes)
        for key in islice(reversed(changes), len(changes) - len(ordered)):
            insort(ordered, key)
        return ordered


def scan_changed(
    store: StoreReader, changes: Mapping[bytes, bytes | None], own: Sequence[bytes], span: Span, count: int
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
