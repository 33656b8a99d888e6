"""Quorum count of the answers to one broadcast of a proposer: here an append, a promise or a fill is decided.

A round has three outcomes (docs/internals/protocols/paxos.md, "Proposers"): a quorum accepts, one replica refuses, or a quorum
does not vote. Until then it is undecided; a missing answer counts for nothing.

A vote counts only until any answer reports a newer store of its voter. The newer store does not know what the older
one has promised, and the votes of both together are not those of a quorum. Such news may come at any time before the
round is over, from any replica, in any round. So the rounds of a proposer share one `CrashVector`.

Source: Mesos, src/log/consensus.cpp; the crash vector is that of Michael et al., DISC 2017.
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
    """A quorum has accepted. `answers` are all acceptances up to the last one of that quorum."""

    answers: tuple[Vote, ...]


@attrs.frozen
class Rejected:
    """A replica has promised a higher number, or the same one, perhaps to an earlier copy of this request."""

    proposal: int
    coordinator: NodeId = NO_NODE


@attrs.frozen
class Ignored:
    """A quorum does not vote now; the same number may be tried again."""


RoundOutcome: TypeAlias = Accepted | Rejected | Ignored


@attrs.define
class CrashVector:
    """The newest known incarnation of each node's store."""

    _newest: dict[NodeId, int] = attrs.field(factory=dict)

    def hear(self, node: NodeId, incarnation: int, others: Iterable[Incarnation]) -> None:
        """Take in the incarnations that an answer of `node` carries."""
        newest = self._newest
        if incarnation > newest.get(node, -1):
            newest[node] = incarnation
        for other in others:
            if other.incarnation > newest.get(other.node, -1):
                newest[other.node] = other.incarnation

    def is_current(self, node: NodeId, incarnation: int) -> bool:
        """True if no newer store of `node` is known."""
        return incarnation >= self._newest.get(node, -1)


@attrs.define
class Round:
    """One broadcast and its votes. A repeated answer counts once."""

    _quorum: int
    _crash_vector: CrashVector
    _answers: dict[NodeId, Vote] = attrs.field(factory=dict)

    def count(self, node: NodeId, answer: Vote) -> RoundOutcome | None:
        """Take one answer and return the outcome; None while undecided. Later answers change no decision."""
        crash_vector = self._crash_vector
        crash_vector.hear(node, answer.incarnation, answer.incarnations)
        if crash_vector.is_current(node, answer.incarnation):
            if answer.verdict is Verdict.REJECT:
                return Rejected(answer.proposal, answer.coordinator)
            self._answers[node] = answer
        return self.outcome

    @property
    def outcome(self) -> RoundOutcome | None:
        """Outcome of the votes that still count; None while undecided.

        A vote of a superseded store is dropped.
        """
        votes = self._current()
        accepts = [answer for answer in votes if answer.verdict is Verdict.ACCEPT]
        if len(accepts) >= self._quorum:
            return Accepted(tuple(accepts))
        return Ignored() if len(votes) - len(accepts) >= self._quorum else None

    def has_accepted(self, node: NodeId) -> bool:
        """True if this node has accepted and its vote counts."""
        answer = self._answers.get(node)
        return (
            answer is not None
            and answer.verdict is Verdict.ACCEPT
            and self._crash_vector.is_current(node, answer.incarnation)
        )

    def _current(self) -> list[Vote]:
        is_current = self._crash_vector.is_current
        return [answer for node, answer in self._answers.items() if is_current(node, answer.incarnation)]
