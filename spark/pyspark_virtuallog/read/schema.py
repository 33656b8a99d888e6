"""Columns of the table: one row for an entry, or for a gap.

    position | payload  time  session  sequence  size | segment  loglet | gap
       7     | b"a"     ...   0x5e..   41        1    | 4.1      native |
       8     |                                        | 4.1      native | filler     nothing at 8 and 9: the next row says where it ends
      10     | b"b"     ...   0x5e..   42        1    | 4.1      native |

This module imports nothing of ours, as Spark asks for the schema in processes that do nothing else.

Spark does not tell a source in Python which columns a query needs. So a user who needs few names
them: `.schema("position LONG, time TIMESTAMP")`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA: Final = StructType(
    [
        StructField("position", LongType(), nullable=False),
        StructField("payload", BinaryType()),
        StructField("time", TimestampType()),
        StructField("session", BinaryType()),
        StructField("sequence", LongType()),
        StructField("size", IntegerType()),
        StructField("segment", StringType()),
        StructField("loglet", StringType()),
        StructField("gap", StringType()),
    ]
)
"""Every column, in order. Segment and loglet are null where the chain no longer reaches: below its
start."""


def check_schema(schema: StructType) -> None:
    """Check a requested schema: any of our columns, each once and with its own type, in any order.

    Raises:
        InvalidSettingError: it asks for something else.
    """
    if (reason := _refusal(schema)) is not None:
        from virtuallog.contract.errors import InvalidSettingError

        raise InvalidSettingError("schema", reason)


def _refusal(schema: StructType) -> str | None:
    known = {field.name: field.dataType for field in SCHEMA}
    names = [field.name.lower() for field in schema]
    if not names:
        return f"has no column; there are {_columns()}"
    for field, name in zip(schema, names, strict=True):
        if name not in known:
            return f"there is no column {field.name}; there are {_columns()}"
        if field.dataType != known[name]:
            found, wanted = field.dataType.simpleString(), known[name].simpleString()
            return f"column {field.name} is of type {wanted.upper()}, not {found.upper()}"
        if names.count(name) > 1:
            return f"column {field.name} is there twice"
        if not field.nullable and name != "position":
            return f"column {field.name} is null in rows of gaps: it cannot be NOT NULL"
    return None


def _columns() -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString().upper()}" for field in SCHEMA)
