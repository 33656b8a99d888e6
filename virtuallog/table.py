"""Typed tables in the database: rows of attrs classes, secondary indices, serializable transactions.

    @table("accounts", key="id")
    @attrs.frozen
    class Account(Row):
        id: str
        balance: int = 0

    async with client.tables.transaction() as t:
        account = await t.get(Account, "alice")

A facade: re-exports only. No other module of the project imports it, as it imports the database.
"""

from virtuallog_database.table.client import Tables
from virtuallog_database.table.errors import (
    ConflictError,
    IndexNotReadyError,
    SchemaDiffersError,
    SchemaTooOldError,
    UniqueViolationError,
)
from virtuallog_database.table.schema import Index, Row, table
from virtuallog_database.table.transaction import TableTransaction

__all__ = [
    "ConflictError",
    "Index",
    "IndexNotReadyError",
    "Row",
    "SchemaDiffersError",
    "SchemaTooOldError",
    "TableTransaction",
    "Tables",
    "UniqueViolationError",
    "table",
]
