"""The checks of typed tables, on logs of a few commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog_simulation.checks.database.table_model import (
    BY_BALANCE,
    BY_IBAN,
    BY_OWNER,
    Account,
    Call,
    Commit,
    Delete,
    Get,
    Put,
    Scan,
    TableStep,
    Told,
    TransactionOutcome,
    difference,
    read,
)
from virtuallog_simulation.checks.database.tables import (
    ENTRIES,
    MIGRATION,
    ONCE,
    SAME,
    SERIAL,
    SNAPSHOT,
    STRICT,
    UNIQUE,
    entries_are_of_rows,
    same_rows,
    table_violations,
)

A, B, C = Account("a", "x", "1"), Account("b", "x", "2"), Account("c", "y")


def rich(row: Account, balance: int = 1) -> Account:
    return attrs.evolve(row, balance=balance)


@attrs.define
class Log:
    """A log of commits, and what programs know of their transactions. Each takes a second, and begins when the one before has ended."""

    commands: list[Commit] = attrs.field(factory=list)
    told: list[Told] = attrs.field(factory=list)
    time: float = 0.0

    def writes(self, *steps: TableStep, **known: Any) -> Told:
        """Append a commit, and the transaction that was answered so."""
        told = self.tells(*steps, number=self.last + 1, **known)
        self.commits(told.name, [step.call for step in steps])
        return told

    def tells(
        self,
        *steps: TableStep,
        outcome: TransactionOutcome = TransactionOutcome.DONE,
        number: int = 0,
        strict: bool = True,
        began: float | None = None,
    ) -> Told:
        """A transaction, as its program knows it."""
        began = self.time if began is None else began
        self.time += 1.0
        ended = None if outcome is TransactionOutcome.UNKNOWN else self.time
        told = Told(name=f"t{len(self.told)}", is_linearizable=strict, began=began)
        told.steps, told.outcome, told.number, told.ended = list(steps), outcome, number, ended
        self.told.append(told)
        self.time += 1.0
        return told

    def commits(self, name: str, calls: Sequence[Call], version: int = 1) -> None:
        """Append a commit."""
        puts = tuple(call.row for call in calls if isinstance(call, Put))
        deletes = tuple(call.id for call in calls if isinstance(call, Delete))
        self.commands.append(Commit(name=name, number=self.last + 1, version=version, puts=puts, deletes=deletes))

    @property
    def last(self) -> int:
        return sum(bool(command.number) for command in self.commands)

    def judged(self) -> set[str]:
        """Names of the checks that object."""
        return {violation.check for violation in table_violations(self.commands, self.told)}


def put(row: Account) -> TableStep:
    return TableStep(Put(row))


def saw(call: Call, *rows: Account) -> TableStep:
    return TableStep(call, rows)


def test_a_model_reads_rows_in_the_order_of_an_index() -> None:
    """By prefix, from a value to below another one, behind a row, up to a number; a row without a value is not in the index."""
    rows = {row.id: row for row in (B, A, C)}
    assert read(rows, Get("a")) == (A,)
    assert read(rows, Get("d")) == ()
    assert read(rows, Scan()) == (A, B, C)
    assert read(rows, Scan(start="b", stop="c")) == (B,)
    assert read(rows, Scan(BY_OWNER, "x", limit=1)) == (A,)
    assert read(rows, Scan(BY_OWNER, after=A)) == (B, C)
    assert read(rows, Scan(BY_IBAN)) == (A, B)
    assert read({"a": rich(A), "b": B}, Scan(BY_BALANCE)) == (B, rich(A))


def test_a_transaction_sees_its_own_writes() -> None:
    """And hides what it has deleted."""
    rows = {"a": A}
    assert not difference(rows, [saw(Get("a"), A), put(B), TableStep(Delete("a")), saw(Scan(), B)])
    assert difference(rows, [put(B), saw(Scan(), A)])


def test_transactions_one_after_another_are_right() -> None:
    """Writers, readers, one that was refused, one without an answer that is in the log, and one that is not."""
    log = Log()
    log.writes(put(A))
    log.writes(saw(Get("a"), A), put(rich(A)))
    log.tells(saw(Scan(), rich(A)))
    log.tells(saw(Get("b")), put(B), outcome=TransactionOutcome.REFUSED)
    log.tells(put(B), outcome=TransactionOutcome.UNKNOWN)
    lost = log.tells(put(C), outcome=TransactionOutcome.UNKNOWN)
    log.commits(lost.name, [Put(C)])
    log.tells(saw(Scan(), A), strict=False)
    assert log.judged() == set()


def test_a_write_over_what_has_changed_is_found() -> None:
    """Two transactions have read the same row, and both are in the log."""
    log = Log()
    log.writes(put(A))
    log.writes(saw(Get("a"), A), put(rich(A, 1)))
    log.writes(saw(Get("a"), A), put(rich(A, 2)), began=2.5)
    assert log.judged() == {SERIAL}


def test_a_phantom_is_found() -> None:
    """A scan has not seen a row that was there at the place of its transaction."""
    log = Log()
    log.writes(put(A))
    log.writes(saw(Scan(BY_OWNER, "y")), put(C))
    log.writes(saw(Scan(BY_OWNER, "y")), put(rich(A)), began=2.5)
    assert log.judged() == {SERIAL}


def test_reads_of_two_moments_are_found() -> None:
    """One row of before a commit, and one of behind it; also of a transaction that was refused."""
    for outcome in (TransactionOutcome.DONE, TransactionOutcome.REFUSED):
        log = Log()
        log.writes(put(A), put(B))
        log.writes(put(rich(A)), put(rich(B)))
        log.tells(saw(Get("a"), A), saw(Get("b"), rich(B)), strict=False, outcome=outcome)
        assert log.judged() == {SNAPSHOT}


def test_a_read_of_what_is_old_is_found() -> None:
    """It begins when the newer value has been answered; only one that may be old may show that."""
    for strict in (True, False):
        log = Log()
        log.writes(put(A))
        log.writes(put(rich(A)))
        log.tells(saw(Get("a"), A), strict=strict)
        assert log.judged() == ({STRICT} if strict else set())


def test_a_read_that_is_older_than_another_read_is_found() -> None:
    """The commit between them has no answer; a linearizable read has shown it."""
    log = Log()
    log.writes(put(A))
    lost = log.tells(put(rich(A)), outcome=TransactionOutcome.UNKNOWN)
    log.commits(lost.name, [Put(rich(A))])
    log.tells(saw(Get("a"), rich(A)))
    assert log.judged() == set()
    log.tells(saw(Get("a"), A))
    assert log.judged() == {STRICT}


def test_a_read_beside_a_write_may_show_either() -> None:
    """It began before the write was answered."""
    log = Log()
    log.writes(put(A))
    log.writes(put(rich(A)))
    log.tells(saw(Get("a"), A), began=2.5)
    log.tells(saw(Get("a"), rich(A)), began=2.5)
    assert log.judged() == set()


def test_a_read_of_the_future_is_found() -> None:
    """It ended before the transaction began whose row it shows; that one wrote nothing else that would tell."""
    log = Log()
    log.tells(saw(Get("a"), A))
    log.writes(put(A))
    assert log.judged() == {STRICT}


def test_commits_out_of_the_order_of_their_answers_are_found() -> None:
    """One was answered before the other began, and is behind it in the log."""
    log = Log()
    first, second = log.tells(put(A), number=2), log.tells(put(B), number=1)
    log.commits(second.name, [Put(B)])
    log.commits(first.name, [Put(A)])
    assert log.judged() == {STRICT}


def test_answers_are_compared_with_the_log() -> None:
    """A commit that is not there, is there twice or under another number, or was refused."""
    log = Log()
    log.tells(put(A), number=1)
    assert log.judged() == {ONCE}
    log = Log()
    told = log.writes(put(A))
    log.commits(told.name, [Put(A)])
    assert log.judged() == {ONCE}
    log = Log()
    log.writes(put(A)).number = 5
    assert log.judged() == {ONCE}
    log = Log()
    log.writes(put(A), outcome=TransactionOutcome.REFUSED)
    assert log.judged() == {ONCE}


def test_numbers_count_commits() -> None:
    """A number that comes twice is found."""
    log = Log()
    log.writes(put(A))
    log.commands.append(Commit(name="", number=1, version=1))
    assert ONCE in log.judged()


def test_rows_that_share_a_unique_value_are_found() -> None:
    """Behind any commit; rows that exchange their values share none."""
    log = Log()
    log.writes(put(A), put(B))
    log.writes(put(attrs.evolve(A, iban=B.iban)), put(attrs.evolve(B, iban=A.iban)))
    assert log.judged() == set()
    log.writes(put(A))
    assert log.judged() == {UNIQUE}


def test_a_refusal_without_another_row_is_found() -> None:
    """A command that was refused as not unique would have made two rows with one value."""
    log = Log()
    log.writes(put(A))
    taken = attrs.evolve(B, iban=A.iban)
    log.commands.append(Commit(name="t9", number=0, version=1, is_not_unique=True, puts=(taken,)))
    assert log.judged() == set()
    log.commands.append(Commit(name="t9", number=0, version=1, is_not_unique=True, puts=(B,)))
    assert log.judged() == {UNIQUE}


def test_a_migration_changes_no_row() -> None:
    """It puts rows as they are; behind it no program of a lower version writes."""
    log = Log()
    log.writes(put(A))
    log.commits("", [Put(A)], version=2)
    assert log.judged() == set()
    log.commits("", [Put(rich(A))], version=2)
    assert log.judged() == {MIGRATION}
    log = Log()
    log.commits("", [], version=2)
    log.writes(put(A))
    assert log.judged() == {MIGRATION}


def test_a_store_is_compared_with_the_model() -> None:
    """Its rows, and the rows that its index entries name: one too many, one too few, or at another place."""
    right = {BY_OWNER: ["a", "b", "c"], BY_IBAN: ["a", "b"]}
    assert not [*same_rows({"b": B, "a": A}, [A, B])]
    assert [found.check for found in same_rows({"b": B}, [A, B])] == [SAME]
    assert not [*entries_are_of_rows([A, B, C], right)]
    for owners in (["a", "b"], ["a", "a", "b", "c"], ["b", "a", "c"], ["a", "b", "c", "d"]):
        assert [found.check for found in entries_are_of_rows([A, B, C], right | {BY_OWNER: owners})] == [ENTRIES]
