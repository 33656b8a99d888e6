"""Conversion between positions of the log and offsets of the loglet (docs/internals/protocols/paxos.md)."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.types import POSITION_MAX
from virtuallog.exactly_once.slot_offsets import INDEX_BITS

PLACE_MAX: Final = (POSITION_MAX >> INDEX_BITS) - 1
"""Highest position of a log. Its offsets, and those of the next position, are below 2**63."""


def offset_of(position: int) -> int:
    """Loglet offset of the first entry at a position.

    Position 0 never holds a batch; its offset is that of position 1.
    """
    return max(0, position - 1) << INDEX_BITS


def position_of(offset: int) -> int:
    """Position that holds the loglet offset."""
    return (offset >> INDEX_BITS) + 1
