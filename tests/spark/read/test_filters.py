"""Filters that Spark hands over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_virtuallog.read.filters import EVERYTHING, LOG_STOP, take
from pyspark_virtuallog.read.schema import SCHEMA

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B = b"a" * 16, b"b" * 16


def batch() -> pa.RecordBatch:
    """An entry of A, a gap, two entries of B a second later each."""
    times = [NOON, None, NOON + timedelta(seconds=1), NOON + timedelta(seconds=2)]
    columns = [
        [7, 8, 9, 10], [b"x", None, b"", b"yy"], times, [A, None, B, B], [0, None, 0, 1], [1, None, 0, 2],
        ["1.a"] * 4, ["native"] * 4, [None, "filler", None, None],
    ]  # fmt: skip
    schema = to_arrow_schema(SCHEMA, timezone="UTC")
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (EqualTo(("session",), B), [9, 10]),
        (In(("session",), (A, None)), [7]),
        (IsNull(("gap",)), [7, 9, 10]),
        (IsNotNull(("gap",)), [8]),
        (IsNotNull(("payload",)), [7, 9, 10]),
        (GreaterThan(("time",), NOON), [9, 10]),
        (GreaterThanOrEqual(("time",), NOON), [7, 9, 10]),
        (LessThan(("time",), NOON + timedelta(seconds=1)), [7]),
        (LessThanOrEqual(("Size",), 1), [7, 9]),
        (EqualTo(("sequence",), 1), [10]),
        (EqualTo(("segment",), "1.b"), []),
        (In(("position",), (8, 10, 4711)), [8, 10]),
    ],
    ids=str,
)
def test_a_filter_leaves_the_rows_that_sql_would_leave(given: Filter, left: list[int]) -> None:
    """Null fulfils no comparison."""
    wanted, others = take([given])

    assert others == []
    assert wanted.range == EVERYTHING.range
    assert wanted.rows(batch()).column("position").to_pylist() == left


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(("position",), 7), (7, 8)),
        (GreaterThan(("position",), 7), (8, LOG_STOP)),
        (GreaterThanOrEqual(("position",), 7), (7, LOG_STOP)),
        (LessThan(("position",), 7), (0, 7)),
        (LessThanOrEqual(("position",), 7), (0, 8)),
        (GreaterThan(("position",), -5), (0, LOG_STOP)),
    ],
    ids=str,
)
def test_positions_are_not_even_read(given: Filter, expected: tuple[int, int]) -> None:
    """They narrow the plan."""
    wanted, others = take([given])

    assert (wanted.range, wanted.conditions, others) == (expected, (), [])


def test_filters_add_up() -> None:
    """All of them must hold."""
    wanted, _ = take(
        [GreaterThanOrEqual(("position",), 3), LessThan(("position",), 9), IsNull(("gap",)), EqualTo(("session",), B)]
    )

    assert wanted.range == (3, 9)
    assert wanted.rows(batch()).column("position").to_pylist() == [9, 10]


@pytest.mark.parametrize(
    "given",
    [
        Not(EqualTo(("position",), 3)),
        EqualNullSafe(("gap",), "lost"),
        EqualTo(("gap",), None),
        GreaterThan(("payload",), b"a"),
        StringStartsWith(("segment",), "1"),
        EqualTo(("payload", "x"), 1),
    ],
    ids=str,
)
def test_others_are_left_to_spark(given: Filter) -> None:
    """It applies them itself, so nothing is lost."""
    assert take([given]) == (EVERYTHING, [given])
