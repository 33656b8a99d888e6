"""Transactions and the store in memory, compared with plain dicts."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from virtuallog.contract.errors import StorageError
from virtuallog_database.ports import LocalStore
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import Savepoint, StoreTransaction

KEYS = st.sampled_from([b"", b"a", b"a\0", b"aa", b"ab", b"b", b"c", b"\xff"])
ALL = (b"", b"\xff\xff")


@attrs.define
class Text:
    """A record."""

    value: bytes

    def encode(self) -> bytes:
        return self.value


class ReadYourWrites(RuleBasedStateMachine):
    """A transaction over a store equals a dict, for any puts, deletions, rollbacks and commits."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.store: LocalStore = self.disk.open()
        self.transaction = StoreTransaction(self.store)
        self.expected: dict[bytes, bytes] = {}
        self.committed: dict[bytes, bytes] = {}
        self.savepoints: list[tuple[Savepoint, dict[bytes, bytes]]] = []

    @rule(key=KEYS, value=st.binary(max_size=2))
    def put(self, key: bytes, value: bytes) -> None:
        self.transaction.put(key, value)
        self.expected[key] = value

    @rule(key=KEYS, value=st.binary(max_size=2))
    def put_record(self, key: bytes, value: bytes) -> None:
        self.transaction.put_record(key, Text(value))
        self.expected[key] = value

    @rule(key=KEYS, value=st.binary(max_size=2))
    def change_record(self, key: bytes, value: bytes) -> None:
        """In place, if there is one."""
        record = self.transaction.record(key)
        if record is not None:
            assert record.value == self.expected[key]
            record.value = self.expected[key] = value

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        self.transaction.delete(key)
        self.expected.pop(key, None)

    @rule()
    def save(self) -> None:
        self.savepoints.append((self.transaction.savepoint(), dict(self.expected)))

    @precondition(lambda self: self.savepoints)
    @rule()
    def roll_back(self) -> None:
        savepoint, self.expected = self.savepoints.pop()
        self.transaction.rollback(savepoint)

    @precondition(lambda self: self.savepoints)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Those made after it are closed with it."""
        number = data.draw(st.integers(0, len(self.savepoints) - 1))
        self.transaction.release(self.savepoints[number][0])
        del self.savepoints[number:]

    @rule()
    def commit(self) -> None:
        self.transaction.commit()
        self.committed, self.savepoints = dict(self.expected), []

    @rule(start=KEYS, stop=KEYS, count=st.integers(1, 9))
    def scan(self, start: bytes, stop: bytes, count: int) -> None:
        expected = sorted(pair for pair in self.expected.items() if start <= pair[0] < stop)
        assert self.transaction.scan((start, stop), count) == expected[:count]

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        assert self.transaction.get(key) == self.expected.get(key)

    @invariant()
    def former_values_are_kept_for_open_savepoints_alone(self) -> None:
        """One of each key and savepoint, at most."""
        assert self.transaction.undo_bytes <= 2 * len(self.savepoints) * 8  # bytes of a value, savepoints, keys

    @invariant()
    def nothing_is_in_the_store_before_the_commit(self) -> None:
        assert self.store.scan(ALL, 99) == sorted(self.committed.items())


TestReadYourWrites = ReadYourWrites.TestCase
TestReadYourWrites.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@attrs.define
class Written:
    """Content of a store after each of its writes."""

    disk: MemoryDisk
    moments: list[dict[bytes, bytes]]

    @classmethod
    def by(cls, chance: random.Random, disk: MemoryDisk, writes: int) -> Written:
        store, moments = disk.open(), [dict(disk.content.pairs)]
        for _ in range(writes):
            changes = {b"%d" % chance.randrange(9): chance.choice([None, b"%d" % chance.randrange(99)]) for _ in "abc"}
            dropped = [(b"3", b"5")] if chance.random() < 0.2 else []
            store.write(changes, dropped)
            moments.append(dict(disk.content.pairs))
        return cls(disk, moments)


@pytest.mark.parametrize("seed", range(20))
async def test_a_crash_leaves_the_store_at_some_moment_since_the_flush(seed: int) -> None:
    """Never before the flush, never in the middle of a write."""
    chance, disk = random.Random(seed), MemoryDisk()
    Written.by(chance, disk, 10)
    await disk.open().flush()
    written = Written.by(chance, disk, 10)
    disk.crash(chance)

    assert disk.content.pairs in written.moments
    assert disk.content.scan(ALL, 99) == sorted(disk.content.pairs.items())
    assert disk.unflushed == 0


async def test_crashes_fall_back_to_different_moments() -> None:
    """Otherwise the simulator would try one of them only."""
    left = set()
    for seed in range(30):
        disk = MemoryDisk()
        store = disk.open()
        for number in range(3):
            store.write({b"k": b"%d" % number})
        disk.crash(random.Random(seed))
        left.add(disk.content.get(b"k"))

    assert left == {None, b"0", b"1", b"2"}


async def test_a_store_that_failed_once_fails_for_the_life_of_its_process() -> None:
    """Its content cannot be trusted; the next process finds the disk mended."""
    disk = MemoryDisk()
    store = disk.open()
    store.write({b"a": b"1"})
    disk.failure = lambda: StorageError("injected")
    with pytest.raises(StorageError, match="injected"):
        store.write({b"a": b"2"})
    disk.failure = lambda: None
    with pytest.raises(StorageError, match="failed before"):
        store.get(b"a")

    assert disk.open().get(b"a") == b"1"


async def test_a_snapshot_stays_as_it_was() -> None:
    """While writes go on."""
    store = MemoryDisk().open()
    store.write({b"a": b"1"})
    snapshot = store.snapshot()
    store.write({b"a": b"2", b"b": b"3"})

    assert snapshot.scan(ALL, 9) == [(b"a", b"1")]


def test_what_a_finished_command_replaced_is_forgotten() -> None:
    """However often a large value is written within a savepoint, and after it: a multi of 10,000 creates below a znode with 1 MB of
    data held 10 GB."""
    transaction, large = StoreTransaction(MemoryDisk().open()), b"x" * 1000
    transaction.put(b"a", large)
    outer = transaction.savepoint()
    for _ in range(3):
        inner = transaction.savepoint()
        for number in range(100):
            transaction.put(b"a", large + b"%d" % number)
        assert transaction.undo_bytes <= 2 * 1002
        transaction.release(inner)
        assert transaction.undo_bytes == 1000, "of the outer savepoint"
    transaction.release(outer)
    assert transaction.undo_bytes == 0


def test_an_outer_savepoint_takes_back_what_inner_ones_have_released() -> None:
    """Whichever of them changed a key first."""
    transaction = StoreTransaction(MemoryDisk().open())
    transaction.put(b"a", b"1")
    outer = transaction.savepoint()
    for key in (b"a", b"b"):
        inner = transaction.savepoint()
        transaction.put(key, b"2")
        transaction.put(b"c", key)
        transaction.release(inner)
    assert transaction.scan(ALL, 9) == [(b"a", b"2"), (b"b", b"2"), (b"c", b"b")]
    transaction.rollback(outer)
    assert transaction.scan(ALL, 9) == [(b"a", b"1")]


def test_a_record_is_changed_in_place_and_encoded_once() -> None:
    """A value that each command of a group puts need not be encoded for each."""
    store = MemoryDisk().open()
    transaction, record = StoreTransaction(store), Text(b"one")
    transaction.put_record(b"a", record)
    transaction.record(b"a").value = b"two"

    assert (transaction.get(b"a"), transaction.record(b"a")) == (b"two", record)
    transaction.commit()
    assert (store.get(b"a"), transaction.record(b"a")) == (b"two", None)


def test_a_savepoint_returns_to_the_record_as_it_was() -> None:
    """However often it was changed in place since: what is looked up later is another object."""
    transaction, record = StoreTransaction(MemoryDisk().open()), Text(b"one")
    transaction.put_record(b"a", record)
    savepoint = transaction.savepoint()
    record.value = b"not seen"
    assert transaction.record(b"a") is None
    transaction.put_record(b"a", Text(b"two"))
    transaction.record(b"a").value = b"three"
    transaction.rollback(savepoint)

    assert (transaction.get(b"a"), transaction.record(b"a")) == (b"one", None)


def test_a_record_is_gone_once_something_else_was_put_or_it_was_deleted() -> None:
    """A record is found only while it is the value of its key."""
    transaction = StoreTransaction(MemoryDisk().open())
    transaction.put_record(b"a", Text(b"one"))
    transaction.put(b"a", b"two")
    assert (transaction.get(b"a"), transaction.record(b"a")) == (b"two", None)

    transaction.put_record(b"a", Text(b"three"))
    transaction.delete(b"a")
    assert (transaction.get(b"a"), transaction.record(b"a")) == (None, None)
    assert transaction.scan(ALL, 9) == []
