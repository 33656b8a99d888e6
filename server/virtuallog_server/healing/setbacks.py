"""What has become of earlier attempts to heal a segment, for the policy to do something else next.                  Pure.

A rebuild may fail for long: a source is down, a disk is full, or the newcomer has an old copy with a hole, which nobody can
fill. None of this may keep the other segments waiting. All of it is one node's memory, and gone when it starts again.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.chain import SegmentId
from virtuallog.errors import CorruptionError, VirtualLogError
from virtuallog.types import NodeId
from virtuallog_server.healing.policy import Extend, PlacedSegment, Rebuild


@attrs.define(eq=False)
class Setbacks:
    """Of one node. Knows of no more segments than the chain has."""

    _failures: dict[SegmentId, int] = attrs.field(factory=dict, init=False)
    _unfit: dict[SegmentId, frozenset[NodeId]] = attrs.field(factory=dict, init=False)

    def failed(self, decision: Extend | Rebuild, error: VirtualLogError, segments: Sequence[PlacedSegment]) -> None:
        """An attempt has failed. After a `CorruptionError` its newcomers are asked no more: which of them has the hole is
        not told."""
        placed = next((placed for placed in segments if placed.segment.id == decision.segment), None)
        if placed is None:
            return
        segment = decision.segment
        self._failures[segment] = self._failures.get(segment, 0) + 1
        if isinstance(decision, Rebuild) and isinstance(error, CorruptionError):
            newcomers = frozenset(decision.servers).difference(placed.placement.servers)
            self._unfit[segment] = self._unfit.get(segment, frozenset()) | newcomers

    def succeeded(self) -> None:
        """An attempt at any segment: the others have had a turn."""
        self._failures.clear()

    def mark(self, segments: Sequence[PlacedSegment]) -> Sequence[PlacedSegment]:
        """The segments, with what is known about them. What the chain has no more is forgotten."""
        ids = {placed.segment.id for placed in segments}
        self._failures = {segment: count for segment, count in self._failures.items() if segment in ids}
        self._unfit = {segment: nodes for segment, nodes in self._unfit.items() if segment in ids}
        if not self._failures and not self._unfit:
            return segments
        return [self._marked(placed) for placed in segments]

    def _marked(self, placed: PlacedSegment) -> PlacedSegment:
        segment = placed.segment.id
        return attrs.evolve(
            placed, failures=self._failures.get(segment, 0), unfit=self._unfit.get(segment, frozenset())
        )
