"""Execution of commands of tables: a function of the transaction and the command alone.

A command is executed whole or not at all. Its work is bounded by its own bytes: each check reads one number, a range check
reads one key more than it names, and a put or a delete removes index entries that an earlier put has paid for.

Rows get the number of their commit as version. It counts commits and is no log position: a position is shared by all
commands of a group, and is another one after a restore into a new log. As the number never comes back, neither does the
version of a row that was deleted and put again.

Off until the switch `TABLE` is on (`virtuallog_database.engines.rollout`): a replica of the former version would refuse the
commands, and differ.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from virtuallog.contract.errors import UnsupportedError
from virtuallog_database.engines.core.enabled_engines import TABLE, is_enabled
from virtuallog_database.table.core import keys
from virtuallog_database.table.core.commands import ROWS, Commit, RangeCheck, TableUse
from virtuallog_database.table.core.keys import StoredRow, TableHead
from virtuallog_database.transaction import StoreTransaction


class Verdict(enum.Enum):
    """Outcome of a command, or of a look at the head of a table."""

    DONE = "done"
    CONFLICT = "conflict"
    """A row or a range is not as the transaction has read it."""
    NOT_UNIQUE = "not unique"
    """Another row has the same entry in a unique index."""
    PROGRAM_TOO_OLD = "program too old"
    """The table has a higher version than the program's schema."""
    SCHEMA_DIFFERS = "schema differs"
    """The table has another primary key, or other indices under the same version."""


@attrs.frozen
class CommitResult:
    """Result of a command."""

    verdict: Verdict
    number: int = 0
    """Number of the commit; 0 if nothing was done, or nothing was to be done."""
    table: bytes = b""
    """The table that was the reason of a refusal."""
    key: bytes = b""
    """Primary key of the row that was the reason; for NOT_UNIQUE the row that was to be put."""
    index: bytes = b""
    """The index that was the reason."""


def apply(transaction: StoreTransaction, command: Commit) -> CommitResult:
    """Execute a command.

    Raises:
        UnsupportedError: tables are not enabled.
    """
    if not is_enabled(transaction, TABLE):
        raise UnsupportedError("tables are not enabled in this database: not all of its servers know them")
    transaction.operations += command.operations
    changes = dict[bytes, bytes | None]()
    refusal = (
        _apply_heads(transaction, command, changes)
        or _check_rows(transaction, command)
        or _check_ranges(transaction, command)
    )
    if refusal is not None:
        return refusal
    if not command.puts and not command.deletes and not changes:
        return CommitResult(Verdict.DONE)
    number = keys.decode_number(transaction.get(keys.COUNTER)) + 1
    changes[keys.COUNTER] = keys.encode_number(number)
    refusal = _write_rows(transaction, command, number, changes)
    if refusal is not None:
        return refusal
    transaction.change(changes)
    return CommitResult(Verdict.DONE, number)


def look(head: TableHead | None, use: TableUse) -> Verdict:
    """DONE if a program may use a table with this head, and write it."""
    if head is None:
        return Verdict.DONE
    if head.version > use.version:
        return Verdict.PROGRAM_TOO_OLD
    if head.key_layout != use.key_layout:
        return Verdict.SCHEMA_DIFFERS
    if head.version == use.version and head.index_layout != use.index_layout:
        return Verdict.SCHEMA_DIFFERS
    return Verdict.DONE


def _apply_heads(
    transaction: StoreTransaction, command: Commit, changes: dict[bytes, bytes | None]
) -> CommitResult | None:
    """Check the schemas, and raise the versions of tables that get rows."""
    written = {put.table for put in command.puts}
    for number, use in enumerate(command.tables):
        key = keys.head(use.name)
        head = TableHead.decode(transaction.get(key))
        verdict = look(head, use)
        if verdict is not Verdict.DONE:
            return CommitResult(verdict, table=use.name)
        if number not in written and not use.raises and not use.completes:
            continue
        complete = use.version if head is None or use.completes else head.complete
        raised = TableHead(use.version, complete, use.key_layout, use.index_layout)
        if raised != head:
            changes[key] = raised.encode()
    return None


def _check_rows(transaction: StoreTransaction, command: Commit) -> CommitResult | None:
    for check in command.checks:
        table = command.tables[check.table].name
        if keys.decode_number(transaction.get(keys.versions(table) + check.key)) != check.version:
            return CommitResult(Verdict.CONFLICT, table=table, key=check.key)
    return None


def _check_ranges(transaction: StoreTransaction, command: Commit) -> CommitResult | None:
    for check in command.ranges:
        use = command.tables[check.table]
        prefix, name = space(use, check)
        pairs = transaction.scan(keys.within(prefix, check.start, check.stop), len(check.found) + 1)
        if tuple(key[len(prefix) :] for key, _ in pairs) != check.found:
            return CommitResult(Verdict.CONFLICT, table=use.name, index=name)
    return None


def space(use: TableUse, check: RangeCheck) -> tuple[bytes, bytes]:
    """Prefix of the keys of a range, and the name of its index; empty for the rows."""
    if check.index == ROWS:
        return keys.versions(use.name), b""
    index = use.indices[check.index]
    return keys.index(use.name, index.name, is_unique=index.is_unique), index.name


def _write_rows(
    transaction: StoreTransaction, command: Commit, number: int, changes: dict[bytes, bytes | None]
) -> CommitResult | None:
    """Collect all changes of rows. First all former entries go, so that rows may exchange the values of a unique index."""
    written: Iterable[tuple[int, bytes]] = (
        *((put.table, put.key) for put in command.puts),
        *((delete.table, delete.key) for delete in command.deletes),
    )
    for place, key in written:
        table = command.tables[place].name
        entries = keys.row_entries(table, key)
        stored = transaction.get(entries)
        if stored is not None:
            changes.update(dict.fromkeys(keys.decode_entries(stored)))
            changes[entries] = None
    for delete in command.deletes:
        table = command.tables[delete.table].name
        changes[keys.versions(table) + delete.key] = changes[keys.row(table, delete.key)] = None
    for put in command.puts:
        use, made = command.tables[put.table], list[bytes]()
        for each in put.entries:
            index = use.indices[each.index]
            prefix = keys.index(use.name, index.name, is_unique=index.is_unique)
            entry = prefix + keys.entry(each.columns, put.key, is_unique=index.is_unique)
            owner = changes[entry] if entry in changes else transaction.get(entry)
            if owner is not None and owner != put.key:
                return CommitResult(Verdict.NOT_UNIQUE, table=use.name, key=put.key, index=index.name)
            changes[entry] = put.key
            made.append(entry)
        if made:
            changes[keys.row_entries(use.name, put.key)] = keys.encode_entries(made)
        changes[keys.versions(use.name) + put.key] = keys.encode_number(number)
        changes[keys.row(use.name, put.key)] = StoredRow(number, use.version, put.json).encode()
    return None
