"""What every engine between the base and the application is made from: by itself, a layer that passes everything on.

An engine overrides what it has an opinion about. Rules for all of them:

* `apply` is a function of the transaction, the entry and the position. What it writes lies in `keys.section(name)`.
* Soft state changes in `post_apply` only, and in `load`, which makes it from the store.
* Entries without a header of this engine's name are passed on.
* A control entry of an engine is proposed to the layer *below*, and consumed in its own `apply`: not passed up.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, DiskFullError, StorageError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, Environment
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Applicator, Engine, FailedApply
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import LocalStore
from virtuallog_database.transaction import StoreTransaction

# FOLDED from virtuallog_database.engines.completions: Who is to be told what, once everything of a transaction has been seen by everybody.                           Pure.
#
# A transaction of the store covers many entries. Whoever proposed the first one must not read the store, nor let a client
# read it, before `post_apply` has been called for the last: the effects of all of them are there, but what watches say of the
# last is not on its way yet.


@attrs.define(eq=False)
class Completions:
    """Results in the order in which they were found, held back until `run`."""

    _waiting: list[tuple[Done, Any]] = attrs.field(factory=list)

    def add(self, done: Done, result: Any) -> None:
        """`result` is what `apply` returned."""
        self._waiting.append((done, result.error if isinstance(result, FailedApply) else result))

    def run(self) -> None:
        """Tell them. Those who are told may propose again."""
        waiting, self._waiting = self._waiting, []
        for done, outcome in waiting:
            done(outcome)


# FOLDED from virtuallog_database.engines.failures: Errors of `apply` that are no function of the log (SOSP'21, section 3.3).                                      Pure.
#
# An error that every replica meets at the same entry is part of the state machine: it is rolled back, told to the proposer, and
# play goes on. One that only this replica meets (its disk is full, its memory is short) must stop it at once: going on would make
# it differ from the others. The list is explicit; whatever is not on it counts as deterministic, and checksums that travel through the
# log catch what was wrongly left out.

NONDETERMINISTIC: Final = (
    StorageError,
    DiskFullError,
    CorruptionError,
    BinaryTooOldError,
    OSError,
    MemoryError,
    RecursionError,
    AssertionError,
)
"""RecursionError depends on how deep the caller stood already; a failed assertion says that the state is not what it must be."""


@attrs.frozen(kw_only=True)
class LayerContext:
    """What an engine is given to work with."""

    identity: ReplicaIdentity
    environment: Environment
    log: VirtualLog
    store: LocalStore
    """To be read; written through transactions only."""
    passive: bool = False
    """See `ReplicaSettings.passive`."""
    completions: Completions = attrs.field(factory=Completions)
    """Where an engine that completes proposals by itself, in `post_apply`, leaves the results."""


@attrs.define(eq=False)
class Layer:
    """An engine for what is above it, an applicator for what is below."""

    name: ClassVar[str]
    """Of its header, its section of the store, and in metrics."""

    context: LayerContext
    below: Engine = attrs.field(init=False, repr=False)
    """Connected when the stack is built. The base has none."""
    above: Applicator = attrs.field(init=False, repr=False)
    stopped: VirtualLogError | None = attrs.field(default=None, init=False)
    """What to tell those who propose now."""

    def load(self) -> None:
        """Called before the first `apply`, from the lowest layer up: make soft state from the store."""

    async def run(self) -> None:
        """Background work of this engine, for as long as the replica runs; may end. What it raises stops the replica."""

    def stop(self, error: VirtualLogError) -> None:
        """Called once, from the lowest layer up, when the replica has stopped: tell `error` to all who wait, in order, and to
        whoever comes later."""
        self.stopped = error

    def snapshotted(self, position: LogPosition) -> None:
        """This replica has a durable snapshot of the store, in which everything below `position` is applied."""

    def metrics(self) -> list[MetricFamily]:
        """Figures of this engine's own."""
        return []

    # -- as an engine ---------------------------------------------------------------------------------------------

    def propose(self, entry: Entry, done: Done) -> None:
        """See `Engine.propose`."""
        self.below.propose(entry, done)

    async def sync(self) -> None:
        """See `Engine.sync`."""
        await self.below.sync()

    async def prepare_read(self) -> None:
        """See `Engine.prepare_read`."""
        await self.below.prepare_read()

    async def confirm(self) -> None:
        """See `Engine.confirm`."""
        await self.below.confirm()

    def set_trim_prefix(self, position: LogPosition) -> None:
        """See `Engine.set_trim_prefix`."""
        self.below.set_trim_prefix(position)

    # -- as an applicator -----------------------------------------------------------------------------------------

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        """See `Applicator.apply`."""
        return self.apply_above(transaction, entry, position)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        """See `Applicator.post_apply`."""
        self.post_apply_above(entry, position, result)

    def apply_above(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        """Let the layer above apply this. If it raises a deterministic error, what it has written is taken back, and the
        error is the result. What is taken back with an outer savepoint is kept until the lowest layer is done with this entry: a layer
        that applies several entries for one has to release what each has left (`StoreTransaction.next_savepoint`)."""
        savepoint = transaction.savepoint()
        try:
            result = self.above.apply(transaction, entry, position)
        except NONDETERMINISTIC:
            raise
        except Exception as error:
            transaction.rollback(savepoint)
            return FailedApply(error, self)
        if not savepoint:  # those of the layers above are closed with that of the lowest
            transaction.release(savepoint)
        return result

    def post_apply_above(self, entry: Entry, position: LogPosition, result: Any) -> None:
        """Tell the layer above, unless this is an entry on which it raised."""
        if not (isinstance(result, FailedApply) and result.caught_by is self):
            self.above.post_apply(entry, position, result)
