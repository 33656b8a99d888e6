"""Bugs of typed tables: of their commands on the replicas, and of the transactions of their clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog_database.table import client
from virtuallog_database.table.client import Tables
from virtuallog_database.table.core import execution, keys
from virtuallog_database.table.core.commands import Commit, TableUse
from virtuallog_database.table.core.execution import CommitResult, Verdict
from virtuallog_database.table.core.keys import TableHead
from virtuallog_database.table.errors import ConflictError
from virtuallog_database.table.schema import Schema
from virtuallog_database.table.transaction import TableTransaction, check_result
from virtuallog_database.transaction import StoreTransaction
from virtuallog_simulation.checks.database.tables import ENTRIES, MIGRATION, ONCE, SERIAL, SNAPSHOT, STRICT, UNIQUE

applied_heads = execution._apply_heads
begun = Tables._begin
checked_ranges = execution._check_ranges
checked_rows = execution._check_rows
found_places = TableTransaction._places
looked = execution.look
upgraded = TableTransaction.upgrade_page
written = execution._write_rows


@mutant(execution._check_rows, scenario="tables", found_by=[SERIAL])
def rows_that_were_read_are_not_compared(transaction: StoreTransaction, command: Commit) -> CommitResult | None:
    """A command is done also if rows that its transaction has read have changed."""
    return None


@mutant(execution._check_rows, scenario="tables", found_by=[SERIAL])
def absent_rows_are_not_compared(transaction: StoreTransaction, command: Commit) -> CommitResult | None:
    """A row that was absent when it was read may be there now."""
    present = tuple(check for check in command.checks if check.version)
    return checked_rows(transaction, attrs.evolve(command, checks=present))


@mutant(execution._check_ranges, scenario="tables", found_by=[SERIAL])
def scans_are_not_compared(transaction: StoreTransaction, command: Commit) -> CommitResult | None:
    """Only single rows are compared, and those that a scan has found: phantoms appear."""
    return None


@mutant(execution._check_ranges, scenario="tables", found_by=[SERIAL])
def scans_that_found_nothing_are_not_compared(transaction: StoreTransaction, command: Commit) -> CommitResult | None:
    """An empty range may have rows now."""
    full = tuple(check for check in command.ranges if check.found)
    return checked_ranges(transaction, attrs.evolve(command, ranges=full))


@mutant(keys.decode_entries, scenario="tables", found_by=[ENTRIES, SERIAL, SNAPSHOT, UNIQUE])
def index_entries_of_former_rows_stay(value: bytes | None) -> Iterator[bytes]:
    """A row that is put again or deleted keeps its former entries in all indices."""
    return iter(())


@mutant(execution._write_rows, scenario="tables", found_by=[UNIQUE])
def unique_values_of_other_rows_are_not_seen(
    transaction: StoreTransaction, command: Commit, number: int, changes: dict[bytes, bytes | None]
) -> CommitResult | None:
    """Rows of one transaction are compared with each other, and not with stored ones."""
    blind: Any = _WithoutUniqueEntries(transaction)
    return written(blind, command, number, changes)


@attrs.frozen
class _WithoutUniqueEntries:
    _transaction: StoreTransaction

    def get(self, key: bytes) -> bytes | None:
        return None if key.startswith(b"tu") else self._transaction.get(key)


@mutant(execution._write_rows, scenario="tables", found_by=[SERIAL, ONCE])
def versions_of_rows_begin_anew(
    transaction: StoreTransaction, command: Commit, number: int, changes: dict[bytes, bytes | None]
) -> CommitResult | None:
    """A row has version 1 whenever it is put, so one that was put again counts as unchanged."""
    return written(transaction, command, 1, changes)


@mutant(check_result, scenario="tables", used_in=client, found_by=[ONCE])
def a_conflict_is_answered_as_done(command: Commit, result: CommitResult) -> None:
    """A refused command raises no ConflictError."""
    try:
        check_result(command, result)
    except ConflictError:
        return


@mutant(Tables._begin, scenario="tables", found_by=[STRICT])
async def the_log_is_not_asked(self: Tables, linearizable: bool) -> TableTransaction:
    """A linearizable transaction reads what its replica happens to have applied."""
    return await begun(self, False)


@mutant(Tables._begin, scenario="tables", found_by=[STRICT])
async def the_snapshot_is_older_than_the_question(self: Tables, linearizable: bool) -> TableTransaction:
    """A linearizable transaction takes its snapshot, and then waits for what is in the log."""
    transaction = await begun(self, False)
    if linearizable:
        await self._handle.database.prepare_read()
        await self._handle.database.confirm()
    return transaction


@mutant(Tables._begin, scenario="tables", found_by=[SNAPSHOT])
async def each_read_is_of_another_moment(self: Tables, linearizable: bool) -> TableTransaction:
    """A transaction reads the store as it is, and no snapshot."""
    await begun(self, linearizable)
    return TableTransaction(self._handle.database.tables)


@mutant(TableTransaction._places, scenario="tables", found_by=[SERIAL, SNAPSHOT])
def own_writes_are_not_in_scans(
    self: TableTransaction, opened: Any, index: str | None, begin: bytes, end: bytes, limit: int
) -> list[bytes]:
    """A scan has the rows of the snapshot, in their places there."""
    own, self._writes = self._writes, {}
    try:
        return found_places(self, opened, index, begin, end, limit)
    finally:
        self._writes = own


@mutant(TableTransaction._places, scenario="tables", found_by=[SERIAL])
def scans_end_at_their_last_row(
    self: TableTransaction, opened: Any, index: str | None, begin: bytes, end: bytes, limit: int
) -> list[bytes]:
    """A scan that has come to its end is compared up to the last row that it has found."""
    places = found_places(self, opened, index, begin, end, limit)
    for at, check in enumerate(self._ranges):
        if check.found:
            self._ranges[at] = attrs.evolve(check, stop=check.found[-1] + b"\0")
    return places


@mutant(TableTransaction._places, scenario="tables", found_by=[SERIAL])
def own_rows_of_scans_are_not_compared(
    self: TableTransaction, opened: Any, index: str | None, begin: bytes, end: bytes, limit: int
) -> list[bytes]:
    """A row that the transaction has put unread may lose its unique value to another one."""
    checks = dict(self._checks)
    places = found_places(self, opened, index, begin, end, limit)
    self._checks = checks
    return places


@mutant(execution._apply_heads, scenario="tables", found_by=[SERIAL, SNAPSHOT, ENTRIES])
def an_index_counts_as_complete_at_once(
    transaction: StoreTransaction, command: Commit, changes: dict[bytes, bytes | None]
) -> CommitResult | None:
    """A new index may be scanned before the rows of the former version are in it."""
    puts = {put.table for put in command.puts}
    uses = tuple(
        attrs.evolve(use, completes=use.raises or use.completes or number in puts)
        for number, use in enumerate(command.tables)
    )
    return applied_heads(transaction, attrs.evolve(command, tables=uses), changes)


@mutant(TableTransaction.upgrade_page, scenario="tables", found_by=[MIGRATION, SERIAL, ONCE])
def rows_are_migrated_without_a_comparison(
    self: TableTransaction, schema: Schema[Any], start: bytes, count: int, size: int
) -> tuple[int, bytes | None]:
    """A migration puts rows as they were in its snapshot over what has been written since."""
    found = upgraded(self, schema, start, count, size)
    self._checks.clear()
    return found


@mutant(execution.look, scenario="tables", found_by=[MIGRATION])
def programs_of_former_versions_go_on(head: TableHead | None, use: TableUse) -> Verdict:
    """A program may write rows of a lower version than the table has."""
    verdict = looked(head, use)
    return Verdict.DONE if verdict is Verdict.PROGRAM_TOO_OLD else verdict


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
