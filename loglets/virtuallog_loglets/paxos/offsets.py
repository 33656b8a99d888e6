"""Between positions of the log and offsets of the loglet that it is (docs/internals/protocols/paxos.md).                       Pure."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.types import POSITION_MAX
from virtuallog.ordering.slots import INDEX_BITS

PLACE_MAX: Final = (POSITION_MAX >> INDEX_BITS) - 1
"""The highest position of a log: its offsets, and those of the position behind it, are below 2**63."""


def offset_of(position: int) -> int:
    """Loglet offset of the first entry at a position. Position 0 never holds a batch; it counts as the place of 1, the first."""
    return max(0, position - 1) << INDEX_BITS


def position_of(offset: int) -> int:
    """The position whose entries the loglet offset is among."""
    return (offset >> INDEX_BITS) + 1
