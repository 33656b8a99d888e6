"""check_tail: what the standings of a quorum say, and whom to ask next.                                            Pure.

    asking --all up to the cover is decided--> Open or Sealed
       |                                          ^
       '--some is not--> waiting for replicas to learn it --'--too long: have it settled, ask again

The *cover* is the highest position that may have been acknowledged before the check began: a quorum accepted it, so of the
m voting replicas that answered, out of n, at least m + q - n have it. What they show beyond may be in flight, and is nobody's
yet. A tail is told only if everything below is known to be decided:

* one replica has learned it; or
* a quorum accepted it with one number, and what lies below is learned. A number belongs to one value per position. (Who has
  learned a position with a hole below is of no such quorum: what others accepted there with that number may be another value.)

A SEAL among the decided positions is the end. No position is open because a seal *bit* is not set: what makes the order of
two reads matter elsewhere (docs/internals/protocols/loglet.md) cannot go wrong here, as the seal has a position of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from virtuallog.contract.types import NodeId, Open, Sealed, Tail
from virtuallog_loglets.paxos.messages import NOWHERE, Standing, Status
from virtuallog_loglets.paxos.offsets import offset_of


@attrs.frozen
class AskStandings:
    """Ask all replicas how they stand, again and again until each answers, or until another round begins."""

    round: int
    past: int = NOWHERE
    """Not at once: when they have learned this position, with everything below."""


@attrs.frozen
class SettleThrough:
    """Have everything through `past` decided, then `settled`."""

    past: int


@attrs.frozen
class TailEstablished:
    """The tail has been established."""

    tail: Tail


PaxosTailEffect: TypeAlias = AskStandings | SettleThrough | TailEstablished


@attrs.define(eq=False)
class PaxosTailCheck:
    """One check. Answers in, effects out."""

    replicas: int
    quorum: int
    round: int = attrs.field(default=0, init=False)
    is_waiting: bool = attrs.field(default=False, init=False)
    _standings: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    """The latest of each, all given after the check began. They only grow, so those of earlier rounds count."""
    _cover: int | None = attrs.field(default=None, init=False)

    def begin(self) -> list[PaxosTailEffect]:
        self.round += 1
        return [AskStandings(self.round)]

    def answer(self, node: NodeId, standing: Standing) -> list[PaxosTailEffect]:
        """A replica has said how it stands."""
        self._standings[node] = standing
        standings = newest_of(self._standings)
        cover = cover_of(standings, self.replicas, self.quorum)
        if cover is not None:
            self._cover = cover if self._cover is None else min(cover, self._cover)
        tail = established(list(standings.values()), self.quorum, self._cover)
        if tail is not None:
            return [TailEstablished(tail)]
        if self._cover is None or self.is_waiting:
            return []
        self.is_waiting = True
        self.round += 1
        return [AskStandings(self.round, past=self._cover)]

    def waited_long(self) -> list[PaxosTailEffect]:
        """Nobody tells the replicas what is decided: whoever led may be gone."""
        return [SettleThrough(self._cover)] if self.is_waiting and self._cover is not None else []

    def settled(self) -> list[PaxosTailEffect]:
        """What `SettleThrough` asked for has been tried."""
        self.is_waiting = False
        return self.begin()


def newest_of(standings: Mapping[NodeId, Standing]) -> dict[NodeId, Standing]:
    """Those that the newest store of their replica has given, as far as anybody knows: what a former one accepted is gone,
    and whoever infers a decision from it may be wrong."""
    newest: dict[NodeId, int] = {}
    for standing in standings.values():
        for known in standing.incarnations:
            newest[known.node] = max(known.incarnation, newest.get(known.node, known.incarnation))
    return {node: standing for node, standing in standings.items() if standing.incarnation >= newest.get(node, NOWHERE)}


def cover_of(standings: Mapping[NodeId, Standing], replicas: int, quorum: int) -> int | None:
    """The highest position that a quorum can have accepted before these were asked; None: too few of them vote."""
    ends = sorted((s.end for s in standings.values() if s.status is Status.VOTING), reverse=True)
    return ends[len(ends) + quorum - replicas - 1] if len(ends) >= quorum else None


def established(standings: Sequence[Standing], quorum: int, cover: int | None) -> Tail | None:
    """The tail; None: not yet, as far as these say.

    Sealed needs no cover: nothing is acknowledged behind a SEAL that is decided.
    """
    seals = [standing.seal for standing in standings if standing.seal != NOWHERE]
    if seals:
        return Sealed(offset_of(seals[0]))
    decided, seal = decided_to(standings, quorum)
    if seal != NOWHERE:
        return Sealed(offset_of(seal))
    if cover is None or decided < cover:
        # Position 0 holds no data of anybody. As long as it is all there is, the log is empty.
        return Open(0) if cover == 0 else None
    return Open(offset_of(decided + 1))


def decided_to(standings: Sequence[Standing], quorum: int) -> tuple[int, int]:
    """Everything through the first of the two is decided; the other one is the position of a SEAL among it, if it is new.

    None of the standings knows of a seal by itself.
    """
    learned = max((standing.learned for standing in standings), default=0)
    proposals = {s.uniform for s in standings if s.status is Status.VOTING and s.uniform != NOWHERE}
    for proposal in sorted(proposals, reverse=True):
        alike = [s for s in standings if _continues(s, proposal, learned)]
        if len(alike) < quorum:
            continue
        end = sorted((s.end for s in alike), reverse=True)[quorum - 1]
        seals = {s.seal_seen for s in alike if s.end >= end and (s.seal_seen == NOWHERE or s.seal_seen >= learned)}
        if not seals or end < learned:  # who has an undecided SEAL further down says nothing of those above
            continue
        inside = [seal for seal in seals if learned <= seal <= end]
        return (inside[0], inside[0]) if inside else (end, NOWHERE)
    return learned - 1, NOWHERE


def _continues(standing: Standing, proposal: int, learned: int) -> bool:
    """Whether it voted with `proposal` for everything from what is learned up to its end."""
    return standing.status is Status.VOTING and standing.uniform == proposal and standing.uniform_from <= learned
