"""Bugs of registrars and of their stores, planted in the core of the registrar and in that of variables."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from tests.simulation.explorer.mutant import ExploredMutant, explored
from virtuallog_database.registrar.core.batch import Batch, OperationResult
from virtuallog_database.registrar.core.edit import NotPermittedError, Operation
from virtuallog_database.registrar.core.machine import (
    Effect,
    Load,
    MachineState,
    Recovered,
    RegistrarMachine,
    Resolve,
    Store,
    never,
)
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP
from virtuallog_database.registrar.core.tables import Registry
from virtuallog_database.registrar.errors import RegistrarAbortedError
from virtuallog_database.state.core import variables
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.transaction import StoreTransaction

copied = RegistrarMachine.copied
stored = RegistrarMachine.stored
failed = RegistrarMachine.failed
began = RegistrarMachine.begin
made_store = RegistrarMachine._store
applied = variables.apply


@explored(RegistrarMachine.copied, configuration="registrar", says="A1 and B1 own A1.1")
def a_recovery_writes_nothing(self: RegistrarMachine, registry: Registry, version: bytes) -> list[Effect]:
    """An owner works with what it has loaded, and former owners go on beside it."""
    effects = copied(self, registry, version)
    if not version:
        return effects  # there is nothing to own before the first fence
    self.state, self._batch = MachineState.RUNNING, None
    return [Recovered()]


@explored(RegistrarMachine.copied, configuration="registrar-same-name", says="own")
def an_equal_owner_is_no_change(self: RegistrarMachine, registry: Registry, version: bytes) -> list[Effect]:
    """A recovery by an owner of the same name finds the record as it wants it, and keeps the version."""
    effects = copied(self, registry, version)
    found = registry.get(OWNERSHIP, KEY)
    if found is None or found.owner != self.owner:
        return effects
    self.state, self._batch = MachineState.RUNNING, None
    return [Recovered()]


@explored(RegistrarMachine._store, configuration="registrar-same-name", says="A1 and B1 own")
def a_version_is_made_of_the_value(self: RegistrarMachine, batch: Batch) -> Store:
    """A fence compares values: its version is a digest of what it writes."""
    store = made_store(self, batch)
    if self.state is not MachineState.FENCING:
        return store
    batch.version = (
        b"of" + blake2b(repr(sorted(store.changes.puts.items())).encode(), digest_size=8).hexdigest().encode()
    )
    return made_store(self, batch)


@explored(variables.apply, configuration="registrar-same-name", says="not stored as such")
def equal_records_are_its_own(transaction: StoreTransaction, command: Update | Stage) -> UpdateResult:
    """A store that finds the records that it would write takes them for its own, under any version."""
    if isinstance(command, Update) and command.puts:
        prefix = variables._prefix(command.name)
        if all(transaction.get(prefix + key) == value for key, value in command.puts):
            return UpdateResult(True, transaction.get(b"vh" + command.name))
    return applied(transaction, command)


@explored(variables.apply, configuration="registrar", says="is deposed, and no other")
def its_own_version_is_a_lost_race(transaction: StoreTransaction, command: Update | Stage) -> UpdateResult:
    """A store that is repeated finds the version that it has made itself, and refuses."""
    if isinstance(command, Update) and transaction.get(b"vh" + command.name) == command.version:
        return UpdateResult(False, command.version)
    return applied(transaction, command)


@explored(RegistrarMachine.begin, configuration="registrar", says="is not stored")
def a_caller_is_answered_before_the_store(self: RegistrarMachine, is_late: Callable[[], bool] = never) -> list[Effect]:
    """The operations of a batch are answered when it begins."""
    effects = began(self, is_late)
    if self._batch is None:
        return effects
    answers, self._batch.answers = self._batch.answers, []
    return [*(Resolve(ticket, answer) for ticket, answer in answers), *effects]


@explored(RegistrarMachine.failed, configuration="registrar-abort", says="has ended, and")
def the_queue_waits_for_ever(self: RegistrarMachine, error: Exception) -> list[Effect]:
    """The end of a registrar fails the batch that was being stored, and not what waits behind it."""
    waiting = [ticket for ticket, _ in self._waiting]
    return [effect for effect in failed(self, error) if not isinstance(effect, Resolve) or effect.ticket not in waiting]


def requeue(self: RegistrarMachine) -> None:
    """Put the operations of the batch that is being stored back to the front of the queue."""
    batch, self._batch = self._batch, None
    answers = [] if batch is None else batch.answers
    self._waiting.extendleft((ticket, ticket) for ticket, _ in reversed(answers))


@explored(RegistrarMachine.failed, configuration="registrar-abort", says="deposed, and no other")
def a_batch_runs_again_as_a_new_one(self: RegistrarMachine, error: Exception) -> list[Effect]:
    """After an unknown outcome the operations run again over the same version, in another batch."""
    if self.state is not MachineState.RUNNING or not isinstance(error, RegistrarAbortedError):
        return failed(self, error)
    requeue(self)
    return self.begin()


@explored(RegistrarMachine.failed, configuration="registrar-abort", says="is in the store")
def a_batch_runs_again_after_a_load(self: RegistrarMachine, error: Exception) -> list[Effect]:
    """After an unknown outcome an owner recovers again by itself, and runs the operations over what it finds."""
    if self.state is not MachineState.RUNNING or not isinstance(error, RegistrarAbortedError):
        return failed(self, error)
    requeue(self)
    self.state = MachineState.LOADING
    return [Load()]


@explored(RegistrarMachine.stored, configuration="registrar-fence", says="what was not stored as such")
def a_refused_fence_goes_on(self: RegistrarMachine, *, is_done: bool) -> list[Effect]:
    """A recovery does not look at the answer to its fence."""
    return stored(self, is_done=is_done or self.state is MachineState.FENCING)


@explored(RegistrarMachine.stored, configuration="registrar", says="")
def a_refused_batch_is_tried_over_the_new_version(self: RegistrarMachine, *, is_done: bool) -> list[Effect]:
    """An owner that is refused loads and fences again, as if it were still recovering: two owners turn each other out."""
    if is_done or self.state is not MachineState.RUNNING:
        return stored(self, is_done=is_done)
    requeue(self)
    self.state = MachineState.LOADING
    return [Load()]


@explored(Batch.perform, configuration="registrar-alone", says="is in the store")
def a_refused_operation_leaves_a_trace(self: Batch, ticket: Any, operation: Operation) -> bool:
    """What an operation has put before it raised is not undone."""
    edit, answer = self._edit, OperationResult(True, True, self.version)
    edit._journal, edit._former_number = {}, edit._next_number
    try:
        operation.perform(edit)
    except NotPermittedError as refusal:
        answer = OperationResult(False, False, self.version, refusal.reason)
    self._encoded.update(self._encode())
    self._answer(ticket, answer)
    return True


MUTANTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, ExploredMutant))
