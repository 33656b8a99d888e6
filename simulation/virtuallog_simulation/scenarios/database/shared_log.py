"""A log in memory that some replicas of the database share, in place of the stack of engines and of a virtual log.

A proposal is ordered after a drawn delay, and each replica applies it after one of its own, in
groups of one transaction. A replica that is cut off proposes and applies nothing; its proposals are
ordered when it is connected again.
"""

from __future__ import annotations

import random
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.replica.database import Database
from virtuallog_database.testing.memory_store import MemoryDisk, MemoryStore
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Command
from virtuallog_database.tree.results import Result

PATIENCE_SECONDS: Final = 0.4
"""Seconds after which a `sync` gives up while it is cut off."""


@attrs.define(eq=False)
class SharedLog:
    """The order of all entries."""

    entries: list[Entry] = attrs.field(factory=list)
    results: list[Result] = attrs.field(factory=list)
    """Result of each entry, at the replica that was first to apply it."""
    changed: trio.Event = attrs.field(factory=trio.Event)
    """There are more entries, or a replica is connected again, or has applied something."""

    def tell(self) -> None:
        former, self.changed = self.changed, trio.Event()
        former.set()

    @property
    def commands(self) -> list[Command]:
        return [command_codec.parse_untrusted(entry.payload) for entry in self.entries]


@attrs.define(eq=False)
class SharedLogReplica:
    """One replica's part of it. Implements `virtuallog_database.engines.layers.contract.Engine`."""

    log: SharedLog
    database: Database
    source: random.Random
    lag_seconds: float
    is_cut: bool = False
    store: MemoryStore = attrs.field(factory=lambda: MemoryDisk().open())
    _position: int = 0
    _outgoing: list[tuple[Entry, Done]] = attrs.field(factory=list)
    _waiting: dict[int, Done] = attrs.field(factory=dict)

    def begin(self) -> None:
        """Put it below its database."""
        self.database.attach(self, self.store)
        self.database.load()

    def cut(self, *, off: bool) -> None:
        self.is_cut = off
        self.log.tell()

    def propose(self, entry: Entry, done: Done) -> None:
        self._outgoing.append((entry, done))
        self.log.tell()

    async def sync(self) -> None:
        if self.is_cut and self.source.random() < 0.3:
            await trio.sleep(PATIENCE_SECONDS)
            raise UnavailableError("cut off")
        while self.is_cut:
            await self.log.changed.wait()
        target = len(self.log.entries)
        await trio.lowlevel.checkpoint()
        while self._position < target:
            await self.log.changed.wait()

    async def prepare_read(self) -> None:
        await self.sync()

    async def confirm(self) -> None:
        await trio.lowlevel.checkpoint()

    def set_trim_prefix(self, position: LogPosition) -> None:
        """Nothing is trimmed."""

    async def run(self) -> None:
        """Propose and apply, until cancelled."""
        while True:
            changed = self.log.changed
            if self.is_cut or not (self._outgoing or self._position < len(self.log.entries)):
                await changed.wait()
                continue
            await trio.sleep(self.source.uniform(0.0, self.lag_seconds))
            if not self.is_cut:
                self._order()
                self._apply(self.source.randint(1, max(8, len(self.log.entries) - self._position)))

    def _order(self) -> None:
        for entry, done in self._outgoing:
            self._waiting[len(self.log.entries)] = done
            self.log.entries.append(entry)
        self._outgoing.clear()

    def _apply(self, most: int) -> None:
        first = self._position
        group = self.log.entries[first : first + most]
        transaction = StoreTransaction(self.store)
        results: list[Any] = [
            self.database.apply(transaction, entry, LogPosition(first + index)) for index, entry in enumerate(group)
        ]
        transaction.commit()
        self._position += len(group)
        self.log.results += results[len(self.log.results) - first :]
        for index, (entry, result) in enumerate(zip(group, results, strict=True)):
            self.database.post_apply(entry, LogPosition(first + index), result)
        for index, result in enumerate(results):
            done = self._waiting.pop(first + index, None)
            if done is not None:
                done(result)
        self.log.tell()
