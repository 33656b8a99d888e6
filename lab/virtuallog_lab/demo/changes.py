"""Changes of the chain: the active loglet at each time, and the cost of each change for appenders.

The chain is polled all the time, so changes without a request are known as well: the cluster makes
them when a node dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import attrs

from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog_lab.workload.latencies import longest_pause

SETTLED_SECONDS: Final = 0.5
"""Behind a change; what comes later has a cause of its own."""


@attrs.frozen
class ActiveSegment:
    """A segment that takes appends, and since when: seconds since the start."""

    since: float
    segment: Segment


@attrs.frozen
class RequestedChange:
    """A change that the demo has asked for."""

    began: float
    ended: float
    """Time of the answer: the new chain is decided."""
    segment: SegmentId
    """Segment that it put in place."""


@attrs.frozen(kw_only=True)
class Change:
    """One loglet gave way to another."""

    source: Segment
    target: Segment
    began: float
    """Time of its request; without a request, the time at which the node was killed, or else at
    which the change was seen."""
    ended: float
    by_itself: bool
    """True if the cluster has healed itself, without a request."""
    gap_seconds: float
    """The longest stretch meanwhile in which nothing at all was acknowledged."""


@attrs.define
class ActiveSegments:
    """All of a run, in order."""

    seen: list[ActiveSegment] = attrs.field(factory=list)

    def see(self, at: float, chain: Chain) -> bool:
        """Record a chain; returns True if a new loglet takes appends. Changes of closed segments do
        not count, nor does an older chain."""
        if chain.active is None or (self.seen and chain.last.id.version <= self.seen[-1].segment.id.version):
            return False
        self.seen.append(ActiveSegment(at, chain.last))
        return True


def find_changes(
    reigns: Sequence[ActiveSegment], asked: Sequence[RequestedChange], faults: Sequence[float], times: Sequence[float]
) -> list[Change]:
    """Find the changes of a run.

    Args:
        reigns: at least one, in order.
        asked: what the demo did.
        faults: when nodes were killed.
        times: of all acknowledgements, ascending.
    """
    known = {one.segment: one for one in asked}
    changes = []
    for before, after in pairwise(reigns):
        ours = known.get(after.segment.id)
        began = (
            ours.began if ours else max((at for at in faults if before.since <= at <= after.since), default=after.since)
        )
        ended = ours.ended if ours else after.since
        pause = longest_pause(times, began, ended + SETTLED_SECONDS)
        changes.append(
            Change(
                source=before.segment, target=after.segment, began=began, ended=ended, by_itself=ours is None,
                gap_seconds=pause.seconds,
            )
        )  # fmt: skip
    return changes
