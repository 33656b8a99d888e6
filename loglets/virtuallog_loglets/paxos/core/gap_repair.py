"""What to do next about a position that the local replica has missed.                                              Pure.

In this order:
* somebody has truncated it: so do we;
* somebody has learned it: copy, as far as that one reaches;
* nobody is known to have: fill, which asks a quorum and finds out;
* a coordinator may have it in flight, that is, it is among the last `leave` positions that anybody knows of: a fill would turn the coordinator
  out. Ask those who may have learned it with a hole below; then leave it, and all above, to who leads.

Who is asked is known from standings, which are old as soon as they are here. That does no harm: what is learned stays so, what is
truncated as well, and whoever turns out not to have a position is passed over until he is heard of again.

Source: Mesos, `src/log/catchup.cpp`, where every position is filled one by one, also those that everybody else has learned.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import PaxosRecord, Standing

FILL_POSITIONS_MAX: Final = 16
"""Of one fill: each may come back from every replica of a quorum with a value of some MiB."""


@attrs.frozen
class DropGap:
    """Everything below `begin` was truncated: learn a tombstone, which says so."""

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
    """Knows what other replicas have."""

    leave: int = 0
    fills: bool = True
    _standings: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    _lacking: dict[NodeId, int] = attrs.field(factory=dict, init=False)
    """A position that this one could not give."""

    def heard(self, node: NodeId, standing: Standing) -> None:
        """Of another replica."""
        self._standings[node] = standing

    def lost(self, node: NodeId) -> None:
        """It does not answer: it is no source until it is heard of again."""
        self._standings.pop(node, None)

    def lacks(self, node: NodeId, position: int) -> None:
        """It was asked for the position and did not give it."""
        self._lacking[node] = position

    def looked_again(self) -> None:
        """Time has passed: whoever lacked something may have it now."""
        self._lacking.clear()

    def covers(self, stop: int) -> bool:
        """Whether one replica is known that has learned everything below `stop`, or truncated it."""
        return any(standing.learned >= stop for standing in self._standings.values())

    def next(self, gap: range, end: int) -> GapStep | None:
        """What to do about the lowest missing stretch; None: nothing, for now.

        Args:
            gap: positions that the local replica has not learned.
            end: the highest position that it knows of.
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
        """Who surely has `first`: the one that reaches furthest, rather not the one that leads, as that has enough to do."""
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
        """First position that is left alone. All below the window of a coordinator was decided before it went on."""
        if not self.fills:
            return 0
        highest = max([end, *(standing.end for standing in self._standings.values())])
        return min(stop, highest + 1 - self.leave) if self.leave else stop


def usable_untrusted(records: tuple[PaxosRecord, ...], first: int, stop: int) -> tuple[PaxosRecord, ...]:
    """The learned records at the front that follow one another from `first` on, below `stop`, and are whole."""
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
    """Says that everything below `begin` was truncated."""
    return PaxosRecord(position=begin - 1, promised=0, performed=0, value=values.TOMBSTONE, learned=True)
