"""Schemas of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from tests.database.table.table_world import Account, Edge
from virtuallog.contract.errors import InvalidSettingError, MalformedError, TooLargeError
from virtuallog_database.table.core.keys import StoredRow
from virtuallog_database.table.schema import ROW_BYTES_MAX, Index, Row, schema_of, table


@attrs.frozen
class Plain(Row):
    """Columns of several types."""

    id: str
    tags: tuple[str, ...] = ()
    raw: bytes = b""
    count: int = 0


class NotAttrs(Row):
    """A class without columns of its own."""


SCHEMA = schema_of(Account)


def test_a_row_is_json_with_all_columns() -> None:
    """Also those with their defaults, so a later default is none of an earlier row; bytes are base64."""
    assert SCHEMA.encode(Account("a")) == b'{"id":"a","owner":"","email":null,"balance":0,"note":""}'
    edge = Edge(1, 2, 0.5, b"\xff")
    schema = schema_of(Edge)
    assert schema.encode(edge) == b'{"source":1,"target":2,"weight":0.5,"label":"/w=="}'
    assert schema.decode(schema.key_of(edge), StoredRow(1, 1, schema.encode(edge))) == edge


def test_columns_of_later_programs_are_kept() -> None:
    """And columns without a value get their defaults as they are read."""
    row = SCHEMA.decode(b"", StoredRow(1, 1, b'{"id":"a","colour":"red"}'))
    assert row == Account("a")
    assert SCHEMA.encode(attrs.evolve(row, balance=1)).startswith(b'{"colour":"red","id":"a"')


@pytest.mark.parametrize("json", [b"", b"[]", b"{}", b'{"id":"a","balance":"x"}', b"\xff", b"[" * 100_000])
def test_other_rows_are_malformed(json: bytes) -> None:
    """There is one error for rows of another program."""
    with pytest.raises(MalformedError):
        SCHEMA.decode(b"", StoredRow(1, 1, json))


def _changed_key(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "id": "b"}


def test_an_upgrade_keeps_the_key() -> None:
    """A row under another key than its own would be found by no reader."""
    made: Callable[[type[Row]], type[Row]] = table("plain", key="id", version=2, upgrades={1: _changed_key})
    kind = made(attrs.make_class("Kind", {}, bases=(Plain,)))
    with pytest.raises(MalformedError):
        schema_of(kind).decode(schema_of(kind).encode_key(["a"]), StoredRow(1, 1, b'{"id":"a"}'))


@pytest.mark.parametrize("row", [Account("a", balance="x"), Account("a", note={1, 2})])  # type: ignore[arg-type]
def test_a_row_that_could_not_be_read_is_not_put(row: Account) -> None:
    """Every reader of the table would meet it."""
    with pytest.raises(InvalidSettingError):
        SCHEMA.encode(row)


def test_sizes_are_bounded() -> None:
    """Of rows, of keys, and of the columns of an index."""
    with pytest.raises(TooLargeError):
        SCHEMA.encode(Account("a", note="x" * ROW_BYTES_MAX))
    for row in (Account("x" * 2000), Account("a", owner="x" * 2000)):
        with pytest.raises(TooLargeError):
            SCHEMA.key_of(row) + b"".join(entry.columns for entry in SCHEMA.entries_of(row))


def test_keys_have_their_columns() -> None:
    """A key of another number of values, or of values of other types, is none."""
    wrong: list[list[Any]] = [[], [1], [1, 2, 3], [1, "2"], [True, 2]]
    for values in wrong:
        with pytest.raises(InvalidSettingError):
            schema_of(Edge).encode_key(values)
    with pytest.raises(InvalidSettingError):
        schema_of(Edge).span("none", (), None, None)


def test_a_row_without_a_value_is_not_in_an_index() -> None:
    """Several rows may be without the value of a unique index."""
    assert [entry.index for entry in SCHEMA.entries_of(Account("a"))] == [1]
    assert SCHEMA.place_of(Account("a"), "by_email") == b""


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Plain, {"name": "A"}), (Plain, {"name": ""}), (Plain, {"name": "x" * 65}), (Plain, {"key": ()}), (Plain, {"key": "no"}),
        (Plain, {"key": "tags"}), (Plain, {"version": 0}), (Plain, {"indices": {"i": Index("no")}}), (Plain, {"indices": {"I": Index("id")}}),
        (Plain, {"indices": {"i": Index(())}}), (Plain, {"indices": {"i": Index("id", since=2)}}), (NotAttrs, {}), (int, {}),
        (Plain, {"indices": {f"i{number}": Index("id") for number in range(17)}}), (Account, {"key": "email"}),
    ],
)  # fmt: skip
def test_other_schemas_are_refused(kind: Any, arguments: Mapping[str, Any]) -> None:
    """When the module is imported, and not at the first write."""
    with pytest.raises(InvalidSettingError):
        table(**{"name": "plain", "key": "id", **arguments})(kind)


def test_a_subclass_is_a_table_of_its_own() -> None:
    """It has not the one of its base."""
    with pytest.raises(InvalidSettingError):
        schema_of(attrs.make_class("Special", {}, bases=(Account,)))


def test_fingerprints_tell_layouts_apart() -> None:
    """Names of key columns may change, their types may not; of an index, both are compared."""

    def layouts(**arguments: Any) -> tuple[int, int]:
        made: Callable[[type[Row]], type[Row]] = table("plain", **{"key": "id", **arguments})
        use = schema_of(made(attrs.make_class("Made", {}, bases=(Plain,)))).use
        return use.key_layout, use.index_layout

    key, index = layouts()
    assert layouts(key="raw")[0] != key
    found = {
        index,
        layouts(indices={"i": Index("id")})[1],
        layouts(indices={"i": Index("id", is_unique=True)})[1],
        layouts(indices={"j": Index("id")})[1],
        layouts(indices={"i": Index("count")})[1],
        layouts(indices={"i": Index(("id", "count"))})[1],
    }
    assert len(found) == 6
    assert layouts(indices={"i": Index("id", since=1)})[1] in found
