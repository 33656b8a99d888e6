"""A registrar in memory: it stores bytes after each batch, and reads them again, as a new master would."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import attrs

from virtuallog_database.registrar.core.edit import Edit, NotPermittedError, Operation
from virtuallog_database.registrar.core.tables import RecordTable, Registry, encode_key, encode_slot
from virtuallog_lab.agents.records import CAPABILITIES, TABLES, AgentInfo, MachineId

RecordT = TypeVar("RecordT")

BY_NAME = {table.name: table for table in TABLES}


@attrs.define
class MemoryRegistrar:
    """The registry as the last batch has left it."""

    registry: Registry = attrs.field(factory=Registry)
    stored: dict[bytes, bytes] = attrs.field(factory=dict)
    changes: int = 0
    """Records that the last batch changed."""

    def apply(self, operation: Operation) -> bool:
        """Store one operation; returns whether it was permitted."""
        return self.apply_all([operation])[0]

    def apply_all(self, operations: Sequence[Operation]) -> list[bool]:
        """Store one batch. The bytes hold what was decided, and nothing else."""
        edit = Edit(self.registry)
        answers = [self._run(edit, operation) for operation in operations]
        changes = dict(edit.changes)
        self.changes = len(changes)
        for (table, key), slot in changes.items():
            stored_key = encode_key(table, key)
            if slot is None:
                del self.stored[stored_key]
            else:
                self.stored[stored_key] = encode_slot(BY_NAME[table], slot)
        self.registry.commit(changes)
        recovered = Registry.decode_untrusted(self.stored, TABLES)
        assert contents(recovered) == contents(self.registry)
        self.registry = recovered
        return answers

    def records(self, table: RecordTable[RecordT]) -> list[RecordT]:
        """Records of a table, in order."""
        return [record for _, record in self.registry.items(table)]

    def keys(self, table: RecordTable[Any]) -> list[str]:
        """Keys of a table, in order."""
        return [key for key, _ in self.registry.items(table)]

    @property
    def capabilities(self) -> list[str]:
        """Minimum capabilities."""
        return self.keys(CAPABILITIES)

    def _run(self, edit: Edit, operation: Operation) -> bool:
        before = dict(edit.changes)
        is_changed = is_permitted = False
        with suppress(NotPermittedError):
            is_changed = edit.run(operation)
            is_permitted = True
        assert is_changed or dict(edit.changes) == before
        return is_permitted


def contents(registry: Registry) -> dict[str, list[tuple[str, Any]]]:
    """All records of all tables, in order."""
    return {table.name: list(registry.items(table)) for table in TABLES}


def agent(name: str, hostname: str = "localhost") -> AgentInfo:
    """An agent of the original's tests."""
    return AgentInfo(name, hostname)


MACHINE_1, MACHINE_2, MACHINE_3 = MachineId(ip="0.0.0.1"), MachineId("2"), MachineId("3", "0.0.0.3")
"""Machines of the original's tests: by address, by name, by both."""
