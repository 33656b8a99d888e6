"""Settles the batches in flight of a session whose loglet is sealed: which of them it holds, and where.

The rules are in `virtuallog/exactly_once/append_session.py`. A batch that is sent again to a living loglet is settled by that
loglet (`virtuallog/exactly_once/session_table.py`).
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.client.address_space import AddressSpace
from virtuallog.client.appender_state import AppenderState
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import GapKind, LogPosition, PlacedBatch

SETTLE_READ_BYTES: Final = 4 << 20
"""Size of one read while a sealed range is searched."""

_FOUND = CrashPoint("appender: the successor of a sealed loglet is known, its range is not searched")
_SEARCHED = CrashPoint("appender: a sealed range is searched, nothing is sent to its successor")


class UnsettledError(VirtualLogError):
    """A part of the range that has to be searched was trimmed, so the outcome of the batches is unknown."""


@attrs.frozen(eq=False)
class Settlement:
    """Search of sealed ranges for batches of one appender."""

    _state: AppenderState
    _space: AddressSpace

    async def run(self) -> None:
        """Acknowledge the batches in flight that the sealed segment holds, and leave the segment.

        Raises:
            UnsettledError: a part of the range is gone.
            UnavailableError: no successor, or the range cannot be read; may be called again.
        """
        state = self._state
        assert state.segment is not None
        left = state.segment
        chain = (await self._space.successors.after(left.id, failed=state.asked_for_successor)).chain
        state.asked_for_successor = False
        _FOUND.reached()
        mine = await self._search(left, chain) if state.session.has_unknown_outcomes else []
        _SEARCHED.reached()
        # Before any caller gets an outcome: one that posts again at once must not get into the old segment.
        state.segment = None
        for flight, placed in state.session.settle(mine):
            state.deliver(flight, placed.places, 0)

    async def _search(self, left: Segment, chain: Chain) -> list[PlacedBatch]:
        """Batches of the session in what the chain kept of the segment `left`.

        Raises:
            UnsettledError: a part of the range is gone.
        """
        closed = chain.find(left.id)
        start, stop = self._state.floor, closed.stop if closed is not None else None
        if stop is None:  # the segment was dropped or replaced: all its entries lie below the tail
            stop = LogPosition((await self._space.check_tail()).tail)
        mine = []
        while start < stop:
            for placed in await self._space.read(start, stop, SETTLE_READ_BYTES):
                start = LogPosition(placed.stop)
                if isinstance(placed, PlacedBatch):
                    if placed.batch.session == self._state.session.id:
                        mine.append(placed)
                elif placed.kind is not GapKind.FILLER:
                    raise UnsettledError(f"{placed.kind.value} before it was searched")
        return mine
