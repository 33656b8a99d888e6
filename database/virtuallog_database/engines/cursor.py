"""The cursor as it lies in the store: the first position of the log that is not applied.                          Pure."""

from __future__ import annotations

from virtuallog.errors import CorruptionError
from virtuallog.types import LogPosition
from virtuallog_database.engines.keys import CURSOR
from virtuallog_database.ports import Reading


def read_cursor(store: Reading) -> LogPosition:
    """0 if nothing is applied in this store.

    Raises:
        CorruptionError: what is there is no position.
    """
    value = store.get(CURSOR)
    if value is not None and len(value) != 8:
        raise CorruptionError(f"the cursor of the store has {len(value)} bytes")
    return LogPosition(int.from_bytes(value or b"", "big"))
