"""Plays the log of a database into a store without being a replica: no log, no network, no tasks, no clock, no chance.

    replay = Replay(store)                      what the store has applied so far counts: `replay.cursor`
    for piece in ...                            of the log, from the cursor on: from servers, from archives, wherever it is
        for effects in replay.apply(piece)      what each entry has done to the store

The store is a function of the log up to its cursor (SOSP'21, section 3), and `apply` of every engine is one of the transaction, the
entry and the position. So the same stack that a server runs gives the same store here, and what each entry *did*: what depends on
many keys before (versions, several operations in one, sequential names, the end of a session) is plain puts and deletes after.

Rules:
* Each entry has a transaction of its own, so the effects of one position are exact. Replicas put several into one; which they put
  together is no part of the state.
* Soft state is made from the store once, and not kept up: no `apply` looks at it. (`Checksums` compares with digests of its own, and
  has none here.)
* The cursor is in the store after each entry, but not in the effects: whoever folds them says himself how far they go.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
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

_NOBODY: Final = ReplicaIdentity(node=NodeId(0), store=bytes(16), boot=0)
"""Proposes nothing, so no name of it comes into the state."""


@attrs.frozen
class AppliedEffects:
    """What one entry of the log has done to the store."""

    position: LogPosition
    time_ms: int
    """Wall-clock time when whoever ordered the log has ordered it."""
    changes: Mapping[bytes, bytes | None]
    """What was put under each key, the last of it; None: deleted. Keys of engines are among them, the cursor is not."""


@attrs.define(eq=False)
class Replay:
    """Plays into one store, for as long as that is open. It is the only one who writes there.

    Args:
        store: what it holds has been applied up to the cursor in it; an empty one begins with the log.
        recipe: which engines there are; those of the servers.
        application: on top of them; by default the tree.

    Raises:
        BinaryTooOldError: the database uses an engine that this program does not know.
        CorruptionError: what is in the store cannot be read.
    """

    store: LocalStore
    recipe: Recipe = database_recipe
    application: Application | None = None
    cursor: LogPosition = attrs.field(init=False)
    """First position that is not applied."""
    strays: Counter = attrs.field(factory=lambda: Counter("replay_strays", "Entries of nobody's."), init=False)
    """Entries that are none of a database, and were passed over."""
    _base: BaseEngine = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        context = LayerContext(
            identity=_NOBODY,
            environment=_environment(),
            log=cast(VirtualLog, _Absent()),
            store=self.store,
            passive=True,
        )
        settings, environment = StackSettings(), context.environment
        self._base = BaseEngine(context, settings.base)
        application = self.application or Database(clock=environment.clock, random=environment.random)
        build(self._base, self.recipe(context, settings), application).load()
        self.cursor = read_cursor(self.store)

    def apply(self, found: Iterable[Placed]) -> list[AppliedEffects]:
        """Play what lies at the cursor and behind it, all of it; see `play`."""
        return list(self.play(found))

    def play(self, found: Iterable[Placed]) -> Iterator[AppliedEffects]:
        """Play one entry after the other. When the effects of one are handed out, the store is as it is right behind that entry, and
        the cursor stands there; nothing is played further until the next ones are asked for.

        Args:
            found: the part of the log that begins at the cursor, without a hole.

        Raises:
            SnapshotNeededError: the log has been trimmed there.
            CorruptionError: a part of the log is lost, or this is not what comes next.
            BinaryTooOldError: an entry of a later version, or one that enables an engine which this program does not know.
            StorageError: of the store.
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
        self._move(transaction, position + 1)
        return effects

    def _pass_over(self, stop: int) -> None:
        """What holds nothing to apply moves the cursor, too."""
        if stop > self.cursor:
            self._move(StoreTransaction(self.store), stop)

    def _move(self, transaction: StoreTransaction, cursor: int) -> None:
        transaction.put(CURSOR, cursor.to_bytes(8, "big"))
        transaction.commit()
        self.cursor = LogPosition(cursor)


def _environment() -> Environment:
    absent: Any = _Absent()
    return Environment(services=absent, clock=_StoppedClock(), random=random.Random(0), nursery=absent)


class _Absent:
    """The log, services, a nursery: there are none, and who only applies asks for none."""

    def __getattr__(self, name: str) -> Any:
        return _refuse


def _refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a replay has no log and no network: an engine has asked for them in `apply`")


class _StoppedClock:
    """`virtuallog.contract.ports.Clock`, for soft state that nobody keeps up."""

    def wall(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        _refuse()

    def timeout(self, seconds: float) -> trio.CancelScope:
        _refuse()
