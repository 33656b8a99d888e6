"""What the proposer's side of Paxos consists of: short conversations of one client with the members of a slot.   Pure.

A `Round` says what to send, is told each answer, and at some point what came of it. Requests that fail are not
mentioned to it; when no request is left under way and it has not finished, it is asked what it makes of that.
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
    """The votes of a majority were counted: decided, but perhaps nobody else knows it yet."""

    decision: Decision


@attrs.frozen
class Vacant:
    """A majority had accepted nothing: no `put` for this slot has returned."""


@attrs.frozen
class HalfAccepted:
    """Something was accepted, by too few to say whether it is decided."""

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
    """What the last one that failed said, for people."""


Outcome: TypeAlias = Found | Chosen | Vacant | HalfAccepted | Preempted | Known | Unreachable


@attrs.frozen
class Send:
    nodes: tuple[NodeId, ...]
    request: Request[Any]


@attrs.frozen
class Finish:
    """Always the last effect."""

    outcome: Outcome


Effect: TypeAlias = Send | Finish


class Round(Protocol):
    def start(self) -> list[Effect]: ...

    def step(self, node: NodeId, answer: Answer) -> list[Effect]:
        """Take one answer. Not called again after `Finish`."""
        ...

    def exhausted(self) -> Outcome:
        """Nothing is under way any more: all has been answered, or has failed."""
        ...


@attrs.define
class LaggingMembers:
    """Brings members that are behind to the decision their votes rest on: new ones start knowing nothing."""

    basis: Decision | None
    _taught: set[NodeId] = attrs.field(factory=set, init=False)

    def lag(self, answer: Standing | Receipt, slot: int) -> bool:
        """Whether `answer` says nothing about `slot`, because its sender does not vote there yet."""
        return answer.known < slot - 1

    def teach(self, node: NodeId) -> list[Effect]:
        """Once per round: a request that overtook the lesson must not start an endless exchange."""
        if self.basis is None or node in self._taught:
            return []
        self._taught.add(node)
        return [Send((node,), Learn(self.basis))]
