"""Replays the log of a database into a store without a replica: no log client, network, tasks,
clock or randomness.

    replay = Replay(store)                      what the store has applied so far counts: `replay.cursor`
    for piece in ...                            of the log, from the cursor on: from servers, archives, or elsewhere
        for effects in replay.apply(piece)      the changes that each entry has made in the store

The store is a function of the log up to its cursor (SOSP'21, section 3), and `apply` of every
engine is a function of the transaction, the entry and the position. So the stack that a server runs
produces the same store here, and the changes of each entry. Results that depend on many keys
(versions, several operations in one, sequential names, the end of a session) become plain puts and
deletes.

Rules:
* Each entry has a transaction of its own, so the effects of one position are exact. Replicas put
  several entries into one; the grouping is no part of the state.
* Soft state is made from the store once, and not maintained: no `apply` looks at it.
  (`ChecksumEngine` compares with digests of its own, and has none here.)
* The cursor is in the store after each entry, but not in the effects: callers that fold effects
  must record how far they go.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.metrics import Counter
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import Gap, LogPosition, NodeId
from virtuallog_database.engines.base.base_engine import BaseEngine
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.core.player import items
from virtuallog_database.engines.layers.contract import Application
from virtuallog_database.engines.layers.layer import LayerContext
from virtuallog_database.engines.stack import Recipe, StackSettings, build, database_recipe
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.database import Database
from virtuallog_database.transaction import StoreTransaction

_NO_REPLICA: Final = ReplicaIdentity(node=NodeId(0), store=bytes(16), boot=0)
"""Identity for a stack that proposes nothing, so its name never enters the state."""


@attrs.frozen
class AppliedEffects:
    """Changes that one log entry has made in the store."""

    position: LogPosition
    time_ms: int
    """Wall-clock time in milliseconds at which the log ordered the entry."""
    changes: Mapping[bytes, bytes | None]
    """Last value put under each key, None if deleted. Includes keys of engines, but not the cursor."""


@attrs.define(eq=False)
class Replay:
    """Plays a log into one open store, and must be its only writer.

    Args:
        store: everything up to its cursor has been applied; an empty one begins with the log.
        recipe: the engines; those of the servers.
        application: the application on top of them; by default the database's tree.

    Raises:
        BinaryTooOldError: the database uses an engine that this program does not know.
        CorruptionError: the store's content cannot be read.
    """

    store: LocalStore
    recipe: Recipe = database_recipe
    application: Application | None = None
    observe: Callable[[AppliedEffects], None] | None = None
    """Called with the effects of each entry before they are in the store. None if nothing observes them."""
    cursor: LogPosition = attrs.field(init=False)
    """First position that is not applied."""
    strays: Counter = attrs.field(
        factory=lambda: Counter("replay_strays", "Entries that are not from a database."), init=False
    )
    """Number of entries that are not from a database; they were skipped."""
    _base: BaseEngine = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        context = LayerContext(
            identity=_NO_REPLICA,
            environment=_environment(),
            log=cast(VirtualLog, _Absent()),
            store=self.store,
            passive=True,
        )
        settings = StackSettings()
        self._base = BaseEngine(context, settings.base)
        application = self.application or replayed_database()
        build(self._base, self.recipe(context, settings), application).load()
        self.cursor = read_cursor(self.store)

    def apply(self, found: Iterable[Placed]) -> list[AppliedEffects]:
        """Play all items, which begin at the cursor; see `play`."""
        return list(self.play(found))

    def play(self, found: Iterable[Placed]) -> Iterator[AppliedEffects]:
        """Play one entry after the other. When its effects are yielded, the store and the cursor
        stand right behind that entry. Nothing further is played until the next effects are
        requested.

        Args:
            found: the part of the log that begins at the cursor, without a hole.

        Raises:
            SnapshotNeededError: the log has been trimmed there.
            CorruptionError: a part of the log is lost, or the items do not continue at the cursor.
            BinaryTooOldError: an entry of a later version, or one that enables an engine unknown to
                this program.
            StorageError: the store failed.
        """
        for placed in found:
            if placed.start != self.cursor:
                reason = f"the log was played up to {self.cursor}, and what comes then begins at {placed.start}"
                raise CorruptionError(reason)
            time_ms = 0 if isinstance(placed, Gap) else placed.time_ms
            for position, entry in items([placed], self.strays):
                if entry is not None:
                    yield self._apply(position, entry, time_ms)
            self._pass_over(placed.stop)

    def _apply(self, position: LogPosition, entry: Entry, time_ms: int) -> AppliedEffects:
        transaction = StoreTransaction(self.store)
        self._base.apply_above(transaction, entry, position)
        effects = AppliedEffects(position, time_ms, transaction.changes)
        if self.observe is not None:
            self.observe(effects)
        self._move(transaction, position + 1)
        return effects

    def _pass_over(self, stop: int) -> None:
        """Move the cursor over positions that hold nothing to apply."""
        if stop > self.cursor:
            self._move(StoreTransaction(self.store), stop)

    def _move(self, transaction: StoreTransaction, cursor: int) -> None:
        transaction.put(CURSOR, cursor.to_bytes(8, "big"))
        transaction.commit()
        self.cursor = LogPosition(cursor)


def replayed_database() -> Database:
    """The application of a replay: the database's tree."""
    environment = _environment()
    return Database(clock=environment.clock, random=environment.random)


def _environment() -> Environment:
    absent: Any = _Absent()
    return Environment(services=absent, clock=_StoppedClock(), random=random.Random(0), nursery=absent)


class _Absent:
    """Stand-in for the log, services and nursery, which `apply` never uses."""

    def __getattr__(self, name: str) -> Any:
        return _refuse


def _refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a replay has no log and no network: an engine has asked for them in `apply`")


class _StoppedClock:
    """Stopped `virtuallog.contract.ports.Clock`, for soft state that is not maintained."""

    def wall(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        _refuse()

    def timeout(self, seconds: float) -> trio.CancelScope:
        _refuse()
