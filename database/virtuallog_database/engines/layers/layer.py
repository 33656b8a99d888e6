"""Base class of every engine between the base and the application: a layer that passes everything
on.

An engine overrides the methods that it needs. Rules for all engines:

* `apply` is a function of the transaction, the entry and the position. Its writes lie in
  `keys.section(name)`.
* Soft state changes in `post_apply` only, and in `load`, which makes it from the store.
* Entries without a header of this engine's name are passed on.
* A control entry of an engine is proposed to the layer *below*, and consumed in its own `apply`:
  not passed up.
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
"""Errors of `apply` that are no function of the log (SOSP'21, section 3.3): they stop the replica.

An error that every replica meets at the same entry is part of the state machine: it is rolled back,
passed to the proposer, and play goes on. One that only this replica meets (its disk is full, its
memory is short) must stop it at once: going on would make it differ from the others. The list is
explicit. All other errors count as deterministic, and checksums that travel through the log catch
an error that is missing here. RecursionError depends on the caller's depth; a failed assertion
means that the state is not what it must be.
"""


@attrs.define(eq=False)
class Completions:
    """Results of a transaction's entries in order, held back until `run`.

    A transaction of the store covers many entries. The proposer of the first one must not read the
    store, nor let a client read it, before `post_apply` was called for the last: the effects of all
    entries are there, but the watches of the last have not fired yet.
    """

    _waiting: list[tuple[Done, Any]] = attrs.field(factory=list)

    def add(self, done: Done, result: Any) -> None:
        """Add a result of `apply`."""
        self._waiting.append((done, result.error if isinstance(result, FailedApply) else result))

    def run(self) -> None:
        """Call all callbacks, which may propose again."""
        waiting, self._waiting = self._waiting, []
        for done, outcome in waiting:
            done(outcome)


@attrs.frozen(kw_only=True)
class LayerContext:
    """Environment of an engine."""

    identity: ReplicaIdentity
    environment: Environment
    log: VirtualLog
    store: LocalStore
    """For reads; written through transactions only."""
    passive: bool = False
    """See `ReplicaSettings.passive`."""
    completions: Completions = attrs.field(factory=Completions)
    """Results of engines that complete proposals by themselves, in `post_apply`."""


@attrs.define(eq=False)
class Layer:
    """Engine for the layer above, applicator for the layer below."""

    name: ClassVar[str]
    """Name of its header, of its section of the store, and in metrics."""

    context: LayerContext
    below: Engine = attrs.field(init=False, repr=False)
    """The layer below, connected when the stack is built. The base has none."""
    above: Applicator = attrs.field(init=False, repr=False)
    stopped: VirtualLogError | None = attrs.field(default=None, init=False)
    """Error for later proposals. None while the replica runs."""

    def load(self) -> None:
        """Make soft state from the store. Called before the first `apply`, from the lowest layer
        up."""

    async def run(self) -> None:
        """Background work of this engine, while the replica runs; may end. An error that it raises
        stops the replica."""

    def stop(self, error: VirtualLogError) -> None:
        """Pass `error` to all waiting callers, in order, and to later ones. Called once, from the
        lowest layer up, when the replica has stopped."""
        self.stopped = error

    def snapshotted(self, position: LogPosition) -> None:
        """Report a durable snapshot of this replica's store with everything below `position`
        applied."""

    def metrics(self) -> list[MetricFamily]:
        """Metrics of this engine."""
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
        """Let the layer above apply this entry. If it raises a deterministic error, its writes are
        rolled back, and the error is the result. Undo data of an outer savepoint is kept until the
        lowest layer is done with this entry. So a layer that applies several entries for one must
        release each (`StoreTransaction.next_savepoint`)."""
        savepoint = transaction.savepoint()
        try:
            result = self.above.apply(transaction, entry, position)
        except NONDETERMINISTIC:
            raise
        except Exception as error:
            transaction.rollback(savepoint)
            return FailedApply(error, self)
        if not savepoint:  # savepoints of the layers above are closed with that of the lowest
            transaction.release(savepoint)
        return result

    def post_apply_above(self, entry: Entry, position: LogPosition, result: Any) -> None:
        """Call `post_apply` of the layer above, unless it raised on this entry."""
        if not (isinstance(result, FailedApply) and result.caught_by is self):
            self.above.post_apply(entry, position, result)
