"""Slot layout of a striped loglet: the slot of the whole for each place of each stripe.

    slot            0    1    2    3    4    5    6   ...            slot = place * stripes + stripe   (Delos, section 4.2.2)
    stripe          A    B    C    A    B    C    A
    place in it     0    0    0    1    1    1    2

    stripe A   |####|####|####|....         ends at place 3: its first hole is slot 9
    stripe B   |####|....                   ends at place 1: slot 4, the first hole of all. Up to there the loglet is filled
    stripe C   |####|####|....              ends at place 2: slot 8

A slot holds one whole batch: it is one entry of its stripe. **This departs from the paper**, which
stripes entries and has no batches. There the end of the log lies in the middle of batches, and a
seal would leave the first half of one in the log for good (docs/internals/protocols/striped.md). Offsets are
slot << 16 | index of the entry, as in other loglets with slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.batch import SessionId
from virtuallog.exactly_once.slot_offsets import INDEX_BITS, SLOT

__all__ = ["FILLER", "StripedLayout", "offset_of", "slot_of", "slots_below"]

FILLER: Final = b""
"""Entry of a stripe that is no batch; pads an idle stripe."""


def offset_of(slot: int) -> int:
    """Offset of the first entry in a slot."""
    return slot << INDEX_BITS


def slot_of(offset: int) -> int:
    """Slot in which an offset lies."""
    return offset >> INDEX_BITS


def slots_below(offset: int) -> int:
    """Number of slots that begin below an offset."""
    return -(-offset // SLOT)


@attrs.frozen
class StripedLayout:
    """Layout for a number of stripes."""

    stripes: int

    def stripe_of(self, session: SessionId) -> int:
        """Stripe to which a session appends, for all its life: its batches are kept in order only
        within a stripe.

        Session ids are random, so they spread over the stripes.
        """
        return int.from_bytes(session[:8]) % self.stripes

    def slot(self, stripe: int, place: int) -> int:
        return place * self.stripes + stripe

    def place(self, slot: int) -> tuple[int, int]:
        """(stripe, place in it) of a slot."""
        place, stripe = divmod(slot, self.stripes)
        return stripe, place

    def places_below(self, stripe: int, slot: int) -> int:
        """Number of places of a stripe before a slot."""
        return max(0, -((stripe - slot) // self.stripes))

    def first_hole(self, tails: Sequence[int]) -> int:
        """First slot that is not written, given the tails of all stripes."""
        return min(self.slot(stripe, tail) for stripe, tail in enumerate(tails))
