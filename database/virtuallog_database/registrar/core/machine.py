"""The state machine of a registrar: recovery, batches, fencing. Pure: its driver loads and stores.

    NEW --recover--> LOADING --copied--> FENCING --stored--> RUNNING
                        ^                   |
                        '----- refused -----'          RUNNING --refused--> ENDED;  any state --failed--> ENDED

FENCING writes the owner under a new version, so every store of an earlier owner is refused from then on. In RUNNING at most
one store is under way; operations that come meanwhile wait, and become the next batch. What is answered is stored.

Source: Mesos, `src/master/registrar.cpp`. Departures: an operation runs on an overlay, so one that raises leaves no trace; a
store holds the changed records; a batch that changes nothing is answered without a store; answers say if anything has changed.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.errors import OverloadedError
from virtuallog_database.registrar.core.batch import Batch, OperationResult
from virtuallog_database.registrar.core.edit import Edit, Operation
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot
from virtuallog_database.registrar.errors import (
    DeposedError,
    EmptyRegistryError,
    MissingCapabilitiesError,
    NotRecoveredError,
)
from virtuallog_database.state.core.record_changes import RecordChanges

BATCH_BYTES: Final = 512 << 10
"""Bytes of changed records after which a batch takes no further operation. A single operation may change as much as a store takes."""
BATCH_OPERATIONS: Final = 1024
"""Most operations of a batch. They run in one turn, which the driver ends before if they are slow."""
FENCES_MAX: Final = 16
"""Tries to fence in one recovery, while former owners still store."""
QUEUE_MAX: Final = 200_000
"""Operations that may wait."""


def never() -> bool:
    """Let a turn be as long as its operations."""
    return False


class EmptyPolicy(enum.Enum):
    """Policy of a recovery where there is no registry: the flags `registrar_strict` and `registrar_upgrade` of the seed document."""

    INITIALIZE = "initialize"
    """Begin an empty one."""
    FAIL = "fail"
    """Refuse: `registrar_strict`. A lost or wrong store must not pass for an empty cluster."""
    UPGRADE = "upgrade"
    """Begin an empty one; the user admits all that report. Where there is one, go on with it and warn (`is_upgrading`)."""


class MachineState(enum.Enum):
    """See the module's docstring."""

    NEW = "new"
    LOADING = "loading"
    FENCING = "fencing"
    RUNNING = "running"
    ENDED = "ended"


@attrs.frozen
class Load:
    """Load the records, and call `copied`."""


@attrs.frozen
class Store:
    """Update the records, and call `stored` with the answer; or `failed`."""

    expected: bytes
    changes: RecordChanges
    may_create: bool


@attrs.frozen
class Resolve:
    """Answer a caller."""

    ticket: Any
    outcome: OperationResult | Exception


@attrs.frozen
class Recovered:
    """The registry is this owner's."""


@attrs.frozen
class Committed:
    """A batch has been stored: its changed records, None where deleted."""

    changes: Mapping[tuple[str, str], Slot | None]
    version: bytes


Effect: TypeAlias = Load | Store | Resolve | Recovered | Committed


@attrs.define(eq=False)
class RegistrarMachine:
    """One registrar, from its recovery to its end. Methods return what its driver must do, in order.

    Args:
        name: of the registry.
        tables: all tables.
        owner: name of this owner.
        draw_version: returns a new version with each call.
        capabilities: of this program.
        empty: policy for an empty store.
        changes_bytes_max: most bytes of one store.
    """

    name: str
    tables: Sequence[RecordTable[Any]]
    owner: str
    draw_version: Callable[[], bytes]
    capabilities: Collection[str] = ()
    empty: EmptyPolicy = EmptyPolicy.INITIALIZE
    changes_bytes_max: int = BATCH_BYTES
    state: MachineState = attrs.field(default=MachineState.NEW, init=False)
    registry: Registry = attrs.field(factory=Registry, init=False)
    """As last stored."""
    version: bytes = attrs.field(default=b"", init=False)
    """Version of `registry`."""
    was_empty: bool = attrs.field(default=False, init=False)
    """True if the recovery has begun an empty registry."""
    error: Exception | None = attrs.field(default=None, init=False)
    """Reason of its end."""
    _waiting: deque[tuple[Any, Operation]] = attrs.field(factory=deque, init=False)
    _operations_max: int = attrs.field(default=BATCH_OPERATIONS, init=False)
    """Most operations of the next batch."""
    _fences: int = attrs.field(default=0, init=False)
    """Tries to fence."""
    _batch: Batch | None = attrs.field(default=None, init=False)
    """The batch that is being stored."""

    @property
    def queued(self) -> int:
        """Operations without an answer, those of the batch included."""
        return len(self._waiting) + (0 if self._batch is None else len(self._batch.answers))

    @property
    def storing(self) -> int:
        """Operations of the batch that is being stored."""
        return 0 if self._batch is None else len(self._batch.answers)

    def recover(self) -> list[Effect]:
        """Begin the recovery; does nothing if it has begun."""
        if self.state is not MachineState.NEW:
            return []
        self.state = MachineState.LOADING
        return [Load()]

    def copied(self, registry: Registry, version: bytes) -> list[Effect]:
        """Fence earlier owners. The machine owns the registry from now on; a new one, without a version, if nothing is stored. Errors end the
        registrar: see `error`."""
        if self.state is MachineState.ENDED:  # meanwhile
            return []
        assert self.state is MachineState.LOADING
        found = registry.get(OWNERSHIP, KEY)
        if found is None and self.empty is EmptyPolicy.FAIL:
            return self.failed(EmptyRegistryError(self.name))
        missing = sorted(set(() if found is None else found.capabilities).difference(self.capabilities))
        if missing:
            return self.failed(MissingCapabilitiesError(missing))
        self.state, self.registry, self.version, self.was_empty = MachineState.FENCING, registry, version, found is None
        kept = () if found is None else found.capabilities
        self._batch, self._fences = self._new_batch(), self._fences + 1
        self._batch.perform(None, _Fence(Ownership(self.owner, 1 if found is None else found.epoch + 1, kept)))
        ((_, answer),) = self._batch.answers
        self._batch.answers.clear()
        if isinstance(answer, Exception):
            return self.failed(answer)
        return [self._store(self._batch)]

    def offer(self, ticket: Any, operation: Operation) -> None:
        """Take an operation, for a later `begin`.

        Raises:
            NotRecoveredError: `recover` was not called.
            OverloadedError: too many wait; nothing has been done.
            VirtualLogError: the registrar has ended, by this error.
        """
        if self.error is not None:
            raise copy(self.error)
        if self.state is MachineState.NEW:
            raise NotRecoveredError
        if len(self._waiting) >= QUEUE_MAX:
            raise OverloadedError(f"{QUEUE_MAX} operations wait for the registrar")
        self._waiting.append((ticket, operation))

    @property
    def can_begin(self) -> bool:
        """True if operations wait, and no store is under way."""
        return self.state is MachineState.RUNNING and self._batch is None and bool(self._waiting)

    def begin(self, is_late: Callable[[], bool] = never) -> list[Effect]:
        """Run waiting operations, until the turn has been long enough: one store, or the answers if they change nothing."""
        assert self.can_begin
        batch = self._new_batch()
        while self._waiting and len(batch.operations) < self._operations_max and batch.size < BATCH_BYTES:
            if not batch.perform(*self._waiting[0]):
                break
            self._waiting.popleft()
            if is_late():
                break
        if not batch.is_unchanged:
            self._batch = batch
            return [self._store(batch)]
        return [Resolve(ticket, answer) for ticket, answer in batch.unchanged_answers(self.version)]

    def stored(self, *, is_done: bool) -> list[Effect]:
        """The store under way has an answer. If the registrar has ended meanwhile, nothing follows from it."""
        batch = self._batch
        if self.state is MachineState.ENDED:
            return []
        assert batch is not None
        if not is_done and self.state is MachineState.FENCING and self._fences < FENCES_MAX:
            # Another owner, former or new, has stored something since the load. It has happened before this recovery.
            self.state, self._batch = MachineState.LOADING, None
            return [Load()]
        if not is_done:
            return self.failed(DeposedError(self.name))
        self._batch, self._operations_max = None, BATCH_OPERATIONS
        changes = batch.changes
        self.registry.commit(changes)
        self.version = batch.version
        effects: list[Effect] = [Committed(changes, batch.version)]
        if self.state is MachineState.FENCING:
            self.state = MachineState.RUNNING
            effects.append(Recovered())
        effects += (Resolve(ticket, answer) for ticket, answer in batch.answers)
        return effects

    def too_large(self, error: Exception) -> list[Effect]:
        """The storage takes no value of the size that the batch would make, and has done nothing. Its operations are tried again in smaller
        batches, and one that is too large by itself is refused."""
        batch = self._batch
        if self.state is MachineState.ENDED:
            return []
        assert batch is not None
        if self.state is MachineState.FENCING:
            return self.failed(error)
        self._batch = None
        if len(batch.operations) == 1:
            self._operations_max = BATCH_OPERATIONS
            return [Resolve(ticket, error) for ticket, _ in batch.operations]
        self._waiting.extendleft(reversed(batch.operations))
        self._operations_max = len(batch.operations) // 2
        return []

    def failed(self, error: Exception) -> list[Effect]:
        """End this registrar: everything that waits fails. The batch that was being stored may be in the store."""
        if self.error is not None:
            return []
        self.state, self.error = MachineState.ENDED, error
        batch, self._batch = self._batch, None
        waiting = [ticket for ticket, _ in (() if batch is None else batch.answers)]
        waiting += [ticket for ticket, _ in self._waiting]
        self._waiting.clear()
        return [Resolve(ticket, copy(error)) for ticket in waiting]

    def _new_batch(self) -> Batch:
        tables = {table.name: table for table in (*self.tables, OWNERSHIP)}
        return Batch(self.registry, tables, self.draw_version(), self.changes_bytes_max)

    def _store(self, batch: Batch) -> Store:
        return Store(self.version, batch.record_changes(), may_create=not self.version)


@attrs.frozen
class _Fence:
    """The operation of a recovery."""

    ownership: Ownership

    def perform(self, edit: Edit) -> None:
        edit.put(OWNERSHIP, KEY, self.ownership)
