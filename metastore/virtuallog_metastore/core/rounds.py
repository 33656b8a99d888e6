"""Rounds: the building blocks of the proposer's side, short exchanges of one client with a slot's
members.

A `Round` returns messages to send, gets each answer, and at some point returns its outcome. Failed
requests are not reported to it. When no request is in flight and it has not finished, it must
decide (`exhausted`).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import attrs

from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_metastore.messages import Ballot, Decision, Learn, Learned, Receipt, Standing

Answer: TypeAlias = Standing | Receipt | Learned


@attrs.frozen
class Found:
    """A member knows this decision, of the slot in question or a later one."""

    decision: Decision


@attrs.frozen
class Chosen:
    """The votes of a majority were counted: decided, but perhaps no member knows it yet."""

    decision: Decision


@attrs.frozen
class Vacant:
    """A majority had accepted nothing: no `put` for this slot has returned."""


@attrs.frozen
class HalfAccepted:
    """A value was accepted by too few members to know if it is decided."""

    promised: Ballot
    """The highest ballot seen."""


@attrs.frozen
class Preempted:
    """A member has promised a higher ballot."""

    promised: Ballot


@attrs.frozen
class Known:
    """A majority of the next voters durably knows the decision."""


@attrs.frozen
class Unreachable:
    """No majority answered."""

    reason: str = ""
    """Message of the last failed request, for operators."""


Outcome: TypeAlias = Found | Chosen | Vacant | HalfAccepted | Preempted | Known | Unreachable


@attrs.frozen
class Send:
    nodes: tuple[NodeId, ...]
    request: Request[Any]


@attrs.frozen
class Finish:
    """The end of the round; always the last effect."""

    outcome: Outcome


Effect: TypeAlias = Send | Finish


class Round(Protocol):
    def start(self) -> list[Effect]: ...

    def step(self, node: NodeId, answer: Answer) -> list[Effect]:
        """Take one answer. Not called again after `Finish`."""
        ...

    def exhausted(self) -> Outcome:
        """Return the outcome: no request is in flight any more, each was answered or has failed."""
        ...


@attrs.define
class LaggingMembers:
    """Teaches members that are behind the decision their votes rest on: new ones start with none."""

    basis: Decision | None
    _taught: set[NodeId] = attrs.field(factory=set, init=False)

    def lag(self, answer: Standing | Receipt, slot: int) -> bool:
        """True if `answer` gives no information about `slot`, because its sender does not vote
        there yet."""
        return answer.known < slot - 1

    def teach(self, node: NodeId) -> list[Effect]:
        """Teach a member. Once per round: a request that overtook the lesson must not start an
        endless exchange."""
        if self.basis is None or node in self._taught:
            return []
        self._taught.add(node)
        return [Send((node,), Learn(self.basis))]
