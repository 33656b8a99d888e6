"""Choice of the next step for positions that the local replica has missed.

In this order:
* A replica has truncated the position: truncate as well.
* A replica has learned it: copy from there, as far as that replica reaches.
* No replica is known to have learned it: fill, which asks a quorum.
* A coordinator may have it in flight: it is among the last `leave` positions that any replica knows of. A fill would
  turn the coordinator out. Ask replicas that may have learned it above a hole, then leave it, and all above, to the leader.

Sources are chosen from standings, which are outdated on arrival. That does no harm: learned and truncated positions
stay so, and a replica that turns out not to have a position is passed over until it is heard of again.

Source: Mesos, `src/log/catchup.cpp`, which fills every position one by one, even those that all other replicas have learned.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import PaxosRecord, Standing

FILL_POSITIONS_MAX: Final = 16
"""Cap on positions of one fill: each may come back from every replica of a quorum with a value of some MiB."""


@attrs.frozen
class DropGap:
    """Learn a tombstone: everything below `begin` was truncated."""

    begin: int


@attrs.frozen
class CopyGap:
    """Read what `source` has learned of [first, stop), and learn it."""

    source: NodeId
    first: int
    stop: int


@attrs.frozen
class FillGap:
    """Have [first, stop) decided."""

    first: int
    stop: int


GapStep: TypeAlias = DropGap | CopyGap | FillGap


@attrs.define
class GapRepair:
    """Core of a catch-up: knows the standings of other replicas and picks the next step."""

    leave: int = 0
    """Positions at the end of the log that are not filled."""
    fills: bool = True
    """False if positions are only copied."""
    _standings: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    """Last known standings of other replicas."""
    _lacking: dict[NodeId, int] = attrs.field(factory=dict, init=False)
    """Position that a replica was asked for and did not give."""

    def heard(self, node: NodeId, standing: Standing) -> None:
        """Take in the standing of another replica."""
        self._standings[node] = standing

    def lost(self, node: NodeId) -> None:
        """Drop a replica that does not answer, until it is heard of again."""
        self._standings.pop(node, None)

    def lacks(self, node: NodeId, position: int) -> None:
        """Note that a replica was asked for the position and did not give it."""
        self._lacking[node] = position

    def looked_again(self) -> None:
        """Forget which positions replicas lacked: they may have them by now."""
        self._lacking.clear()

    def covers(self, stop: int) -> bool:
        """True if a replica is known that has learned or truncated everything below `stop`."""
        return any(standing.learned >= stop for standing in self._standings.values())

    def next(self, gap: range, end: int) -> GapStep | None:
        """Next step for the lowest missing positions; None if there is nothing to do for now.

        Args:
            gap: positions that the local replica has not learned.
            end: highest position that the local replica knows of.
        """
        assert gap
        first, stop = gap.start, gap.stop
        begin = max((standing.begin for standing in self._standings.values()), default=0)
        if begin > first:
            return DropGap(begin)
        if (source := self._learned_by(first, stop)) is not None:
            return CopyGap(source, first, stop)
        fillable = self._fillable(stop, end)
        if first < fillable:
            return FillGap(first, min(fillable, first + FILL_POSITIONS_MAX))
        source = self._perhaps_learned_by(first)
        return None if source is None else CopyGap(source, first, stop)

    def _learned_by(self, first: int, stop: int) -> NodeId | None:
        """Replica that surely has `first`, preferably the one that reaches furthest; None if there is none.

        The leader is chosen last among equals, as it has enough work.
        """
        sure = {node: standing for node, standing in self._askable(first).items() if standing.learned > first}
        return max(
            sure, key=lambda node: (min(sure[node].learned, stop), sure[node].coordinator != node, -node), default=None
        )

    def _perhaps_learned_by(self, position: int) -> NodeId | None:
        return min(
            (node for node, standing in self._askable(position).items() if standing.end >= position), default=None
        )

    def _askable(self, position: int) -> dict[NodeId, Standing]:
        return {node: each for node, each in self._standings.items() if self._lacking.get(node) != position}

    def _fillable(self, stop: int, end: int) -> int:
        """First position that must not be filled.

        All below the window of a coordinator was decided before it went on.
        """
        if not self.fills:
            return 0
        highest = max([end, *(standing.end for standing in self._standings.values())])
        return min(stop, highest + 1 - self.leave) if self.leave else stop


def usable_untrusted(records: tuple[PaxosRecord, ...], first: int, stop: int) -> tuple[PaxosRecord, ...]:
    """Leading records that are learned, intact and consecutive from `first` on, below `stop`."""
    usable: list[PaxosRecord] = []
    for record in records:
        if record.position != first + len(usable) or record.position >= stop or not record.learned:
            break
        try:
            values.check_untrusted(record.value)
        except (MalformedError, CorruptionError):
            break
        usable.append(record)
    return tuple(usable)


def tombstone(begin: int) -> PaxosRecord:
    """Record which says that everything below `begin` was truncated."""
    return PaxosRecord(position=begin - 1, promised=0, performed=0, value=values.TOMBSTONE, learned=True)
