"""Schemas: attrs classes as tables.

    @table("accounts", key="id", indices={"by_email": Index("email", is_unique=True)})
    @attrs.frozen
    class Account(Row):
        id: str
        email: str | None = None
        balance: int = 0

A row is JSON, with all columns. Key columns are str, int, bytes, bool or float. A row whose column of an index is None has
no entry in that index.

A column with a default may be added at any time: rows without it get the default as they are read. Any other change needs
the next `version`, with a function in `upgrades` where rows have to be changed.

A row is refused unless it is read back as it was put: values of other types than declared are not converted.
"""

from __future__ import annotations

import types
import typing
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from virtuallog.contract.errors import InvalidSettingError, MalformedError, TooLargeError
from virtuallog.contract.ports import Span
from virtuallog_database.json_codec import JsonCodec
from virtuallog_database.table.core import keys
from virtuallog_database.table.core.commands import (
    INDICES_MAX,
    KEY_BYTES_MAX,
    NAME_BYTES_MAX,
    IndexEntry,
    IndexUse,
    TableUse,
)
from virtuallog_database.table.core.key_codec import TYPES, encode_value, escape, successor
from virtuallog_database.table.core.keys import StoredRow
from virtuallog_database.table.row_comparison import changed_column

KeyValue: TypeAlias = str | int | bytes | float
"""Value of a key column."""
Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the JSON object of the next version from that of a version."""

ROW_BYTES_MAX: Final = 1 << 20
"""Bytes of a row as JSON."""
_SCHEMA: Final = "__table_schema__"


@attrs.frozen
class Row:
    """Base class of rows."""

    unknown: Mapping[str, Any] = attrs.field(factory=dict, eq=False, kw_only=True)
    """Columns of later programs, kept as they are."""


RowT = TypeVar("RowT", bound=Row)


def _columns(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@attrs.frozen
class Index:
    """A secondary index: rows in the order of some columns."""

    columns: tuple[str, ...] = attrs.field(converter=_columns)
    is_unique: bool = attrs.field(default=False, kw_only=True)
    """True: no two rows have the same values in these columns."""
    since: int = attrs.field(default=0, kw_only=True)
    """Version of the schema that has last added the index, or changed the values of its columns. It can be read when all rows
    have this version. 0: that of the schema, always right and more strict than need be."""


@attrs.frozen(eq=False, kw_only=True)
class Schema(Generic[RowT]):
    """A table, as a program knows it. Made by the decorator `table`."""

    name: str
    kind: type[RowT]
    key: tuple[str, ...]
    indices: Mapping[str, Index]
    """In order of their names."""
    version: int
    upgrades: Mapping[int, Upgrade]
    use: TableUse = attrs.field(init=False)
    """The table as commands refer to it."""
    numbers: Mapping[str, int] = attrs.field(init=False)
    """Place of each index in `use`."""
    _codec: JsonCodec[RowT] = attrs.field(init=False)
    _types: Mapping[str, type] = attrs.field(init=False)
    """Types of the key columns."""

    def __attrs_post_init__(self) -> None:
        _check_name(self.name)
        if self.version < 1 or not self.key or len(self.indices) > INDICES_MAX:
            raise InvalidSettingError(
                self.name, f"a table needs a version from 1 on, a key, and {INDICES_MAX} indices at most"
            )
        used = {column for each in self.indices.values() for column in each.columns}
        kinds = {
            column: _column_type(self, column, may_be_none=column not in self.key) for column in {*self.key, *used}
        }
        for name, index in self.indices.items():
            _check_name(name)
            if not index.columns or not 0 <= index.since <= self.version:
                raise InvalidSettingError(
                    f"{self.name}.{name}", "an index needs columns, and no later `since` than the table's version"
                )
        layout = [(name, each.is_unique, _layout(each.columns, kinds, True)) for name, each in self.indices.items()]
        use = TableUse(
            name=self.name.encode(),
            version=self.version,
            key_layout=_fingerprint(_layout(self.key, kinds, False)),
            index_layout=_fingerprint(layout),
            indices=tuple(IndexUse(name.encode(), each.is_unique) for name, each in self.indices.items()),
        )
        for attribute, value in {
            "use": use,
            "numbers": {name: number for number, name in enumerate(self.indices)},
            "_types": kinds,
            "_codec": JsonCodec(self.kind, f"the table '{self.name}'", omits_defaults=False, is_strict=True),
        }.items():
            object.__setattr__(self, attribute, value)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def encode_key(self, values: Sequence[KeyValue]) -> bytes:
        """Primary key of these values, one for each of its columns.

        Raises:
            InvalidSettingError: another number of values, or one of another type.
            TooLargeError: the key is too long.
        """
        if len(values) != len(self.key):
            raise InvalidSettingError(self.name, f"the key has the columns {', '.join(self.key)}; {len(values)} given")
        return self._encode(self.key, values)

    def key_of(self, row: RowT) -> bytes:
        """Primary key of a row. Raises the errors of `encode_key`."""
        return self.encode_key([getattr(row, column) for column in self.key])

    def entries_of(self, row: RowT) -> tuple[IndexEntry, ...]:
        """Index entries of a row. Raises the errors of `encode_key`."""
        found = list[IndexEntry]()
        for number, index in enumerate(self.indices.values()):
            values = [getattr(row, column) for column in index.columns]
            if None not in values:
                found.append(IndexEntry(number, self._encode(index.columns, values)))
        return tuple(found)

    def place_of(self, row: RowT, index: str | None) -> bytes:
        """Key of a row in the order of an index, or of the rows themselves. Empty if it is not in that index."""
        key = self.key_of(row)
        if index is None:
            return key
        number = self.numbers[index]
        columns = next((each.columns for each in self.entries_of(row) if each.index == number), None)
        return b"" if columns is None else keys.entry(columns, key, is_unique=self.indices[index].is_unique)

    def span(
        self, index: str | None, prefix: Sequence[KeyValue], start: KeyValue | None, stop: KeyValue | None
    ) -> Span:
        """Span of the rows whose first columns have the values of `prefix`, and the next one a value from `start` to below
        `stop`. An empty end is the end of the order. Raises the errors of `encode_key`."""
        if index is not None and index not in self.indices:
            raise InvalidSettingError(self.name, f"no index '{index}' (known: {', '.join(self.indices) or 'none'})")
        columns = self.key if index is None else self.indices[index].columns

        def place(*values: KeyValue) -> bytes:
            encoded = self._encode(columns, values)
            return encoded if index is None else escape(encoded)

        begin = place(*prefix) if start is None else place(*prefix, start)
        if stop is not None:
            return begin, place(*prefix, stop)
        return begin, successor(place(*prefix))

    def _encode(self, columns: Sequence[str], values: Sequence[object]) -> bytes:
        if len(values) > len(columns):
            raise InvalidSettingError(self.name, f"{len(values)} values for the columns {', '.join(columns)}")
        encoded = b"".join(
            encode_value(self._types[column], value) for column, value in zip(columns, values, strict=False)
        )
        if len(encoded) > KEY_BYTES_MAX:
            raise TooLargeError(f"bytes of a key of the table '{self.name}'", len(encoded), KEY_BYTES_MAX)
        return encoded

    # -- rows ---------------------------------------------------------------------------------------------------------

    def encode(self, row: RowT) -> bytes:
        """JSON of a row.

        Raises:
            InvalidSettingError: a column has a value that would not be read back as it is: one of another type than declared, or none
                of JSON.
            TooLargeError: it is too long.
        """
        try:
            encoded = self._codec.encode(row)
            changed = changed_column(row, self._codec.decode(encoded))
        except (MalformedError, AttributeError, TypeError, ValueError, RecursionError) as error:
            raise InvalidSettingError(self.name, f"not a row that can be read back: {error}") from error
        if changed is not None:
            value = repr(getattr(row, changed))[:60]
            raise InvalidSettingError(f"{self.name}.{changed}", f"{value} would be read back as something else")
        if len(encoded) > ROW_BYTES_MAX:
            raise TooLargeError(f"bytes of a row of the table '{self.name}'", len(encoded), ROW_BYTES_MAX)
        return encoded

    def decode(self, key: bytes, stored: StoredRow) -> RowT:
        """A stored row, in this version of the schema.

        Raises:
            MalformedError: the row is none of this schema, or an upgrade has changed its primary key.
        """

        def upgrade(fields: Any) -> Any:
            if not isinstance(fields, dict):
                raise TypeError(f"{type(fields).__name__} is not an object")
            for version in range(stored.schema, self.version):
                fields = self.upgrades.get(version, _unchanged)(fields)
            return fields

        row = self._codec.decode(stored.json, upgrade)
        if stored.schema < self.version and self.key_of(row) != key:
            raise MalformedError(f"an upgrade of the table '{self.name}' has changed the key of {stored.json[:60]!r}")
        return row


def table(
    name: str,
    *,
    key: str | Sequence[str],
    indices: Mapping[str, Index] | None = None,
    version: int = 1,
    upgrades: Mapping[int, Upgrade] | None = None,
) -> Callable[[type[RowT]], type[RowT]]:
    """Decorator that makes a table of an attrs class derived from `Row`.

    Args:
        name: of the table; lower-case letters, digits and underscores.
        key: column or columns of the primary key. Their types never change.
        indices: secondary indices by name.
        version: version of the schema, from 1 on.
        upgrades: for a version, a function that makes the JSON object of the next version. A missing one changes nothing.

    Raises:
        InvalidSettingError: the schema is not well formed.
    """

    def made(kind: type[RowT]) -> type[RowT]:
        found = dict(sorted((indices or {}).items()))
        schema = Schema(
            name=name, kind=kind, key=_columns(key), indices=found, version=version, upgrades=upgrades or {}
        )
        setattr(kind, _SCHEMA, schema)
        return kind

    return made


def schema_of(kind: type[RowT]) -> Schema[RowT]:
    """Schema of a class of rows. Raises InvalidSettingError: the class is no table."""
    schema: Schema[RowT] | None = vars(kind).get(_SCHEMA)
    if schema is None:
        raise InvalidSettingError(kind.__name__, "the class has not the decorator @table")
    return schema


def _unchanged(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


def _check_name(name: str) -> None:
    if not name.isascii() or not name.replace("_", "a").isalnum() or name != name.lower() or len(name) > NAME_BYTES_MAX:
        raise InvalidSettingError(
            "name", f"'{name}' is not of lower-case letters, digits and underscores, {NAME_BYTES_MAX} at most"
        )


def _column_type(schema: Schema[Any], column: str, *, may_be_none: bool) -> type:
    """Type of a key column."""
    kind: Any = schema.kind
    if not (isinstance(kind, type) and issubclass(kind, Row) and "__attrs_attrs__" in vars(kind)):
        raise InvalidSettingError(schema.name, f"{kind!r} is no attrs class derived from Row")
    field = attrs.fields_dict(attrs.resolve_types(kind)).get(column)
    if field is None:
        raise InvalidSettingError(schema.name, f"no column '{column}'")
    found = field.type
    if may_be_none and typing.get_origin(found) in (typing.Union, types.UnionType):
        left = [each for each in typing.get_args(found) if each is not type(None)]
        found = left[0] if len(left) == 1 else None
    if found not in TYPES:
        names = ", ".join(each.__name__ for each in TYPES)
        raise InvalidSettingError(
            f"{schema.name}.{column}", f"a key column is one of {names}, and None only in an index"
        )
    return typing.cast(type, found)


def _layout(columns: Sequence[str], kinds: Mapping[str, type], named: bool) -> list[tuple[str, str]]:
    return [(column if named else "", kinds[column].__name__) for column in columns]


def _fingerprint(layout: object) -> int:
    return zlib.crc32(repr(layout).encode())
