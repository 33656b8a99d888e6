"""A plain model of tables: rows in a dict, the calls of transactions, and the commits of a log over them.

It knows one table of accounts, in the columns of its first version. It shares nothing with the product: no encoding, no index.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

BY_OWNER: Final = "by_owner"
BY_IBAN: Final = "by_iban"
"""A unique index."""
BY_BALANCE: Final = "by_balance"
"""An index that the second version of the schema has added."""


@attrs.frozen
class Account:
    """A row of any version of the schema."""

    id: str
    owner: str
    iban: str | None = None
    balance: int = 0

    def place(self, index: str | None) -> tuple[Any, ...] | None:
        """Place in an order; None if the row is not in that index."""
        if index is None:
            return (self.id,)
        if index == BY_OWNER:
            return (self.owner, self.id)
        if index == BY_BALANCE:
            return (self.balance, self.id)
        return None if self.iban is None else (self.iban, self.id)


Rows: TypeAlias = Mapping[str, Account]
"""Rows by their keys."""


@attrs.frozen
class Get:
    """A read of one row."""

    id: str


@attrs.frozen
class Scan:
    """A read of rows in an order."""

    index: str | None = None
    """Index whose order it has; None: that of the keys."""
    prefix: str | None = None
    """Value of the first column."""
    start: str | None = None
    stop: str | None = None
    after: Account | None = None
    limit: int = 1000


@attrs.frozen
class Put:
    """A write of a row."""

    row: Account


@attrs.frozen
class Delete:
    """A deletion of a row."""

    id: str


Call: TypeAlias = Get | Scan | Put | Delete


@attrs.frozen
class TableStep:
    """A call of a transaction, and the rows that it has returned."""

    call: Call
    rows: tuple[Account, ...] = ()


class TransactionOutcome(enum.Enum):
    """End of a transaction, as its program knows it."""

    UNKNOWN = "unknown"
    """It has not ended, or no answer has come."""
    DONE = "done"
    REFUSED = "refused"


@attrs.define(eq=False, kw_only=True)
class Told:
    """A transaction as its program has seen it. Times are true ones."""

    name: str
    """Name that its commit has in the log."""
    is_linearizable: bool
    began: float
    steps: list[TableStep] = attrs.field(factory=list)
    outcome: TransactionOutcome = TransactionOutcome.UNKNOWN
    ended: float | None = None
    """Time of the answer; None if there was none."""
    number: int = 0
    """Number of the commit that was answered; 0 if there is none."""

    @property
    def writes(self) -> bool:
        return any(isinstance(step.call, Put | Delete) for step in self.steps)


@attrs.frozen(kw_only=True)
class Commit:
    """A command in the log, as the first replica has applied it."""

    name: str
    """Name of its transaction; empty for one of a migration."""
    number: int
    """Its number; 0 if it was not done."""
    version: int
    """Version of the schema of its program; 0 if it does not name the table."""
    is_not_unique: bool = False
    """True if it was refused because of a unique index."""
    puts: tuple[Account, ...] = ()
    deletes: tuple[str, ...] = ()


def read(rows: Rows, call: Get | Scan) -> tuple[Account, ...]:
    """Rows that a call returns."""
    if isinstance(call, Get):
        return (rows[call.id],) if call.id in rows else ()
    after = () if call.after is None else call.after.place(call.index) or ()
    found = [(place, row) for row in rows.values() if (place := row.place(call.index)) is not None]
    wanted = [
        (place, row)
        for place, row in found
        if (call.prefix is None or place[0] == call.prefix)
        and (call.start is None or place[0] >= call.start)
        and (call.stop is None or place[0] < call.stop)
        and place > after
    ]
    return tuple(row for _, row in sorted(wanted, key=lambda each: each[0])[: call.limit])


def difference(rows: Rows, steps: Iterable[TableStep]) -> str:
    """The first call whose result is not that of the model, with both; empty if there is none. A transaction sees its own writes."""
    seen = dict(rows)
    for step in steps:
        call = step.call
        if isinstance(call, Put):
            seen[call.row.id] = call.row
        elif isinstance(call, Delete):
            seen.pop(call.id, None)
        elif (expected := read(seen, call)) != step.rows:
            return f"{call} returned {step.rows}, and not {expected}"
    return ""


def written(rows: Rows, commit: Commit) -> dict[str, Account]:
    """Rows behind a commit."""
    after = {key: row for key, row in rows.items() if key not in commit.deletes}
    return after | {row.id: row for row in commit.puts}


def states_of(commits: Sequence[Commit]) -> list[Rows]:
    """Rows before the first commit, and behind each: as many as there are commits, and one more. All of them were done."""
    states: list[Rows] = [{}]
    for commit in commits:
        states.append(written(states[-1], commit))
    return states


def shared_iban(rows: Rows) -> str:
    """A value of the unique index that two rows have; empty if there is none."""
    seen = set[str]()
    for row in rows.values():
        if row.iban in seen:
            return row.iban
        if row.iban is not None:
            seen.add(row.iban)
    return ""
