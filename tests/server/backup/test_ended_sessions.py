"""Sessions of the former cluster end in a restored state as their clients would end them."""

from __future__ import annotations

import pytest

from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.commands import Command, Create, CreateSession, Mode, Operation, Origin
from virtuallog_database.tree.results import RefusedError
from virtuallog_database.tree.tree import Tree
from virtuallog_server.backup.restore import end_sessions


def test_sessions_end_with_their_ephemerals() -> None:
    """More than fit into one scan. Other znodes stay, and the counters are those of a tree that never had ephemerals."""
    store = MemoryDisk().open()

    def execute(operation: Operation, session: int = 0) -> None:
        transaction = StoreTransaction(store)
        assert not apply(transaction, Command(operation, Origin(session, 1 if session else 0), 1000)).error
        transaction.commit()

    execute(Create("/stays", b""))
    before = Tree(store).meta
    for session in range(1, 601):
        execute(CreateSession(session, b"p" * 16, 4000))
        execute(Create("/stays/e", b"", mode=Mode.EPHEMERAL_SEQUENTIAL), session)
    assert Tree(store).meta.ephemerals == 600

    assert end_sessions(store, 2000) == 600

    tree = Tree(store)
    assert (tree.meta.sessions, tree.meta.ephemerals, tree.meta.znodes) == (0, 0, before.znodes)
    assert tree.get_children("/stays", ())[0] == [] and tree.exists("/stays").children == 0
    with pytest.raises(RefusedError):
        tree.exists("/stays/e0000000000")
    assert end_sessions(store, 2000) == 0
