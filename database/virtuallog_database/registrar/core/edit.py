"""The overlay on which an operation runs: nothing is changed until its batch is stored.

registry            as stored
  Edit.changes      of the operations of the batch so far
    Edit's journal  of the operation that runs now: undone if it raises
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import attrs

from virtuallog.contract.errors import InvalidSettingError, VirtualLogError
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot, encode_slot

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
        """Change the tables. Runs without a break: it must not wait, and must be fast. Its changes are undone if it raises. It may run again on a
        later state, if what it has changed was not stored.

        Raises:
            NotPermittedError: it does not apply.
        """
        ...


class _Untouched:
    """A place that the batch has not changed so far."""


_UNTOUCHED = _Untouched()


@attrs.define(eq=False)
class Edit:
    """Tables as an operation sees them: with the effects of the earlier ones of its batch. Made anew for each batch.

    Args:
        registry: as stored.
        tables: names of all tables; None: any.
    """

    _registry: Registry
    _known: Collection[str] | None = None
    _tables: dict[str, RecordTable[Any]] = attrs.field(factory=dict, init=False)
    """Tables of which a record was put."""
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
        """Add a record at the end of a table, or replace the one of this key in its place.

        Raises:
            InvalidSettingError: the registrar has no such table, or the table cannot write the record, or not read it back.
        """
        if self._known is not None and table.name not in self._known:
            raise InvalidSettingError("table", f"the registrar has no table '{table.name}'")
        former = self._slot(table.name, key)
        slot = Slot.of(table, self._next_number if former is None else former.number, record)
        if former is None:
            self._next_number += 1
        self._tables[table.name] = table
        self._change((table.name, key), slot)

    def delete(self, table: RecordTable[Any], key: str) -> bool:
        """Delete a record; returns False if there is none."""
        if self._slot(table.name, key) is None:
            return False
        self._change((table.name, key), None)
        return True

    def count(self, table: RecordTable[Any]) -> int:
        """Number of records."""
        changed = [place for place in self._changes if place[0] == table.name]
        gained = sum(self._changes[place] is not None for place in changed)
        return self._registry.count(table) + gained - sum(self._registry.slot(*place) is not None for place in changed)

    def tagged(self, table: RecordTable[Any], tag: str) -> int:
        """Number of records with a tag (`RecordTable.tags`)."""
        count = self._registry.tagged(table, tag)
        for (name, key), slot in self._changes.items():
            if name == table.name:
                former = self._registry.slot(name, key)
                count += (slot is not None and tag in slot.tags) - (former is not None and tag in former.tags)
        return count

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
            _check_none(operation.perform(self))  # type: ignore[func-returns-value]
        except BaseException:
            self.undo()
            raise
        is_changed = any(self._differs(place, self._before(place), self._now(place)) for place in self._journal)
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
        return {place: slot for place, slot in self._changes.items() if self._differs(place, stored.slot(*place), slot)}

    def _differs(self, place: _Place, former: Slot | None, slot: Slot | None) -> bool:
        """True if another record is to be stored. Records that are equal, such as 1 and True, may be stored differently."""
        if former is None or slot is None:
            return former is not slot
        if former != slot:
            return True
        table = self._tables[place[0]]
        return (former.encoded or encode_slot(table, former)) != slot.encoded

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


def _check_none(returned: object) -> None:
    if isinstance(returned, Coroutine):
        returned.close()  # it never runs, on purpose
    if returned is not None:
        raise TypeError(
            f"an operation has returned a {type(returned).__name__}: `perform` is not async, and returns nothing"
        )
