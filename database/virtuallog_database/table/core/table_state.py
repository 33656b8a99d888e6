"""Reads of tables, as one replica has applied them."""

from __future__ import annotations

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.ports import StoreReader
from virtuallog_database.table.core import keys
from virtuallog_database.table.core.keys import StoredRow, TableHead


@attrs.frozen(eq=False)
class TableState:
    """Tables in a store or in a snapshot of it. Every method answers at once."""

    _store: StoreReader

    @property
    def number(self) -> int:
        """Number of the last commit."""
        return keys.decode_number(self._store.get(keys.COUNTER))

    def head(self, table: bytes) -> TableHead | None:
        """Head of a table; None before its first write."""
        return TableHead.decode(self._store.get(keys.head(table)))

    def row(self, table: bytes, key: bytes) -> StoredRow | None:
        """A row; None if there is none."""
        return StoredRow.decode(self._store.get(keys.row(table, key)))

    def primary_keys(self, table: bytes, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        """The first keys of rows in a span, each twice: as an entry of the order of the rows, and as a key. An empty stop is the end."""
        prefix = keys.versions(table)
        pairs = self._store.scan(keys.within(prefix, *span), count)
        return [(key[len(prefix) :],) * 2 for key, _ in pairs]

    def entries(
        self, table: bytes, index: bytes, span: Span, count: int, *, is_unique: bool
    ) -> list[tuple[bytes, bytes]]:
        """The first entries of an index in a span, each with the key of its row. An empty stop is the end."""
        prefix = keys.index(table, index, is_unique=is_unique)
        pairs = self._store.scan(keys.within(prefix, *span), count)
        return [(key[len(prefix) :], row) for key, row in pairs]
