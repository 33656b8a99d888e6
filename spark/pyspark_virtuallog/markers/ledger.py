"""Ledger of markers: for every query the first one of each batch counts, in the order of batches.

    position   100        140        230        260        310
    marker     q batch 5  q batch 6  q batch 5  q batch 6  q batch 7
    counts     yes        yes        no         no         yes

A driver that was killed between its marker and Spark's checkpoint commits the batch once more after
the restart. A driver that was taken for dead may commit at any later time. Their markers change
nothing. So an append needs no condition, and its unknown outcome need not be settled. Every reader
comes to the same verdict, since this is a function of the log's prefix alone.

Each marker carries this function's value at a position up to which its writer had read
(`Checkpoint`). Between there and the marker's own position other markers may have been first.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import attrs

from pyspark_virtuallog.markers.marker import HEADS_MAX, Checkpoint, Head, PlacedMarker, QueryId
from virtuallog.contract.types import LogPosition


class Verdict(Enum):
    """Verdict of the log on a batch."""

    OPEN = "no marker of it or of a later one counts"
    COMMITTED = "its marker counts"
    SUPERSEDED = "a later batch of the query is committed"


@attrs.define
class Ledger:
    """The newest batch that counts, of each query, below a position."""

    position: LogPosition
    _heads: dict[QueryId, Head] = attrs.field(factory=dict)
    """Heads by query, the longest silent one first."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Ledger:
        """The ledger that the writer of a marker knew."""
        return cls(checkpoint.position, {head.query: head for head in checkpoint.heads})

    def verdict(self, query: QueryId, batch: int) -> Verdict:
        """Verdict of the log below `position` on a batch."""
        head = self._heads.get(query)
        if head is None or head.batch < batch:
            return Verdict.OPEN
        return Verdict.COMMITTED if head.batch == batch else Verdict.SUPERSEDED

    def play(self, found: PlacedMarker) -> bool:
        """Take in the next marker, at or behind `position`; returns True if it counts."""
        assert found.position >= self.position
        self.position = LogPosition(found.position + 1)
        query, batch = found.marker.query, found.marker.batch
        if batch is None:
            return True
        if self.verdict(query, batch) is not Verdict.OPEN:
            return False
        self._heads.pop(query, None)
        self._heads[query] = Head(query, batch, found.position)
        if len(self._heads) > HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        return True

    def play_to(self, markers: Iterable[PlacedMarker], position: LogPosition) -> None:
        """Take in all remaining markers below `position`, in order; those before this ledger's
        position are skipped."""
        for found in markers:
            if self.position <= found.position < position:
                self.play(found)
        self.position = max(self.position, position)

    def checkpoint(self) -> Checkpoint:
        """Checkpoint for a marker behind this ledger."""
        return Checkpoint(self.position, tuple(self._heads.values()))
