"""A registry from its stored records, decoded beside other tasks: 50,000 records take a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from virtuallog_database.registrar.core.ownership import OWNERSHIP
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot, decode_untrusted
from virtuallog_database.state.core.record_changes import VersionedRecords

PIECE: Final = 256
"""Records decoded between two checkpoints, some 5 ms."""


async def decode_registry(found: VersionedRecords, tables: Sequence[RecordTable[Any]]) -> Registry:
    """Decode all records, also the registrar's own.

    Raises:
        CorruptionError: a record of none of these tables, or one that cannot be decoded.
        BinaryTooOldError: a registry of a later format.
    """
    by_name = {table.name: table for table in (*tables, OWNERSHIP)}
    decoded: list[tuple[str, str, Slot]] = []
    for key, value in found.records.items():
        decoded.append(decode_untrusted(key, value, by_name))
        if len(decoded) % PIECE == 0:
            await trio.lowlevel.checkpoint()
    return Registry.of(decoded)
