"""Where engines keep their part of the state.                                                                    Pure.

Keys that start with a zero byte belong to the engines, one section for each by its name; all others to the application.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import Span
from virtuallog.contract.types import LogPosition
from virtuallog_database.ports import StoreReader

ENGINES: Final[Span] = (b"\0", b"\1")
"""All sections."""


def section(engine: str) -> bytes:
    """The prefix of the keys of the engine of this name."""
    return b"\0" + engine.encode() + b"\0"


def section_span(engine: str) -> Span:
    """All keys of the engine of this name."""
    return section(engine), b"\0" + engine.encode() + b"\1"


CURSOR: Final = section("base") + b"cursor"
"""Its value: the first position that is not applied, u64, big-endian."""


# FOLDED from virtuallog_database.engines.cursor: The cursor as it lies in the store: the first position of the log that is not applied.                          Pure.


def read_cursor(store: StoreReader) -> LogPosition:
    """0 if nothing is applied in this store.

    Raises:
        CorruptionError: what is there is no position.
    """
    value = store.get(CURSOR)
    if value is not None and len(value) != 8:
        raise CorruptionError(f"the cursor of the store has {len(value)} bytes")
    return LogPosition(int.from_bytes(value or b"", "big"))
