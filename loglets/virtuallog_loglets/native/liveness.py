"""Which loglets a LogServer may still hold.                                                                        Pure.

What is dropped stays dropped, durably: a late message would create it again, empty, and its tail would be 0. That memory
is bounded: everything of a version below the `floor` is gone; and of those up to the `horizon`, a version of the chain,
only the `live` ones are not: those that the chain of that version names, so there are never more of them than segments.

The floor alone would do for a log that is trimmed. But a loglet in the middle may go while older ones stay (an empty one
leaves the chain when it is closed, a moved one is replaced), and ten thousand such would be kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from virtuallog.chain import SegmentId


@attrs.frozen
class Liveness:
    """See above."""

    floor: int = 0
    horizon: int = 0
    live: frozenset[SegmentId] = frozenset()

    def is_dropped(self, segment: SegmentId) -> bool:
        version = segment.version
        return version < self.floor or (version <= self.horizon and segment not in self.live)

    def raised(self, floor: int) -> Liveness:
        """Everything of a version below is dropped too."""
        if floor <= self.floor:
            return self
        return Liveness(floor, self.horizon, frozenset(s for s in self.live if s.version >= floor))

    def seen(self, horizon: int, live: Iterable[SegmentId]) -> Liveness:
        """The chain of version `horizon` names no others. An older chain than one seen before says nothing."""
        if horizon <= self.horizon:
            return self
        kept = frozenset(s for s in live if s.version <= horizon and not self.is_dropped(s))
        return Liveness(self.floor, horizon, kept)
