"""Keys of the engines' part of the state, and the cursor.

Keys that start with a zero byte belong to the engines, one section for each engine by name. All
other keys belong to the application.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import Span
from virtuallog.contract.types import LogPosition
from virtuallog_database.ports import StoreReader

ENGINES: Final[Span] = (b"\0", b"\1")
"""Span of all sections."""


def section(engine: str) -> bytes:
    """Prefix of an engine's keys."""
    return b"\0" + engine.encode() + b"\0"


def section_span(engine: str) -> Span:
    """Span of an engine's keys."""
    return section(engine), b"\0" + engine.encode() + b"\1"


CURSOR: Final = section("base") + b"cursor"
"""Key of the cursor: the first position of the log that is not applied, u64, big-endian."""


def read_cursor(store: StoreReader) -> LogPosition:
    """The cursor in a store; 0 if nothing is applied there.

    Raises:
        CorruptionError: the value is no position.
    """
    value = store.get(CURSOR)
    if value is not None and len(value) != 8:
        raise CorruptionError(f"the cursor of the store has {len(value)} bytes")
    return LogPosition(int.from_bytes(value or b"", "big"))
