"""Replays that note what entries do to a subtree: which paths they touch, or each change with its cause.

The engines and the database on top are those of a replica. Only the results of its commands are looked at, and the records
before and after each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Engine
from virtuallog_database.history.core.changes import Executed, ZnodeChange, changes_of
from virtuallog_database.history.core.subtree import Subtree
from virtuallog_database.history.core.znode_state import ChangedRecords, FoundedRecords
from virtuallog_database.history.touched_paths import TouchedPaths
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.database import Database
from virtuallog_database.replica.replay import AppliedEffects, Replay, replayed_database
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.results import Error, Result, Stat


def replay_touching(store: LocalStore, subtree: Subtree, touched: TouchedPaths) -> Replay:
    """A replay that adds the paths in a subtree whose records it writes. Raises as `Replay`."""

    def observe(effects: AppliedEffects) -> None:
        for key in effects.changes:
            path = subtree.path_in(key)
            if path is not None:
                touched.add(path)

    return Replay(store, observe=observe)


def replay_noting(store: LocalStore, subtree: Subtree, note: Callable[[ZnodeChange], None]) -> Replay:
    """A replay that calls `note` for each change in a subtree, in order. Raises as `Replay`.

    A change refers to the data before and after: keep what is needed of it, and not the change.
    """
    database, records = _RecordingDatabase(subtree), FoundedRecords(store)

    def observe(effects: AppliedEffects) -> None:
        touched = [path for key in effects.changes if (path := subtree.path_in(key)) is not None]
        executed, is_raw = database.take()
        if touched or executed:
            for change in changes_of(
                effects.position,
                effects.time_ms,
                executed,
                sorted(set(touched)),
                subtree,
                records,
                ChangedRecords(records, effects.changes),
                is_raw=is_raw,
            ):
                note(change)

    return Replay(store, application=database, observe=observe)


@attrs.define(eq=False)
class _RecordingDatabase:
    """The database, which records commands that have changed znodes of a subtree. Implements `Application`."""

    _subtree: Subtree
    _database: Database = attrs.field(factory=replayed_database, init=False)
    _executed: list[Executed] = attrs.field(factory=list, init=False)
    _is_raw: bool = attrs.field(default=True, init=False)
    """True if the present entry has had no command so far."""

    def take(self) -> tuple[list[Executed], bool]:
        """Commands of the entry that was applied last, and True if it had none at all; begins the next one."""
        found = self._executed, self._is_raw
        self._executed, self._is_raw = [], True
        return found

    def attach(self, engine: Engine, store: LocalStore) -> None:
        self._database.attach(engine, store)

    def load(self) -> None:
        self._database.load()

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        self._is_raw = False
        result = self._database.apply(transaction, entry, position)
        if isinstance(result, Result) and result.error is Error.OK and self._is_of_interest(result):
            self._executed.append(Executed(command_codec.parse_untrusted(entry.payload), result))
        return result

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        self._database.post_apply(entry, position, result)

    def _is_of_interest(self, result: Result) -> bool:
        """True for a command that has changed a znode of the subtree. A changed ACL fires no watch: any is of interest."""
        if not result.changes:
            return isinstance(result.value, Stat)
        return any(self._subtree.covers(path) for _, path in result.changes)
