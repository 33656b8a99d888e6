"""When a kind of action may be taken: one at a time, not too often, and after a failure not at once.                Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.core.policy import Extend, PlacedSegment, Rebuild

# FOLDED from virtuallog_server.healing.setbacks: What has become of earlier attempts to heal a segment, for the policy to do something else next.                  Pure.
#
# A rebuild may fail for long: a source is down, a disk is full, or the newcomer has an old copy with a hole, which nobody can
# fill. None of this may keep the other segments waiting. All of it is one node's memory, and gone when it starts again.


@attrs.define(eq=False)
class RepairHistory:
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


BACKOFF_SECONDS: Final = (0.5, 8.0)
"""After a failure: first and longest pause. What is missing, a majority or a disk, comes back in its own time."""


@attrs.define(kw_only=True)
class ActionBackoff:
    """Urgent actions have one of their own, so that they never wait for a rebuild, or for the calm after one."""

    calm_seconds: tuple[float, float]
    """After a success: first and longest pause. Doubles until all has been well once."""
    acting: bool = False
    problem: str = ""
    """What came of the last action, if it failed."""
    _not_before: float = 0.0
    _successes: int = 0
    _failures: int = 0

    def is_free(self, now: float) -> bool:
        return not self.acting and now >= self._not_before

    def begin(self) -> None:
        assert not self.acting
        self.acting = True

    def succeeded(self, now: float) -> None:
        self.acting, self.problem, self._failures = False, "", 0
        self._not_before = now + _doubled(self.calm_seconds, self._successes)
        self._successes += 1

    def failed(self, problem: str, now: float) -> None:
        self.acting, self.problem = False, problem
        self._not_before = now + _doubled(BACKOFF_SECONDS, self._failures)
        self._failures += 1

    def all_is_well(self) -> None:
        """Nothing is left to do."""
        self.problem, self._successes, self._failures = "", 0, 0


def _doubled(seconds: tuple[float, float], times: int) -> float:
    first, longest = seconds
    return min(longest, first * 2.0 ** min(times, 16))
