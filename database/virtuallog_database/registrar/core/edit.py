"""The overlay on which an operation runs: nothing is changed until its batch is stored.

registry            as stored
  Edit.changes      of the operations of the batch so far
    Edit's journal  of the operation that runs now: undone if it raises
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot

RecordT = TypeVar("RecordT")

_Place = tuple[str, str]
"""RecordTable and key."""


@attrs.define
class NotPermittedError(VirtualLogError):
    """Raised by an operation that does not apply to the registry as it is. The registrar answers that it is not permitted."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class Operation(Protocol):
    """A change of the registry."""

    def perform(self, edit: Edit) -> None:
        """Change the tables. Runs once, without a break: it must not wait, and must be fast. Its changes are undone if it raises.

        Raises:
            NotPermittedError: it does not apply.
        """
        ...


class _Untouched:
    """A place that the batch has not changed so far."""


_UNTOUCHED = _Untouched()


@attrs.define(eq=False)
class Edit:
    """Tables as an operation sees them: with the effects of the earlier ones of its batch. Made anew for each batch."""

    _registry: Registry
    _changes: dict[_Place, Slot | None] = attrs.field(factory=dict, init=False)
    _journal: dict[_Place, Slot | _Untouched | None] = attrs.field(factory=dict, init=False)
    """Values in `_changes` before the operation that runs now."""
    _next_number: int = attrs.field(init=False)
    _former_number: int = attrs.field(init=False)
    """`_next_number` before the operation that runs now."""

    def __attrs_post_init__(self) -> None:
        self._next_number = self._former_number = self._registry.next_number

    # -- for operations -------------------------------------------------------------------------------------------------

    def get(self, table: RecordTable[RecordT], key: str) -> RecordT | None:
        """The record of a key; None if there is none."""
        slot = self._slot(table.name, key)
        return None if slot is None else slot.record

    def items(self, table: RecordTable[RecordT]) -> Iterator[tuple[str, RecordT]]:
        """All records with their keys, in the order in which they were added. The table must not be changed meanwhile."""
        stored = self._registry.slots(table.name)
        added = list[tuple[str, Slot]]()
        for (name, key), slot in self._changes.items():
            if name == table.name and slot is not None and (key not in stored or stored[key].number != slot.number):
                added.append((key, slot))
        for key, former in stored.items():
            slot = self._changes.get((table.name, key), former)
            if slot is not None and slot.number == former.number:
                yield key, slot.record
        for key, slot in sorted(added, key=lambda each: each[1].number):
            yield key, slot.record

    def put(self, table: RecordTable[RecordT], key: str, record: RecordT) -> None:
        """Add a record at the end of a table, or replace the one of this key in its place."""
        former = self._slot(table.name, key)
        number = self._next_number if former is None else former.number
        if former is None:
            self._next_number += 1
        self._change((table.name, key), Slot(number, record))

    def delete(self, table: RecordTable[Any], key: str) -> bool:
        """Delete a record; returns False if there is none."""
        if self._slot(table.name, key) is None:
            return False
        self._change((table.name, key), None)
        return True

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Capabilities that a program needs to own the registry."""
        ownership = self.get(OWNERSHIP, KEY)
        return () if ownership is None else ownership.capabilities

    def require(self, capability: str) -> None:
        """Need a capability from now on: recoveries of programs without it are refused (`RegistrarSettings.capabilities`)."""
        self._set_capabilities({*self.capabilities, capability})

    def release(self, capability: str) -> None:
        """Need a capability no longer."""
        self._set_capabilities({*self.capabilities} - {capability})

    def _set_capabilities(self, wanted: set[str]) -> None:
        ownership = self.get(OWNERSHIP, KEY) or Ownership("", 0)
        self.put(OWNERSHIP, KEY, attrs.evolve(ownership, capabilities=tuple(sorted(wanted))))

    # -- for the registrar ----------------------------------------------------------------------------------------------

    def run(self, operation: Operation) -> bool:
        """Perform an operation; returns True if it has changed anything. If it raises, its changes are undone."""
        self._journal, self._former_number = {}, self._next_number
        try:
            operation.perform(self)
        except BaseException:
            self.undo()
            raise
        is_changed = any(self._now(place) != self._before(place) for place in self._journal)
        if not is_changed:
            self.undo()
        return is_changed

    def undo(self) -> None:
        """Take back the last operation; does nothing the second time."""
        for place, former in self._journal.items():
            if isinstance(former, _Untouched):
                self._changes.pop(place, None)
            else:
                self._changes[place] = former
        self._journal, self._next_number = {}, self._former_number

    def last_changes(self) -> list[tuple[_Place, Slot | None]]:
        """Records that the last operation has put or deleted, as they are now."""
        return [(place, self._now(place)) for place in self._journal]

    @property
    def changes(self) -> Mapping[_Place, Slot | None]:
        """Changed records of the batch so far, None where deleted, without those that are as stored."""
        stored = self._registry
        return {place: slot for place, slot in self._changes.items() if stored.slot(*place) != slot}

    def _slot(self, table: str, key: str) -> Slot | None:
        return self._now((table, key))

    def _now(self, place: _Place) -> Slot | None:
        found = self._changes.get(place, _UNTOUCHED)
        return self._registry.slot(*place) if isinstance(found, _Untouched) else found

    def _before(self, place: _Place) -> Slot | None:
        found = self._journal[place]
        return self._registry.slot(*place) if isinstance(found, _Untouched) else found

    def _change(self, place: _Place, slot: Slot | None) -> None:
        if place not in self._journal:
            self._journal[place] = self._changes.get(place, _UNTOUCHED)
        self._changes[place] = slot
