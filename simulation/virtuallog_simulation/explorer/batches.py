"""Batches that clients of a log append in an exploration."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog_simulation.explorer.canonical_form import register_value

SEGMENT: Final = SegmentId(1, 0)
"""Segment of the log."""

register_value(Batch, lambda batch: batch.blob)


def batch_of(number: int) -> Batch:
    """Batch of one entry that a client offers once, in a session of its own."""
    return Batch.build(SessionId(number.to_bytes(16, "big")), 0, [b"%d" % number])
