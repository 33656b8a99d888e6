"""Meanings that a transaction keeps beside its bytes."""

from __future__ import annotations

from database.testing.memory_store import MemoryDisk, MemoryStore
from database.transaction import Transaction

KEY = b"key"


def test_a_meaning_is_given_to_the_next_one_to_ask_once() -> None:
    """Whoever takes it may change it, and then fail: nobody else must see that."""
    transaction, meaning = Transaction(MemoryStore(MemoryDisk(), None, None)), ["one"]
    transaction.put_parsed(KEY, b"one", meaning)

    assert transaction.take_parsed(KEY) is meaning
    assert transaction.take_parsed(KEY) is None
    assert transaction.get(KEY) == b"one"


def test_a_meaning_is_that_of_the_present_bytes_or_nobodys() -> None:
    """After a rollback, a write beside it, a deletion or a commit the record is parsed again."""
    transaction = Transaction(MemoryStore(MemoryDisk(), None, None))
    transaction.put_parsed(KEY, b"one", "one")
    savepoint = transaction.savepoint()
    transaction.put_parsed(KEY, b"two", "two")
    transaction.rollback(savepoint)
    assert (transaction.get(KEY), transaction.take_parsed(KEY)) == (b"one", None)

    transaction.put_parsed(KEY, b"three", "three")
    transaction.put(KEY, b"four")
    assert transaction.take_parsed(KEY) is None

    transaction.put_parsed(KEY, b"five", "five")
    transaction.delete(KEY)
    assert transaction.take_parsed(KEY) is None

    transaction.put_parsed(KEY, b"six", "six")
    transaction.commit()
    assert (transaction.get(KEY), transaction.take_parsed(KEY)) == (b"six", None)
