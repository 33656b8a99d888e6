"""Registrars: who may store, and what was answered is stored, once and in order. Read from the log as the replicas applied it.

fenced owners               behind a recovery, only its owner stores
answered is stored          an answered operation is in exactly one stored update, and a refused one never was
order of answers            an operation that was offered after another one was answered is stored behind it
the registry is its log     what is loaded in the end is what the updates add up to
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.testing.checker.violation import Violation
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP, decode_untrusted
from virtuallog_database.registrar.core.tables import split_key, split_slot
from virtuallog_database.state.core.variable_commands import Update

FENCED: Final = "fenced owners"
STORED: Final = "answered is stored"
ORDERED: Final = "order of answers"
SAME: Final = "the registry is its log"
COPIES: Final = "copies are what is stored"
_RECORD: Final = b"r"


@attrs.frozen
class AnsweredOperation:
    """An operation that was answered as permitted: the record that it puts, and when it was offered and answered, in true time."""

    table: str
    key: str
    offered: float
    answered: float


@attrs.frozen
class StoredRecord:
    """A record that an update has put."""

    table: str
    key: str
    owner: str
    index: int
    """Index of the update."""


def other_copy(message: str) -> Violation:
    """A copy that is not what is stored."""
    return Violation(COPIES, message)


def without_repetitions(updates: Iterable[Update]) -> list[Update]:
    """Updates that have changed something. One whose version is stored already is a repetition: its first attempt was done, and not answered."""
    changes: list[Update] = []
    for update in updates:
        if not changes or update.version != changes[-1].version:
            changes.append(update)
    return changes


def fenced(updates: Sequence[Update]) -> Iterator[Violation]:
    """Owners store between their own recovery and the next one."""
    owner = ""
    for index, update in enumerate(updates):
        for key, value in update.puts:
            table, name = split_key(key[1:])
            record = split_slot(value)[1]
            if (table, name) == (OWNERSHIP.name, KEY):
                owner = decode_untrusted(record).owner
            elif record.decode() != owner:
                yield Violation(
                    FENCED, f"update {index} of {record.decode()} is stored while {owner} owns the registry"
                )


def stored_records(updates: Sequence[Update]) -> dict[tuple[str, str], list[StoredRecord]]:
    """All puts of records, by table and key."""
    found: dict[tuple[str, str], list[StoredRecord]] = {}
    for index, update in enumerate(updates):
        for key, value in update.puts:
            table, name = split_key(key[1:])
            if table != OWNERSHIP.name:
                record = StoredRecord(table, name, split_slot(value)[1].decode(), index)
                found.setdefault((table, name), []).append(record)
    return found


def answered_is_stored(updates: Sequence[Update], answers: Sequence[AnsweredOperation]) -> Iterator[Violation]:
    """Each answered operation has put its record once, and they are stored in the order of their answers."""
    stored = stored_records(updates)
    places: list[tuple[AnsweredOperation, int]] = []
    for answer in answers:
        records = stored.get((answer.table, answer.key), [])
        if len(records) != 1:
            yield Violation(STORED, f"{answer.table} {answer.key} was answered, and is stored {len(records)} times")
        else:
            places.append((answer, records[0].index))
    yield from _in_order(places)


def _in_order(places: Sequence[tuple[AnsweredOperation, int]]) -> Iterator[Violation]:
    by_answer = sorted(places, key=lambda each: each[0].answered)
    last, at = -1, 0
    for answer, index in sorted(places, key=lambda each: each[0].offered):
        while at < len(by_answer) and by_answer[at][0].answered < answer.offered:
            last = max(last, by_answer[at][1])
            at += 1
        if index < last:
            message = f"{answer.table} {answer.key} is stored in update {index}, behind an answer of update {last}"
            yield Violation(ORDERED, message)


def registry_of(updates: Sequence[Update]) -> dict[bytes, bytes]:
    """Records that the updates add up to."""
    records: dict[bytes, bytes] = {}
    for update in updates:
        for key in update.deletes:
            records.pop(key[1:], None)
        records.update((key[1:], value) for key, value in update.puts)
    return records


def same_registry(updates: Sequence[Update], loaded: Mapping[bytes, bytes]) -> Iterator[Violation]:
    """A new owner loads all that was stored, and nothing else."""
    expected = registry_of(updates)
    for key in sorted(expected.keys() | loaded.keys()):
        if expected.get(key) != loaded.get(key):
            yield Violation(SAME, f"{key!r} is {loaded.get(key)!r}, and was stored as {expected.get(key)!r}")
