"""Recovery of a replica that does not vote: the conclusion from the answers to one round of `PaxosRecover`.

Its store may have replaced a lost one. Then it has forgotten promises and values that proposers counted. So it asks all
replicas, and adopts what a quorum of voting ones knows before it votes (docs/internals/protocols/paxos.md, "Recovery"):

    EMPTY ---------------------------------.
      | all are EMPTY or STARTING          |
    STARTING ------------------------------+--> RECOVERING --> VOTING      a quorum votes
      | all are STARTING or VOTING         |       (and again, from any of them, after a crash)
    VOTING <-------------------------------'

Rules:
* A quorum of voting answers takes precedence.
* Each replica whose answer counts has made the caller's incarnation durable before. A proposer that counted a vote of the
  lost store shares a replica with this quorum. Either it hears of the new store from that replica, or its promise and
  writes are covered by `promised` and `end` here.
* The left path is only for logs used by themselves, and only with `auto_initialize`. "All" means 2 * quorum - 1 replicas.

Source: Mesos, `src/log/recover.cpp`. Departures: `promised` and the incarnations are recovered as well (defect 2); answers
of a store that is known to be gone do not count; the replica's own state is known and not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import Incarnation, Incarnations, PaxosRecovered, Status


@attrs.frozen(kw_only=True)
class FollowQuorum:
    """A quorum votes: become RECOVERING, durably, and learn every position from `begin` through `end`.

    Only then become VOTING, in one write with `promised` and `incarnations`.
    """

    begin: int
    end: int
    promised: int
    incarnations: Incarnations
    """Newest store of each other node."""
    trim: int


@attrs.frozen(kw_only=True)
class BecomeStatus:
    """Take this status, durably, then ask again or vote. `promised` is adopted in the same write."""

    status: Status
    promised: int = 0
    incarnations: Incarnations = ()


RecoveryStep: TypeAlias = FollowQuorum | BecomeStatus


@attrs.define
class Recovery:
    """One round of answers; each round uses a new object."""

    node: NodeId
    own: PaxosRecovered
    """This replica's own answer, which counts as one of the answers."""
    quorum: int
    auto_initialize: bool = False
    _answers: dict[NodeId, PaxosRecovered] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        assert self.quorum >= 1
        self._answers[self.node] = self.own

    def answered(self, node: NodeId, answer: PaxosRecovered) -> None:
        """Take an answer. Of two answers of one node the one of the newer store counts."""
        former = self._answers.get(node)
        if node != self.node and (former is None or answer.incarnation >= former.incarnation):
            self._answers[node] = answer

    @property
    def next_step(self) -> RecoveryStep | None:
        """Step that follows from the answers so far; None if there is none yet.

        If all answers are in and there is none, ask again after a pause.
        """
        answers = self._current()
        voting = [answer for answer in answers.values() if answer.status is Status.VOTING]
        if len(voting) >= self.quorum:
            return self._follow(voting)
        if not self.auto_initialize:
            return None
        return self._initialized(answers.values(), voting)

    def _follow(self, voting: list[PaxosRecovered]) -> FollowQuorum:
        return FollowQuorum(
            begin=min(answer.begin for answer in voting),
            end=max(answer.end for answer in voting),
            promised=max(answer.promised for answer in voting),
            incarnations=self._incarnations(),
            trim=max(answer.trim for answer in voting),
        )

    def _initialized(self, answers: Iterable[PaxosRecovered], voting: list[PaxosRecovered]) -> BecomeStatus | None:
        """Step of auto-initialisation; None if some replica knows more.

        No replica has ever voted, or one has just begun to, by the same path.
        """
        statuses, all_replicas = [answer.status for answer in answers], 2 * self.quorum - 1
        if self.own.status is Status.EMPTY and _count(statuses, Status.EMPTY, Status.STARTING) >= all_replicas:
            return BecomeStatus(status=Status.STARTING)
        if self.own.status is Status.STARTING and _count(statuses, Status.STARTING, Status.VOTING) >= all_replicas:
            promised = max((answer.promised for answer in voting), default=0)
            return BecomeStatus(status=Status.VOTING, promised=promised, incarnations=self._incarnations())
        return None

    def _current(self) -> dict[NodeId, PaxosRecovered]:
        """Answers of stores that are not known to be gone."""
        newest = self._newest()
        return {node: answer for node, answer in self._answers.items() if answer.incarnation >= newest.get(node, 0)}

    def _incarnations(self) -> Incarnations:
        return tuple(
            Incarnation(node=node, incarnation=incarnation)
            for node, incarnation in sorted(self._newest().items())
            if node != self.node
        )

    def _newest(self) -> dict[NodeId, int]:
        newest: dict[NodeId, int] = {}
        for node, answer in self._answers.items():
            told = ((each.node, each.incarnation) for each in answer.incarnations)
            for subject, incarnation in ((node, answer.incarnation), *told):
                newest[subject] = max(newest.get(subject, incarnation), incarnation)
        return newest


def _count(statuses: Iterable[Status], *wanted: Status) -> int:
    return sum(status in wanted for status in statuses)
