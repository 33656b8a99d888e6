"""Schemas of tables."""

from __future__ import annotations

import enum
import math
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


@attrs.frozen
class Part:
    """A record in a row."""

    size: int = 0


class Colour(enum.StrEnum):
    """A value that JSON has as a text."""

    RED = "red"


class Digit(enum.IntEnum):
    """A value that JSON has as a number."""

    ONE = 1


@table("mixed", key="id")
@attrs.frozen
class Mixed(Row):
    """Columns of all types."""

    id: str = "a"
    count: int = 0
    share: float = 0.0
    name: str = ""
    is_open: bool = False
    raw: bytes = b""
    any: Any = None
    numbers: list[int] = attrs.field(factory=list)
    sizes: dict[str, float] = attrs.field(factory=dict)
    pair: tuple[int, str] = (0, "")
    part: Part | None = None
    colour: Colour = Colour.RED
    digit: Digit = Digit.ONE


MIXED = schema_of(Mixed)
_TEXT: Any = "1"


@pytest.mark.parametrize(
    "column",
    [
        {"count": 1.7}, {"count": 1.0}, {"count": "12"}, {"count": True}, {"count": None}, {"name": 5}, {"name": None}, {"is_open": "no"},
        {"is_open": 0}, {"share": "1"}, {"share": True}, {"share": 2**53 + 1}, {"share": 10**400}, {"raw": "eHg="}, {"any": b"xx"},
        {"any": (1, 2)}, {"any": {1: 2}}, {"any": {True: 2}}, {"any": [{"a": (1,)}]}, {"any": {1}}, {"any": Colour.RED}, {"any": Part()},
        {"numbers": (1, 2)}, {"numbers": ["3"]}, {"numbers": [True]}, {"numbers": [1.0]}, {"pair": [1, "a"]}, {"part": Part(True)},
        {"part": Part(_TEXT)}, {"colour": "red"}, {"digit": 1}, {"unknown": {"id": "b"}}, {"unknown": {5: 1}}, {"unknown": {"x": b""}},
    ],
)  # fmt: skip
def test_a_row_that_would_be_changed_is_not_put(column: dict[str, Any]) -> None:
    """A value of another type than its column's is refused. Silently converted, 1.7 in a column of ints would be read as 1."""
    with pytest.raises(InvalidSettingError):
        MIXED.encode(Mixed(**column))


@pytest.mark.parametrize(
    "column",
    [
        {"count": 2**200}, {"share": 1}, {"share": 2**53}, {"share": -0.0}, {"share": math.inf}, {"share": math.nan}, {"any": math.nan},
        {"any": [1, 2.0, None, True, {"a": [-0.0, "\ud800"]}]}, {"numbers": [1, 2]}, {"sizes": {"a": 1, "b": 2.5}}, {"pair": (1, "a")},
        {"part": Part(1)}, {"colour": Colour.RED, "digit": Digit.ONE}, {"raw": b"\xff"}, {"unknown": {"x": [1, {"y": None}]}},
    ],
)  # fmt: skip
def test_a_row_is_read_back_as_it_was_put(column: dict[str, Any]) -> None:
    """Also NaN, infinities and -0.0. An int in a column of floats is read as the float that equals it, as type checkers see it."""
    row = Mixed(**column)
    read = MIXED.decode(b"", StoredRow(1, 1, MIXED.encode(row)))
    assert repr(read) == repr(Mixed(**_with_floats(column)))


def _with_floats(column: dict[str, Any]) -> dict[str, Any]:
    if "share" in column:
        return {"share": float(column["share"])}
    return {"sizes": {"a": 1.0, "b": 2.5}} if "sizes" in column else column


def test_the_error_names_the_column() -> None:
    """Rows may have many."""
    for row, reason in (
        (Mixed(any=(1,)), "mixed.any"),
        (Mixed(numbers=[1, True]), r"expected int @ \$\.numbers\[1\]"),
    ):
        with pytest.raises(InvalidSettingError, match=reason):
            MIXED.encode(row)


def test_another_type_of_a_column_is_noticed() -> None:
    """Its rows cannot be read as the class has them, also under the same version: they are not converted."""
    retyped: Callable[[type[Row]], type[Row]] = table("mixed", key="id")
    kind = retyped(
        attrs.make_class("Retyped", {"id": attrs.field(type=str), "count": attrs.field(type=str)}, bases=(Row,))
    )
    with pytest.raises(MalformedError):
        schema_of(kind).decode(b"", StoredRow(1, 1, b'{"id":"a","count":3}'))


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
