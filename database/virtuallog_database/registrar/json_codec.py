"""Tables of a registrar whose records are attrs classes, stored as JSON.

@attrs.frozen
class Agent:
    id: str
    hostname: str
    unknown: Mapping[str, Any] = attrs.field(factory=dict, eq=False)     optional: fields of later programs, kept as they are

AGENTS = json_table("agents", Agent)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from virtuallog_database.json_codec import JsonCodec
from virtuallog_database.registrar.core.tables import RecordTable, untagged

RecordT = TypeVar("RecordT")


def json_table(
    name: str, kind: type[RecordT], tags: Callable[[RecordT], Collection[str]] = untagged
) -> RecordTable[RecordT]:
    """A table of records of an attrs class, whose fields have types that cattrs can structure.

    Each attrs class in a record may have the field `unknown`. Fields with their default values are not stored.
    Decoding raises MalformedError for bytes that are no such record. `tags` are those of `RecordTable`.
    """
    codec = JsonCodec(kind, f"the table '{name}'")
    return RecordTable(name, codec.encode, codec.decode, tags)
