"""Tombstones of dropped loglets, for kinds whose loglets are copies on nodes. A dropped loglet is never created again."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from virtuallog.contract.chain import SegmentId


@attrs.frozen
class VersionFloor:
    """Loglets of versions below this one are dropped and never created again."""

    lowest_live_version: int


@attrs.frozen
class LiveLogletSet:
    """Loglets that stay: all others of versions up to `horizon` are dropped."""

    horizon: int
    segments: tuple[SegmentId, ...]


@attrs.frozen
class Tombstones:
    """Tombstones of dropped loglets: a floor version, and the live set at a horizon.

    A dropped loglet stays dropped, durably. Otherwise a late message would create it again, empty,
    with tail 0. The memory is bounded: everything of a version below `floor` is dropped. Of the
    versions up to `horizon`, a version of the chain, everything is dropped except `live`: the
    loglets that the chain of that version names. So there are never more of them than segments.

    The floor alone would do for a log that is trimmed. But a loglet in the middle may go while
    older ones stay: an empty one leaves the chain when it is closed, a moved one is replaced. Ten
    thousand such loglets would be kept.
    """

    floor: int = 0
    horizon: int = 0
    live: frozenset[SegmentId] = frozenset()

    def is_dropped(self, segment: SegmentId) -> bool:
        version = segment.version
        return version < self.floor or (version <= self.horizon and segment not in self.live)

    def raised(self, floor: int) -> Tombstones:
        """Tombstones that also drop everything of a version below `floor`."""
        if floor <= self.floor:
            return self
        return Tombstones(floor, self.horizon, frozenset(s for s in self.live if s.version >= floor))

    def seen(self, horizon: int, live: Iterable[SegmentId]) -> Tombstones:
        """Tombstones after the chain of version `horizon`, which names only `live`.

        An older chain than one seen before changes nothing.
        """
        if horizon <= self.horizon:
            return self
        kept = frozenset(s for s in live if s.version <= horizon and not self.is_dropped(s))
        return Tombstones(self.floor, horizon, kept)


def tombstones_after(tombstones: Tombstones, change: object) -> Tombstones:
    """Tombstones once `change` is made."""
    match change:
        case VersionFloor(version):
            return tombstones.raised(version)
        case LiveLogletSet(horizon, segments):
            return tombstones.seen(horizon, segments)
        case _:
            return tombstones
