"""A batch: operations that are stored together, with their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from virtuallog.contract.errors import TooLargeError
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError, Operation
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot, encode_key
from virtuallog_database.state.core.record_changes import RecordChanges


@attrs.frozen
class OperationResult:
    """Answer to an operation. What it says is stored."""

    is_permitted: bool
    is_changed: bool
    """False if the registry was as the operation wants it, or if it is not permitted."""
    version: bytes
    """Version of the registry behind it."""
    reason: str = ""
    """Reason why it is not permitted."""


@attrs.define(eq=False)
class Batch:
    """Operations on one overlay of a registry.

    Args:
        registry: as stored.
        tables: all tables by name.
        version: version of the registry behind the batch.
        bytes_max: most bytes of changed records.
    """

    registry: Registry
    tables: Mapping[str, RecordTable[Any]]
    version: bytes
    bytes_max: int
    answers: list[tuple[Any, OperationResult | Exception]] = attrs.field(factory=list, init=False)
    """Answers by ticket, in order."""
    operations: list[tuple[Any, Operation]] = attrs.field(factory=list, init=False)
    """Operations that were answered, in order."""
    size: int = attrs.field(default=0, init=False)
    """Bytes that the operations have put and deleted so far, each by itself: no less than what is stored."""
    _edit: Edit = attrs.field(init=False)
    _encoded: dict[tuple[str, str], tuple[bytes, bytes | None]] = attrs.field(factory=dict, init=False)
    """Stored key and value of each changed record, None if it is deleted."""

    def __attrs_post_init__(self) -> None:
        self._edit = Edit(self.registry, self.tables)

    def perform(self, ticket: Any, operation: Operation) -> bool:
        """Run an operation and keep its answer. Returns False if what it changes does not fit beside the others: then that is undone."""
        if not self._perform(ticket, operation):
            return False
        self.operations.append((ticket, operation))
        return True

    def _perform(self, ticket: Any, operation: Operation) -> bool:
        try:
            is_changed = self._edit.run(operation)
            encoded = self._encode()
        except NotPermittedError as refusal:
            self._answer(ticket, OperationResult(False, False, self.version, refusal.reason))
            return True
        except Exception as error:  # a bug of the operation, or of a table: it fails, and the others go on
            self._edit.undo()
            self._answer(ticket, error)
            return True
        added = sum(len(key) + len(value or b"") for key, value in encoded.values())
        if self.size + added > self.bytes_max:
            self._edit.undo()
            if self.size:
                return False
            self._answer(ticket, TooLargeError("bytes of an operation", added, self.bytes_max))
            return True
        self.size += added
        self._encoded.update(encoded)
        self._answer(ticket, OperationResult(True, is_changed, self.version))
        return True

    @property
    def is_unchanged(self) -> bool:
        """True if there is nothing to store."""
        return not self._edit.changes

    @property
    def changes(self) -> Mapping[tuple[str, str], Slot | None]:
        """Changed records with their sizes, None where deleted."""
        return {place: self._sized(place, slot) for place, slot in self._edit.changes.items()}

    def record_changes(self) -> RecordChanges:
        """The same, as they are stored."""
        stored = [self._encoded[place] for place in self._edit.changes]
        puts = {key: value for key, value in stored if value is not None}
        return RecordChanges(self.version, puts, frozenset(key for key, value in stored if value is None))

    def unchanged_answers(self, version: bytes) -> Sequence[tuple[Any, OperationResult | Exception]]:
        """The answers, where nothing has to be stored."""
        return [
            (ticket, attrs.evolve(answer, version=version) if isinstance(answer, OperationResult) else answer)
            for ticket, answer in self.answers
        ]

    def _sized(self, place: tuple[str, str], slot: Slot | None) -> Slot | None:
        key, value = self._encoded[place]
        return None if slot is None else attrs.evolve(slot, size=len(key) + len(value or b""), encoded=b"")

    def _answer(self, ticket: Any, answer: OperationResult | Exception) -> None:
        self.answers.append((ticket, answer))

    def _encode(self) -> dict[tuple[str, str], tuple[bytes, bytes | None]]:
        changes = self._edit.last_changes()
        return {place: (encode_key(*place), None if slot is None else slot.encoded) for place, slot in changes}
