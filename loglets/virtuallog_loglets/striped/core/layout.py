"""Where things are in a striped loglet: which slot of the whole is which place of which stripe.                         Pure.

    slot            0    1    2    3    4    5    6   ...            slot = place * stripes + stripe   (Delos, section 4.2.2)
    stripe          A    B    C    A    B    C    A
    place in it     0    0    0    1    1    1    2

    stripe A   |####|####|####|....         ends at place 3: its first hole is slot 9
    stripe B   |####|....                   ends at place 1: slot 4, the first hole of all. Up to there the loglet is filled
    stripe C   |####|####|....              ends at place 2: slot 8

A slot holds one batch, whole: it is one entry of its stripe. **A departure from the paper**, which stripes entries, and whose
text has no batches: there the end of the log lies in the middle of batches, and a seal would leave the first half of one in
the log for good (docs/internals/protocols/striped.md). Offsets are slot << 16 | index of the entry, as in other loglets with slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.batch import SessionId
from virtuallog.ordering.slots import INDEX_BITS, SLOT

__all__ = ["FILLER", "StripedLayout", "offset_of", "slot_of", "slots_below"]

FILLER: Final = b""
"""The entry of a stripe that is none: what an idle one is padded with."""


def offset_of(slot: int) -> int:
    """Of the first entry in a slot."""
    return slot << INDEX_BITS


def slot_of(offset: int) -> int:
    """The slot that an offset lies in."""
    return offset >> INDEX_BITS


def slots_below(offset: int) -> int:
    """How many slots begin below an offset."""
    return -(-offset // SLOT)


@attrs.frozen
class StripedLayout:
    """So many stripes."""

    stripes: int

    def stripe_of(self, session: SessionId) -> int:
        """The stripe that a session appends to, all its life, since only within a stripe are its batches kept in order. Sessions
        are random, so they spread."""
        return int.from_bytes(session[:8]) % self.stripes

    def slot(self, stripe: int, place: int) -> int:
        return place * self.stripes + stripe

    def place(self, slot: int) -> tuple[int, int]:
        """(stripe, place in it)"""
        place, stripe = divmod(slot, self.stripes)
        return stripe, place

    def places_below(self, stripe: int, slot: int) -> int:
        """How many places of a stripe come before a slot."""
        return max(0, -((stripe - slot) // self.stripes))

    def first_hole(self, tails: Sequence[int]) -> int:
        """The first slot that is not written, by the tails of all stripes."""
        return min(self.slot(stripe, tail) for stripe, tail in enumerate(tails))
