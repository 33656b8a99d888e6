"""Errors of `apply` that are no function of the log (SOSP'21, section 3.3).                                      Pure.

An error that every replica meets at the same entry is part of the state machine: it is rolled back, told to the proposer, and
play goes on. One that only this replica meets (its disk is full, its memory is short) must stop it at once: going on would make
it differ from the others. The list is explicit; whatever is not on it counts as deterministic, and checksums that travel through the
log catch what was wrongly left out.
"""

from __future__ import annotations

from typing import Final

from virtuallog.errors import CorruptionError, DiskFullError, StorageError
from virtuallog_database.errors import BinaryTooOldError

NONDETERMINISTIC: Final = (
    StorageError,
    DiskFullError,
    CorruptionError,
    BinaryTooOldError,
    OSError,
    MemoryError,
    RecursionError,
    AssertionError,
)
"""RecursionError depends on how deep the caller stood already; a failed assertion says that the state is not what it must be."""
