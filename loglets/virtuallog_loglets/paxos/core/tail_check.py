"""The tail check: the tail that the standings of a quorum establish, and the next question.

    asking --all up to the cover is decided--> Open or Sealed
       |                                          ^
       '--some is not--> waiting for replicas to learn it --'--too long: have it settled, ask again

The *cover* is the highest position that may have been acknowledged before the check began. A quorum of q accepted it, so
of the m voting replicas that answered, out of n, at least m + q - n have it. Positions beyond may be in flight and are not
acknowledged. A tail is returned only if everything below is known to be decided:

* one replica has learned it; or
* a quorum accepted it with one number, and everything below is learned. A number belongs to one value per position. (A
  replica that has learned a position above a hole is in no such quorum: others may have accepted another value there
  with that number.)

A SEAL among the decided positions is the end. The seal has a position of its own and is no *bit* of a replica, so the
order of two reads, which matters for other loglets (docs/internals/protocols/loglet.md), does not matter here.
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
    """Ask all replicas for their standings, repeatedly until each answers or another round begins."""

    round: int
    past: int = NOWHERE
    """Replicas answer once they have learned this position and everything below; NOWHERE: at once."""


@attrs.frozen
class SettleThrough:
    """Have everything through `past` decided, then call `settled`."""

    past: int


@attrs.frozen
class TailEstablished:
    """End of the check: the tail is established."""

    tail: Tail


PaxosTailEffect: TypeAlias = AskStandings | SettleThrough | TailEstablished


@attrs.define(eq=False)
class PaxosTailCheck:
    """Core of one tail check: takes answers, returns effects."""

    replicas: int
    quorum: int
    round: int = attrs.field(default=0, init=False)
    is_waiting: bool = attrs.field(default=False, init=False)
    _standings: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    """Latest standing of each replica, all given after the check began. They only grow, so earlier rounds count."""
    _cover: int | None = attrs.field(default=None, init=False)

    def begin(self) -> list[PaxosTailEffect]:
        self.round += 1
        return [AskStandings(self.round)]

    def answer(self, node: NodeId, standing: Standing) -> list[PaxosTailEffect]:
        """Take the standing of a replica."""
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
        """Have the cover settled: replicas have not learned it in time, so the leader may be gone."""
        return [SettleThrough(self._cover)] if self.is_waiting and self._cover is not None else []

    def settled(self) -> list[PaxosTailEffect]:
        """Ask again: the settling that `SettleThrough` requested has been tried."""
        self.is_waiting = False
        return self.begin()


def newest_of(standings: Mapping[NodeId, Standing]) -> dict[NodeId, Standing]:
    """Standings of stores that are not known to be superseded.

    What a former store accepted is gone, so a decision inferred from it may be wrong.
    """
    newest: dict[NodeId, int] = {}
    for standing in standings.values():
        for known in standing.incarnations:
            newest[known.node] = max(known.incarnation, newest.get(known.node, known.incarnation))
    return {node: standing for node, standing in standings.items() if standing.incarnation >= newest.get(node, NOWHERE)}


def cover_of(standings: Mapping[NodeId, Standing], replicas: int, quorum: int) -> int | None:
    """Highest position that a quorum can have accepted before these replicas were asked; None if too few of them vote."""
    ends = sorted((s.end for s in standings.values() if s.status is Status.VOTING), reverse=True)
    return ends[len(ends) + quorum - replicas - 1] if len(ends) >= quorum else None


def established(standings: Sequence[Standing], quorum: int, cover: int | None) -> Tail | None:
    """Tail that these standings establish; None if they establish none yet.

    A sealed tail needs no cover: nothing is acknowledged behind a decided SEAL.
    """
    seals = [standing.seal for standing in standings if standing.seal != NOWHERE]
    if seals:
        return Sealed(offset_of(seals[0]))
    decided, seal = decided_to(standings, quorum)
    if seal != NOWHERE:
        return Sealed(offset_of(seal))
    if cover is None or decided < cover:
        # Position 0 holds no user data. As long as it is the only one, the log is empty.
        return Open(0) if cover == 0 else None
    return Open(offset_of(decided + 1))


def decided_to(standings: Sequence[Standing], quorum: int) -> tuple[int, int]:
    """(Position through which everything is decided, position of a new SEAL among it or NOWHERE).

    No standing may have a `seal` of its own.
    """
    learned = max((standing.learned for standing in standings), default=0)
    proposals = {s.uniform for s in standings if s.status is Status.VOTING and s.uniform != NOWHERE}
    for proposal in sorted(proposals, reverse=True):
        alike = [s for s in standings if _continues(s, proposal, learned)]
        if len(alike) < quorum:
            continue
        end = sorted((s.end for s in alike), reverse=True)[quorum - 1]
        seals = {s.seal_seen for s in alike if s.end >= end and (s.seal_seen == NOWHERE or s.seal_seen >= learned)}
        if not seals or end < learned:  # an undecided SEAL further down hides those above
            continue
        inside = [seal for seal in seals if learned <= seal <= end]
        return (inside[0], inside[0]) if inside else (end, NOWHERE)
    return learned - 1, NOWHERE


def _continues(standing: Standing, proposal: int, learned: int) -> bool:
    """True if the replica accepted everything from `learned` through its end with `proposal`."""
    return standing.status is Status.VOTING and standing.uniform == proposal and standing.uniform_from <= learned
