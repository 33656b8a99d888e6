"""The columns of the table: one row an entry, or a gap.

    position | payload  time  session  sequence  size | segment  loglet | gap
       7     | b"a"     ...   0x5e..   41        1    | 4.1      native |
       8     |                                        | 4.1      native | filler     nothing at 8 and 9: the next row says where it ends
      10     | b"b"     ...   0x5e..   42        1    | 4.1      native |

Spark has no way to tell a source of Python which columns a query needs, so a reader that needs few names them:
`.schema("position LONG, time TIMESTAMP")`.
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
        StructField("segment", StringType(), nullable=False),
        StructField("loglet", StringType(), nullable=False),
        StructField("gap", StringType()),
    ]
)
"""Every column, in order."""
