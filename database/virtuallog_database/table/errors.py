"""Errors of tables. All are definite: nothing was written. An unknown outcome is UnavailableError."""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import RetryableError, TerminalError


@attrs.define
class ConflictError(RetryableError):
    """Another transaction has changed what this one has read. Nothing was written: run it again from its beginning."""

    table: str
    read: str
    """The row or the range that has changed."""

    def __str__(self) -> str:
        return f"{self.read} of the table '{self.table}' has changed since the transaction has read it"


@attrs.define
class UniqueViolationError(TerminalError):
    """Another row has the same values in a unique index. Nothing was written."""

    table: str
    index: str
    row: str
    """Beginning of the JSON of the row that was to be put."""

    def __str__(self) -> str:
        return f"a row of the table '{self.table}' has these values in the unique index '{self.index}': {self.row}"


@attrs.define
class SchemaTooOldError(TerminalError):
    """The table has been written by a program with a later version of its schema: use such a program."""

    table: str
    version: int
    """Version of the schema of this program."""

    def __str__(self) -> str:
        return f"the table '{self.table}' has a later version than {self.version}, the one of this program"


@attrs.define
class SchemaDiffersError(TerminalError):
    """The table has another primary key, or other indices under the same version. Other indices need another version."""

    table: str

    def __str__(self) -> str:
        return f"the table '{self.table}' has another primary key, or other indices in the same version of its schema"


@attrs.define
class IndexNotReadyError(RetryableError):
    """Some rows have no entry in the index yet: `migrate` has not been run to its end since the index was added or changed."""

    table: str
    index: str

    def __str__(self) -> str:
        return f"the index '{self.index}' of the table '{self.table}' is not complete: migrate the table"
