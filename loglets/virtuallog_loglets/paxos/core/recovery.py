"""What a replica that does not vote makes of the answers to one round of `Recover`.                               Pure.

Its store may be a new one in the place of one that was lost: then it has forgotten promises and values that others counted. So it asks all
replicas, and takes over what a quorum of voting ones knows before it votes (docs/internals/protocols/paxos.md, "Recovery"):

    EMPTY ---------------------------------.
      | everybody is EMPTY or STARTING     |
    STARTING ------------------------------+--> RECOVERING --> VOTING      a quorum votes
      | everybody is STARTING or VOTING    |       (and again, from any of them, after a crash)
    VOTING <-------------------------------'

Rules:
* A quorum of voting answers goes before all else.
* Everybody whose answer counts has made the asker's incarnation durable before. Whoever counted a vote of the lost store and shares a
  replica with this quorum either hears of the new store, or what it was promised is below `promised` and `end` here.
* The left way is only for logs used by themselves, and only if asked for: `auto_initialize`. Everybody is 2 * quorum - 1 replicas.

Source: Mesos, `src/log/recover.cpp`. Departures: `promised` and the incarnations are recovered, too (defect 2); an answer of a store that is
known to be gone does not count; what the replica itself is, is known and not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import Incarnation, Incarnations, PaxosRecovered, Status


@attrs.frozen(kw_only=True)
class FollowQuorum:
    """A quorum votes. Become RECOVERING, durably; learn every position from `begin` through `end`; only then become VOTING, in one
    write with `promised` and `incarnations`."""

    begin: int
    end: int
    promised: int
    incarnations: Incarnations
    """The newest of each node, the own excepted."""
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
    """One round: a fresh object for each."""

    node: NodeId
    own: PaxosRecovered
    """What this replica would answer itself; it counts as one of the answers."""
    quorum: int
    auto_initialize: bool = False
    _answers: dict[NodeId, PaxosRecovered] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        assert self.quorum >= 1
        self._answers[self.node] = self.own

    def answered(self, node: NodeId, answer: PaxosRecovered) -> None:
        """What a replica said. Of two answers of one node the one of the newer store counts."""
        former = self._answers.get(node)
        if node != self.node and (former is None or answer.incarnation >= former.incarnation):
            self._answers[node] = answer

    @property
    def next_step(self) -> RecoveryStep | None:
        """What follows from the answers so far; None: nothing, yet. With all answers in: ask again, after a pause."""
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
        """Nobody has ever voted, or somebody just began to, by the same way."""
        statuses, everybody = [answer.status for answer in answers], 2 * self.quorum - 1
        if self.own.status is Status.EMPTY and _count(statuses, Status.EMPTY, Status.STARTING) >= everybody:
            return BecomeStatus(status=Status.STARTING)
        if self.own.status is Status.STARTING and _count(statuses, Status.STARTING, Status.VOTING) >= everybody:
            promised = max((answer.promised for answer in voting), default=0)
            return BecomeStatus(status=Status.VOTING, promised=promised, incarnations=self._incarnations())
        return None

    def _current(self) -> dict[NodeId, PaxosRecovered]:
        """Answers of stores of which nobody has heard that they are gone."""
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
