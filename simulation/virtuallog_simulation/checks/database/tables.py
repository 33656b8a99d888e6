"""Typed tables: transactions against a plain model of the log, in the order in which the replicas have applied it.

commits once                a committed transaction is in the log once, under the number that was answered; a refused one is not
serializable transactions   a transaction in the log has read what the model holds at its place
one snapshot                one that is not in the log has read what the model holds at some place
strict serializability      that place is not before what was answered, or read linearizably, before the transaction began
unique rows                 no two rows share a value of a unique index, and a refusal for that reason names a true one
migrations change no row    a commit of a migration leaves all columns as they are, and former programs write nothing behind it
index entries are of rows   an index of a replica's store names each row at its place, once, and nothing else
tables are their log        rows in a replica's store are those of the model
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

import attrs

from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.checks.database.table_model import (
    Account,
    Commit,
    Rows,
    Scan,
    Told,
    TransactionOutcome,
    difference,
    read,
    shared_iban,
    states_of,
    written,
)

ONCE: Final = "commits once"
SERIAL: Final = "serializable transactions"
SNAPSHOT: Final = "one snapshot"
STRICT: Final = "strict serializability"
UNIQUE: Final = "unique rows"
MIGRATION: Final = "migrations change no row"
ENTRIES: Final = "index entries are of rows"
SAME: Final = "tables are their log"


def table_violations(commands: Sequence[Commit], told: Sequence[Told]) -> Iterator[Violation]:
    """All checks of a log of commands and of what programs know of their transactions."""
    commits = [command for command in commands if command.number]
    states = states_of(commits)
    yield from commits_once(commits, told)
    yield from unique_rows(commands)
    yield from migrations_change_nothing(commits, states)
    yield from serializable(commits, states, told)
    yield from in_real_time(commits, told)
    yield from reads_of_one_moment(commits, states, told)


def commits_once(commits: Sequence[Commit], told: Sequence[Told]) -> Iterator[Violation]:
    """Compare the answers with the log."""
    numbers: dict[str, list[int]] = {}
    for place, commit in enumerate(commits, 1):
        numbers.setdefault(commit.name, []).append(commit.number)
        if commit.number != place:
            yield Violation(ONCE, f"the commit at place {place} has the number {commit.number}")
    for each in told:
        found = numbers.get(each.name, [])
        if len(found) > 1:
            yield Violation(ONCE, f"{each.name} is in the log as {found}")
        elif found and each.outcome is TransactionOutcome.REFUSED:
            yield Violation(ONCE, f"{each.name} was refused, and is in the log as {found}")
        elif each.outcome is TransactionOutcome.DONE and found != [each.number] * each.writes:
            yield Violation(ONCE, f"{each.name} was answered as commit {each.number}, and is in the log as {found}")


def serializable(commits: Sequence[Commit], states: Sequence[Rows], told: Sequence[Told]) -> Iterator[Violation]:
    """Compare what a committed transaction has read with the rows before its commit."""
    known = {each.name: each for each in told}
    for place, commit in enumerate(commits):
        each = known.get(commit.name)
        found = difference(states[place], each.steps) if each is not None else ""
        if found:
            yield Violation(SERIAL, f"{commit.name} is commit {commit.number}, where {found}")


def in_real_time(commits: Sequence[Commit], told: Sequence[Told]) -> Iterator[Violation]:
    """Commits are in the order of their answers."""
    known = {each.name: each for each in told}
    behind: Told | None = None
    for commit in reversed(commits):
        each = known.get(commit.name)
        if each is None:
            continue
        if behind is not None and behind.ended is not None and behind.ended < each.began:
            yield Violation(STRICT, f"{each.name} is before {behind.name}, which was answered before it began")
        if each.ended is not None and (behind is None or behind.ended is None or each.ended < behind.ended):
            behind = each


@attrs.define
class _Known:
    """Places that are known at a time: of commits that were answered, and of reads that had ended."""

    ended: list[tuple[float, int]]
    """A heap of times, each with a place of that time."""
    lowest: int = 0
    """The first place that a transaction may have that begins at that time."""

    def move_to(self, time: float) -> None:
        while self.ended and self.ended[0][0] < time:
            self.lowest = max(self.lowest, heappop(self.ended)[1])

    def add(self, time: float, place: int) -> None:
        heappush(self.ended, (time, place))


def reads_of_one_moment(commits: Sequence[Commit], states: Sequence[Rows], told: Sequence[Told]) -> Iterator[Violation]:
    """Find a place in the log for the reads of each transaction that is not in it: the first one that may be, so that others behind it
    have as many places as can be."""
    places = {commit.name: place for place, commit in enumerate(commits, 1)}
    writers = [each for each in told if each.name in places]
    known = _Known(sorted((each.ended, places[each.name]) for each in writers if each.ended is not None))
    limits = _limits(writers, places)
    for each in sorted((each for each in told if each.name not in places), key=lambda each: each.began):
        known.move_to(each.began)
        highest = len(commits) if each.ended is None else _limit(limits, each.ended, len(commits))
        lowest = known.lowest if each.is_linearizable else 0
        place = next((at for at in range(lowest, highest + 1) if not difference(states[at], each.steps)), None)
        if place is None:
            yield _misplaced(each, states, lowest, highest)
        elif each.is_linearizable and each.ended is not None:
            known.add(each.ended, place)


def _limits(writers: Sequence[Told], places: Mapping[str, int]) -> list[tuple[float, int]]:
    """Times when writers began, in their order, each with the first place of those that began then or later."""
    limits, first = list[tuple[float, int]](), max(places.values(), default=0)
    for each in sorted(writers, key=lambda each: each.began, reverse=True):
        first = min(first, places[each.name])
        limits.append((each.began, first))
    return limits[::-1]


def _limit(limits: Sequence[tuple[float, int]], ended: float, last: int) -> int:
    """The last place that a read may have that ended then: before all commits that began later."""
    at = bisect_right(limits, ended, key=lambda each: each[0])
    return limits[at][1] - 1 if at < len(limits) else last


def _misplaced(each: Told, states: Sequence[Rows], lowest: int, highest: int) -> Violation:
    at = next((at for at, rows in enumerate(states) if not difference(rows, each.steps)), None)
    if at is not None:
        return Violation(STRICT, f"{each.name} read behind commit {at}, and not behind one from {lowest} to {highest}")
    found = difference(states[min(lowest, highest)], each.steps)
    return Violation(SNAPSHOT, f"{each.name} read what no moment shows: behind commit {lowest} {found}")


def unique_rows(commands: Sequence[Commit]) -> Iterator[Violation]:
    """Look for two rows with one value behind each commit, and behind each that was refused for that reason, had it been done."""
    rows: Rows = {}
    for command in commands:
        after = written(rows, command)
        shared = shared_iban(after)
        if command.number:
            rows = after
            if shared:
                yield Violation(UNIQUE, f"behind commit {command.number} two rows have the value {shared}")
        elif command.is_not_unique and not shared:
            yield Violation(UNIQUE, f"{command.name} was refused, and no other row has its value")


def migrations_change_nothing(commits: Sequence[Commit], states: Sequence[Rows]) -> Iterator[Violation]:
    """Commits without a name leave the rows alone, and versions of programs that write go up."""
    version = 0
    for place, commit in enumerate(commits):
        if not commit.name and states[place] != states[place + 1]:
            yield Violation(MIGRATION, f"commit {commit.number} of a migration has changed rows")
        if commit.version and commit.version < version:
            yield Violation(MIGRATION, f"{commit.name} of version {commit.version} is behind version {version}")
        if commit.puts or not commit.name:
            version = max(version, commit.version)


def same_rows(rows: Rows, stored: Sequence[Account]) -> Iterator[Violation]:
    """Rows of a replica are those of the model."""
    expected = list(read(rows, Scan()))
    if expected != list(stored):
        yield Violation(SAME, f"a replica has the rows {list(stored)}, and not {expected}")


def entries_are_of_rows(rows: Sequence[Account], entries: Mapping[str, Sequence[str]]) -> Iterator[Violation]:
    """Keys of rows that the entries of each index name, in their order, are those of the rows."""
    by_key = {row.id: row for row in rows}
    for index, found in entries.items():
        expected = [row.id for row in read(by_key, Scan(index))]
        if expected != list(found):
            yield Violation(ENTRIES, f"{index} has entries of {list(found)}, and rows are {expected}")
