"""A tree on a store in memory, for tests that need no log: each command is one transaction."""

from __future__ import annotations

import attrs

from virtuallog_database.engines.core.enabled_engines import BOUNDS
from virtuallog_database.engines.core.keys import section
from virtuallog_database.testing.memory_store import MemoryDisk, MemoryStore
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.commands import Command, Identity, Operation, Origin
from virtuallog_database.tree.results import ChangeKind, Error, Result
from virtuallog_database.tree.tree import Tree

SWITCH = section("rollout") + BOUNDS.encode()
"""Position of the switch of the bounds."""
NOW_MS = 1_700_000_000_000
IP = Identity("ip", "127.0.0.1")


@attrs.define(eq=False)
class World:
    """One tree, and what was done to it."""

    disk: MemoryDisk = attrs.field(factory=MemoryDisk)
    store: MemoryStore = attrs.field(init=False)
    tree: Tree = attrs.field(init=False)
    now_ms: int = NOW_MS
    is_former: bool = False
    """True if commands are applied as by the version before the bounds."""

    def __attrs_post_init__(self) -> None:
        self.store = self.disk.open()
        if not self.is_former:
            self.switch()
        self.tree = Tree(self.store)

    def switch(self) -> None:
        """The bounds hold from the next command on."""
        self.store.write({SWITCH: b"\1" + bytes(8)})

    def do(self, operation: Operation, origin: Origin = Origin()) -> Result:  # noqa: B008  # frozen
        """Through the bytes that would be in the log."""
        command = Command(operation, origin, self.now_ms)
        transaction = StoreTransaction(self.store)
        result = apply(transaction, command_codec.parse_untrusted(command_codec.encode(command)))
        transaction.commit()
        self.tree.applied(result.zxid)
        return result

    def error(self, operation: Operation, origin: Origin = Origin()) -> Error:  # noqa: B008  # frozen
        return self.do(operation, origin).error


@attrs.define(eq=False)
class Recorder:
    """A watcher that remembers what it was told."""

    events: list[tuple[ChangeKind, str]] = attrs.field(factory=list)

    identities: tuple[Identity, ...] = ()

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        self.events.append((kind, path))

    def take(self) -> list[tuple[ChangeKind, str]]:
        told, self.events = self.events, []
        return told
