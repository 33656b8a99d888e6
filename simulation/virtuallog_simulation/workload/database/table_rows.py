"""Tables of the programs of `tables`, in two versions of their schema, and how the plain model sees them.

The second version calls the column `owner` by another name, and has one more index, which is complete only behind a migration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from virtuallog_database.table.core import commands
from virtuallog_database.table.core.execution import CommitResult, Verdict
from virtuallog_database.table.core.table_state import TableState
from virtuallog_database.table.schema import Index, Row, schema_of, table
from virtuallog_simulation.checks.database.table_model import BY_BALANCE, BY_IBAN, BY_OWNER, Account, Commit

IDS: Final = "abcdefghij"
OWNERS: Final = "xyz"
IBANS: Final = "123456"
ALL: Final = 10_000
SECOND: Final = 2
"""Second version of the schema."""


@table("accounts", key="id", indices={BY_OWNER: Index("owner"), BY_IBAN: Index("iban", is_unique=True)})
@attrs.frozen
class FirstAccount(Row):
    """A row of version 1."""

    id: str
    owner: str
    iban: str | None = None
    balance: int = 0

    def plain(self) -> Account:
        return Account(self.id, self.owner, self.iban, self.balance)

    @classmethod
    def of(cls, row: Account) -> FirstAccount:
        return cls(row.id, row.owner, row.iban, row.balance)


def _renamed(fields: dict[str, Any]) -> dict[str, Any]:
    return {"holder" if name == "owner" else name: value for name, value in fields.items()}


@table(
    "accounts",
    key="id",
    version=SECOND,
    indices={
        BY_OWNER: Index("holder", since=1),
        BY_IBAN: Index("iban", is_unique=True, since=1),
        BY_BALANCE: Index("balance", since=2),
    },
    upgrades={1: _renamed},
)
@attrs.frozen
class SecondAccount(Row):
    """A row of version 2."""

    id: str
    holder: str
    iban: str | None = None
    balance: int = 0

    def plain(self) -> Account:
        return Account(self.id, self.holder, self.iban, self.balance)

    @classmethod
    def of(cls, row: Account) -> SecondAccount:
        return cls(row.id, row.owner, row.iban, row.balance)


@table("notes", key="program")
@attrs.frozen
class Note(Row):
    """The last transaction of a program: it names each commit in the log."""

    program: str
    transaction: str


_ACCOUNTS: Final = schema_of(FirstAccount).use.name
_NOTES: Final = schema_of(Note).use.name
_KEYS: Final = {schema_of(FirstAccount).encode_key((key,)): key for key in IDS}


def plain_commit(command: commands.Commit, result: object) -> Commit:
    """A command and its result, as the model knows them."""
    names, puts = list[str](), list[Account]()
    for put in command.puts:
        fields = json.loads(put.json)
        if command.tables[put.table].name == _NOTES:
            names.append(fields["transaction"])
        else:
            owner = fields["owner" if "owner" in fields else "holder"]
            puts.append(Account(fields["id"], owner, fields["iban"], fields["balance"]))
    told = result if isinstance(result, CommitResult) else None
    return Commit(
        name="".join(names),
        number=0 if told is None else told.number,
        version=next((use.version for use in command.tables if use.name == _ACCOUNTS), 0),
        is_not_unique=told is not None and told.verdict is Verdict.NOT_UNIQUE,
        puts=tuple(puts),
        deletes=tuple(_KEYS[delete.key] for delete in command.deletes),
    )


def stored_rows(state: TableState) -> list[Account]:
    """Rows of a replica's store, in the order of their keys."""
    rows = list[Account]()
    for _, key in state.primary_keys(_ACCOUNTS, (b"", b""), ALL):
        stored = state.row(_ACCOUNTS, key)
        assert stored is not None
        rows.append(schema_of(SecondAccount).decode(key, stored).plain())
    return rows


def stored_entries(state: TableState) -> Mapping[str, Sequence[str]]:
    """Keys of rows that the entries of each complete index name, in the order of the entries."""
    head = state.head(_ACCOUNTS)
    is_complete = head is not None and head.complete == SECOND
    found = dict[str, list[str]]()
    for index, each in schema_of(SecondAccount if is_complete else FirstAccount).indices.items():
        entries = state.entries(_ACCOUNTS, index.encode(), (b"", b""), ALL, is_unique=each.is_unique)
        found[index] = [_KEYS[key] for _, key in entries]
    return found
