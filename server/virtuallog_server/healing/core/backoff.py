"""Backoff of repairs, and the history of failed ones.

Actions of a kind run one at a time, not too often, and not at once after a failure.

A rebuild may fail for long: a source is down, a disk is full, or the newcomer has an old copy with a hole, which cannot be
filled. Such a segment must not block the others, so the policy sees earlier attempts and decides otherwise next time. All of
this is in the memory of one node, and gone when it starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.core.healing_policy import Extend, PlacedSegment, Rebuild


@attrs.define(eq=False)
class RepairHistory:
    """Failed repairs that one node has tried, for segments of the present chain."""

    _failures: dict[SegmentId, int] = attrs.field(factory=dict, init=False)
    _unfit: dict[SegmentId, frozenset[NodeId]] = attrs.field(factory=dict, init=False)

    def failed(self, decision: Extend | Rebuild, error: VirtualLogError, segments: Sequence[PlacedSegment]) -> None:
        """Count a failed attempt. After a `CorruptionError` its newcomers are not used again: the error does not say which of them has
        the hole.
        """
        placed = next((placed for placed in segments if placed.segment.id == decision.segment), None)
        if placed is None:
            return
        segment = decision.segment
        self._failures[segment] = self._failures.get(segment, 0) + 1
        if isinstance(decision, Rebuild) and isinstance(error, CorruptionError):
            newcomers = frozenset(decision.servers).difference(placed.placement.servers)
            self._unfit[segment] = self._unfit.get(segment, frozenset()) | newcomers

    def succeeded(self) -> None:
        """Forget the failures, after a success with any segment: the others have had a turn."""
        self._failures.clear()

    def mark(self, segments: Sequence[PlacedSegment]) -> Sequence[PlacedSegment]:
        """The segments, with their known failures. Segments that left the chain are forgotten."""
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
"""Pause after a failure: first and longest. A missing majority or disk comes back in its own time."""


@attrs.define(kw_only=True)
class ActionBackoff:
    """The backoff of one kind of action. Urgent actions have their own, so that they never wait for a rebuild, or for the calm
    after one.
    """

    calm_seconds: tuple[float, float]
    """Pause after a success: first and longest. It doubles until all has been well once."""
    acting: bool = False
    problem: str = ""
    """Error of the last action. Empty if it succeeded."""
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
        """Reset the pause: nothing is left to do."""
        self.problem, self._successes, self._failures = "", 0, 0


def _doubled(seconds: tuple[float, float], times: int) -> float:
    first, longest = seconds
    return min(longest, first * 2.0 ** min(times, 16))
