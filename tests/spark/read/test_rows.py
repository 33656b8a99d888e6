"""Rows of archives and logs as rows of Spark."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_virtuallog.read.rows import batch_of, check_whole, source_columns, stop_of
from pyspark_virtuallog.read.schema import SCHEMA, check_schema
from pyspark_virtuallog.read.task_plan import Part
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, TrimmedError
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog_loglets.archive.core.rows import table_of

SESSION = SessionId(b"s" * 16)
SEGMENT = Segment(id=SegmentId(4, 0xBEE), kind="native", config=b"", start=LogPosition(0))
PART = Part(start=5, stop=12, segment=SEGMENT)
TABLE = table_of([
    PlacedBatch(range(5, 7), Batch.build(SESSION, 40, [b"one", b""]), 1_700_000_000_123),
    Gap(7, 12, GapKind.FILLER),
])  # fmt: skip


TYPES: dict[str, DataType] = {
    "LONG": LongType(), "INT": IntegerType(), "STRING": StringType(), "BINARY": BinaryType(), "TIMESTAMP": TimestampType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
}  # fmt: skip


def struct(ddl: str) -> StructType:
    """`StructType.fromDDL`, which would need a JVM."""
    fields = [column.split(maxsplit=2) for column in ddl.split(",")]
    return StructType([StructField(name, TYPES[kind], nullable=not others) for name, kind, *others in fields])


def rows(ddl: str | None = None, part: Part = PART) -> list[dict[str, object]]:
    schema = SCHEMA if ddl is None else struct(ddl)
    found: list[dict[str, object]] = batch_of(TABLE, part, to_arrow_schema(schema, timezone="UTC")).to_pylist()
    return found


def test_an_entry_is_a_row_and_so_is_a_gap() -> None:
    """A gap is at its first position, and has nothing but that, its sort, and the segment it is in."""
    first, second, gap = rows()

    assert first["time"].timestamp() == pytest.approx(1_700_000_000.123)  # type: ignore[attr-defined]
    assert {**first, "time": 0} == {
        "position": 5, "payload": b"one", "time": 0, "session": bytes(SESSION), "sequence": 40, "size": 3,
        "segment": "4.bee", "loglet": "native", "gap": None,
    }  # fmt: skip
    assert (second["position"], second["payload"], second["sequence"], second["size"]) == (6, b"", 41, 0)
    assert {name: value for name, value in gap.items() if value is not None} == {
        "position": 7, "segment": "4.bee", "loglet": "native", "gap": "filler",
    }  # fmt: skip


def test_below_the_chain_there_is_no_segment() -> None:
    """The segment is not known any more."""
    assert (
        rows("segment STRING, loglet STRING", Part(start=5, stop=12, segment=None))
        == [{"segment": None, "loglet": None}] * 3
    )


def test_columns_come_as_they_are_asked_for() -> None:
    """Few of them, in another order, in other letters; and no more is read from files than that needs."""
    assert rows("SIZE INT, position LONG") == [
        {"SIZE": 3, "position": 5}, {"SIZE": 0, "position": 6}, {"SIZE": None, "position": 7},
    ]  # fmt: skip
    assert source_columns(["position", "segment"]) == ["position", "session", "gap", "gap_stop"]
    assert "payload" in source_columns(["Size"])


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("position INT", "column position is of type BIGINT, not INT"),
        ("offset LONG", "there is no column offset; there are position BIGINT"),
        ("position LONG, Position LONG", "is there twice"),
        ("payload STRING", "column payload is of type BINARY, not STRING"),
        ("time TIMESTAMP_NTZ", "column time is of type TIMESTAMP"),
        ("payload BINARY NOT NULL", "cannot be NOT NULL"),
    ],
)
def test_a_schema_that_cannot_be_given_is_refused(ddl: str, said: str) -> None:
    """It says what there is."""
    with pytest.raises(InvalidSettingError, match=said):
        check_schema(struct(ddl))


def test_a_schema_of_some_columns_is_taken() -> None:
    """Also with a position that is never null, which it is not."""
    check_schema(SCHEMA)
    check_schema(struct("time TIMESTAMP, POSITION LONG NOT NULL"))
    with pytest.raises(InvalidSettingError, match="no column"):
        check_schema(StructType())


def with_gap(kind: GapKind) -> pa.Table:
    return table_of([PlacedBatch(range(5, 6), Batch.build(SESSION, 40, [b"one"]), 1), Gap(6, 12, kind)])


def test_what_is_missing_is_told_from_what_never_was() -> None:
    """Fillers are no loss."""
    check_whole(with_gap(GapKind.FILLER))
    with pytest.raises(TrimmedError, match="the log starts at 12"):
        check_whole(with_gap(GapKind.TRIMMED))
    with pytest.raises(CorruptionError, match="position 6 is lost"):
        check_whole(with_gap(GapKind.LOST))


def test_how_far_rows_reach() -> None:
    """Rows reach to the end of a gap, or one past an entry."""
    assert stop_of(TABLE) == 12
    assert stop_of(TABLE.slice(0, 2)) == 7


def test_spark_learns_name_and_schema_without_a_client_of_the_log() -> None:
    """Spark imports every package that is named like ours, for any query."""
    script = (
        "import sys; from pyspark_virtuallog import DefaultSource; "
        "print(DefaultSource.name(), len(DefaultSource({}).schema()), {'trio', 'virtuallog', 'pyarrow'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "virtuallog 9 set()\n"
