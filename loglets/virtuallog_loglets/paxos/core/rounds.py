"""Counts the answers to one broadcast of a proposer.                                                              Pure.

Three outcomes (docs/internals/protocols/paxos.md, "Proposers"): a quorum that accepts, one that refuses, a quorum that does not vote.
Until then the round is undecided, and no answer is no answer.

A vote counts only as long as nobody has said that its voter has a newer store: the newer one does not know what the older
one has promised, and the votes of both together are not those of a quorum. That may come out at any time before the round is over,
from anybody, in any round; so the rounds of a proposer share one `CrashVector`.

Source: Mesos, src/log/consensus.cpp; the roll is the crash vector of Michael et al., DISC 2017.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import NO_NODE, Incarnation, PaxosWritten, Promised, Verdict

Vote: TypeAlias = Promised | PaxosWritten


@attrs.frozen
class Accepted:
    """A quorum has; these are its answers, and those that came before its last one."""

    answers: tuple[Vote, ...]


@attrs.frozen
class Rejected:
    """A higher number is in the way, or the same one: it may have been promised to an earlier copy of our own request."""

    proposal: int
    coordinator: NodeId = NO_NODE


@attrs.frozen
class Ignored:
    """A quorum does not vote now. The same number may be tried again."""


RoundOutcome: TypeAlias = Accepted | Rejected | Ignored


@attrs.define
class CrashVector:
    """The newest store of each node that anybody has told of."""

    _newest: dict[NodeId, int] = attrs.field(factory=dict)

    def hear(self, node: NodeId, incarnation: int, others: Iterable[Incarnation]) -> None:
        newest = self._newest
        if incarnation > newest.get(node, -1):
            newest[node] = incarnation
        for other in others:
            if other.incarnation > newest.get(other.node, -1):
                newest[other.node] = other.incarnation

    def is_current(self, node: NodeId, incarnation: int) -> bool:
        return incarnation >= self._newest.get(node, -1)


@attrs.define
class Round:
    """One broadcast. An answer that comes twice counts once."""

    _quorum: int
    _roll: CrashVector
    _answers: dict[NodeId, Vote] = attrs.field(factory=dict)

    def count(self, node: NodeId, answer: Vote) -> RoundOutcome | None:
        """Take one answer; the outcome, once there is one. What comes later changes nothing that was decided."""
        roll = self._roll
        roll.hear(node, answer.incarnation, answer.incarnations)
        if roll.is_current(node, answer.incarnation):
            if answer.verdict is Verdict.REJECT:
                return Rejected(answer.proposal, answer.coordinator)
            self._answers[node] = answer
        return self.outcome

    @property
    def outcome(self) -> RoundOutcome | None:
        """As of now. A store that has been outlived since takes its vote with it."""
        votes = self._current()
        accepts = [answer for answer in votes if answer.verdict is Verdict.ACCEPT]
        if len(accepts) >= self._quorum:
            return Accepted(tuple(accepts))
        return Ignored() if len(votes) - len(accepts) >= self._quorum else None

    def has_accepted(self, node: NodeId) -> bool:
        """Whether the vote of this node counts."""
        answer = self._answers.get(node)
        return (
            answer is not None and answer.verdict is Verdict.ACCEPT and self._roll.is_current(node, answer.incarnation)
        )

    def _current(self) -> list[Vote]:
        is_current = self._roll.is_current
        return [answer for node, answer in self._answers.items() if is_current(node, answer.incarnation)]
