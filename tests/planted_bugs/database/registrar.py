"""Bugs of registrars, and of the variables under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog_database.registrar.core.machine import (
    Effect,
    MachineState,
    Recovered,
    RegistrarMachine,
    Resolve,
    Store,
    never,
)
from virtuallog_database.registrar.core.tables import Registry
from virtuallog_database.registrar.follower import Follower
from virtuallog_database.state.core import variables
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.state.records import UpdateStream, WatchesRecords
from virtuallog_database.transaction import StoreTransaction
from virtuallog_simulation.checks.database.registrar import COPIES, FENCED, ORDERED, SAME, STORED

PUBLISHED: Final = "Mesos, src/master/registrar.cpp"
SOURCE: Final = "specs: registrar, section 9"
BROKEN: Final = [FENCED, STORED, ORDERED, SAME]

applied = variables.apply
begun = RegistrarMachine.begin
copied = RegistrarMachine.copied
stored = RegistrarMachine.stored


@mutant(variables.apply, scenario="registrars", published=SOURCE, found_by=BROKEN)
def versions_are_not_compared(transaction: StoreTransaction, command: Update | Stage) -> UpdateResult:
    """A replica takes every update, of any expected version."""
    if isinstance(command, Update):
        present = transaction.get(variables._VERSIONS + command.name)
        command = attrs.evolve(command, expected=present or b"", may_create=True)
    return applied(transaction, command)


@mutant(RegistrarMachine.copied, scenario="registrars", published=PUBLISHED, found_by=BROKEN)
def recovery_does_not_fence(self: RegistrarMachine, registry: Registry, version: bytes) -> list[Effect]:
    """A recovery writes nothing where there is a registry already, so former owners go on until it stores something."""
    if not version:
        return copied(self, registry, version)
    self.registry, self.version, self.state = registry, version, MachineState.RUNNING
    return [Recovered()]


@mutant(RegistrarMachine.begin, scenario="registrars", published=SOURCE, found_by=BROKEN)
def answered_before_the_store(self: RegistrarMachine, is_late: Callable[[], bool] = never) -> list[Effect]:
    """Operations are answered when their batch is about to be stored."""
    effects = begun(self, is_late)
    batch = self._batch
    if batch is None or not any(isinstance(effect, Store) for effect in effects):
        return effects
    answers: Sequence[Effect] = [Resolve(ticket, answer) for ticket, answer in batch.answers]
    batch.answers.clear()
    return [*answers, *effects]


@mutant(RegistrarMachine.stored, scenario="registrars", published=SOURCE, found_by=BROKEN)
def deposed_owner_goes_on(self: RegistrarMachine, *, is_done: bool) -> list[Effect]:
    """A refused store counts as done."""
    return stored(self, is_done=True)


@mutant(Follower._follow, scenario="registrars", found_by=[COPIES])
async def follower_ignores_holes(self: Follower, stream: UpdateStream) -> None:
    """A standby applies the updates that it gets, also behind a hole."""
    while True:
        update = await stream.next()
        if update is not None:
            self._apply(update)


@mutant(Follower.copy, scenario="registrars", found_by=[COPIES, STORED, SAME])
async def standby_does_not_compare_versions(self: Follower) -> tuple[Registry, bytes] | None:
    """A standby takes over with the copy that it has, under the version that is stored."""
    if not isinstance(self._storage, WatchesRecords):
        return None
    present = await self._storage.version(self.name)
    return (self.registry.copy(), present) if present is not None else None


@mutant(variables.apply, scenario="registrars", found_by=[SAME])
def staged_records_name_no_version(transaction: StoreTransaction, command: Update | Stage) -> UpdateResult:
    """A late conversion of a packed value puts old records over those of another owner."""
    if isinstance(command, Stage):
        command = attrs.evolve(command, expected=b"")
    return applied(transaction, command)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
