"""Work is bounded by the command: what a replica looks at, writes, keeps and computes for a command is at most a constant times its bytes.

Counted, not timed: bytes and pairs that the store is asked for, bytes that are put into the transaction, bytes that it keeps, and steps of the
interpreter. The constants are those of docs/concepts/bounds.md, "What a command may cost", with some room.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final, TypeVar

import attrs

from virtuallog_database.engines.core.enabled_engines import BOUNDS, is_enabled
from virtuallog_database.testing.metered_store import PLAIN_BYTES, MeteredStore
from virtuallog_database.transaction import Record, StoreTransaction
from virtuallog_database.tree import keys, paths
from virtuallog_database.tree.commands import Command, Multi, Reap
from virtuallog_database.tree.quotas import LIMITS
from virtuallog_database.tree.records import Meta, decode_meta
from virtuallog_database.tree.results import Result

T = TypeVar("T")

CHECK: Final = "work is bounded by the command"
PER_BYTE: Final = 16
PER_OPERATION: Final = 4 << 10
"""Bytes: records of 2 KiB, read and put."""
PER_ZNODE: Final = 12 << 10
"""Bytes for each znode that a command names: ACLs of 10 KB that stand apart, as they are drawn."""
PUT_PER_ZNODE: Final = 3 << 10
"""Bytes: a record with an ACL and data of 1 KiB each."""
STEPS_PER_BYTE: Final = 40
STEPS_PER_OPERATION: Final = 12_000
"""Interpreter steps allowed per operation: an ACL of 200 entries is read, and asked twice."""
KEPT_FACTOR: Final = 2
KEPT_BYTES: Final = 4 << 10
"""A transaction keeps at most twice what is to be written, and this."""
ZNODES: Final = frozenset({b"n", b"a", b"d"})
"""First bytes of the keys of records of znodes."""


@attrs.define(eq=False)
class MeteredTransaction:
    """A transaction that counts what is put into it. Stands for it while one command is applied."""

    _transaction: StoreTransaction
    size: int = 0
    puts: Counter[bytes] = attrs.field(factory=Counter)
    """Puts of each record of a znode."""

    def put(self, key: bytes, value: bytes) -> None:
        self._count(key, value)
        self._transaction.put(key, value)

    def put_record(self, key: bytes, record: Record) -> None:
        self._count(key, record.encode())
        self._transaction.put_record(key, record)

    def delete(self, key: bytes) -> None:
        self._count(key, b"")
        self._transaction.delete(key)

    @property
    def operations(self) -> int:
        return self._transaction.operations

    @operations.setter
    def operations(self, count: int) -> None:
        self._transaction.operations = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def _count(self, key: bytes, value: bytes) -> None:
        self.size += len(key) + len(value)
        self.puts[key] += key[:1] in ZNODES


def kept_bytes(transaction: StoreTransaction) -> int:
    """Bytes of all keys and values that the transaction refers to, each counted once, for whatever
    purpose."""
    found: dict[int, int] = {}
    left: list[Any] = [
        getattr(transaction, field.name) for field in attrs.fields(StoreTransaction) if field.name != "_store"
    ]
    while left:
        each = left.pop()
        if isinstance(each, bytes):
            found[id(each)] = len(each)
        elif isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set):
            left += each
    return sum(found.values())


def steps_of(run: Callable[[], T]) -> tuple[int, T]:
    """Interpreter steps of a call, and its result."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += 1
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        result = run()
    finally:
        sys.settrace(former)
    return steps, result


@attrs.frozen(kw_only=True)
class CommandCost:
    """The work of one command at one replica."""

    command: Command
    result: Result
    is_bounded: bool
    """True if the switch of the bounds was applied before."""
    read: int
    former: int
    """Part of `read` in records of the former version."""
    visited: int
    put: int
    puts: int
    """The most that a record of a znode was put."""
    kept: int
    changed: int
    """Bytes of the transaction that are to be written, before and after it."""
    steps: int
    znodes: int
    """Znodes in the whole tree, before."""
    stale: Sequence[bytes]
    """Limits of quotas that were read whole, and are as they were."""

    def objections(self) -> Iterator[str]:
        """Costs above their bounds."""
        size, (operations, named) = self.command.size, self._named()
        if self.kept > KEPT_FACTOR * self.changed + KEPT_BYTES:
            yield f"{self.kept} bytes are kept for {self.changed} that are to be written"
        if self.puts > (1 if self.result.zxid > 1 else 2):  # the first command finds no tree yet
            yield f"one record was put {self.puts} times"
        # In the former rules a command may count the tree for each path once, and a parent is written whole.
        if self.visited > (self.znodes + 2 * operations + 16) * (1 if self.is_bounded else 12):
            yield f"{self.visited} pairs were visited, of {self.znodes} znodes"
        if not self.is_bounded:
            return
        allowed = PER_BYTE * size + PER_OPERATION * operations + PER_ZNODE * named
        if self.read - self.former > allowed:
            yield f"{self.read - self.former} bytes were read, {allowed} may be"
        most = PER_BYTE * size + PUT_PER_ZNODE * (named + 1)
        if self.put - self.former > most:
            yield f"{self.put - self.former} bytes were put, {most} may be"
        if (
            self.stale
            and self.result.changes
            and not any(path.startswith(paths.QUOTA) for _, path in self.result.changes)
        ):
            yield f"a long text of the former version was read, and stays: {self.stale[0].decode()}"
        if self.former > (6 << 20) + 64 * size:
            yield f"{self.former} bytes of the former version were read"
        steps = STEPS_PER_BYTE * size + STEPS_PER_OPERATION * operations + 60 * self.visited + 3 * self.former
        if self.steps > steps:
            yield f"{self.steps} steps were taken, {steps} may be"

    def _named(self) -> tuple[int, int]:
        """Operations, and the znodes that they name or have changed, with their parents."""
        operation = self.command.operation
        parts = operation.operations if isinstance(operation, Multi) else (operation,)
        found = {path for _, path in self.result.changes}
        for part in parts:
            found |= set(part.paths) if isinstance(part, Reap) else {getattr(part, "path", paths.ROOT)}
        found |= {paths.parent_of(path) for path in found if "/" in path}
        return len(parts) + len(found) + len(self.result.changes), len(found)


def cost_of(
    store: MeteredStore, transaction: StoreTransaction, command: Command, apply: Callable[[MeteredTransaction], Result]
) -> CommandCost:
    """Apply a command, and say what it has cost."""
    changed, counters = _changed(transaction), transaction.get(keys.META)
    meta = decode_meta(counters) if counters is not None else Meta()
    before, metered = (store.read, store.former, store.visited), MeteredTransaction(transaction)
    store.former_keys.clear()
    steps, result = steps_of(lambda: apply(metered))
    limits = (key for key in store.former_keys if key.endswith(f"/{LIMITS}".encode()))
    return CommandCost(
        command=command,
        result=result,
        is_bounded=is_enabled(transaction, BOUNDS),
        read=store.read - before[0],
        former=store.former - before[1],
        visited=store.visited - before[2],
        put=metered.size,
        puts=max(metered.puts.values(), default=0),
        kept=kept_bytes(transaction),
        changed=changed + _changed(transaction),
        steps=steps,
        znodes=meta.znodes,
        stale=[key for key in limits if len(transaction.get(key) or b"") > PLAIN_BYTES],
    )


def _changed(transaction: StoreTransaction) -> int:
    return sum(len(key) + len(value or b"") for key, value in transaction.changes.items())
