"""The part of a former cluster's state that a new cluster starts with, when it continues the former
log.

It has what clients have written, their sessions included, and how far the log is applied. Records
of engines are about the former servers: their view, holds, leases, reports and backups mean nothing
to others, whose engines begin as on an empty log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virtuallog.contract.ports import Span
from virtuallog_database.engines.core.keys import CURSOR, ENGINES
from virtuallog_database.engines.core.state_digests import EVERYTHING
from virtuallog_database.ports import StoreReader

Pair = tuple[bytes, bytes]
_PAIRS_AT_ONCE: Final = 1024


def inherited(state: StoreReader) -> Iterator[Pair]:
    """Pairs of a state that a new cluster begins with, in order of their keys."""
    cursor = state.get(CURSOR)
    if cursor is not None:
        yield CURSOR, cursor
    yield from pairs_within(state, (ENGINES[1], EVERYTHING[1]))


def pairs_within(state: StoreReader, span: Span = EVERYTHING) -> Iterator[Pair]:
    """All pairs in a span, in order."""
    start, stop = span
    while pairs := state.scan((start, stop), _PAIRS_AT_ONCE):
        yield from pairs
        start = pairs[-1][0] + b"\0"
