"""Dissemination of a decision, to the members that made it and to those that decide next.

Both need it. A client that is behind asks the old members and must be sent on. The new members vote
only once they know the decision that names them. After this the old members may go, and one of
their majority is enough to find the way. See docs/internals/protocols/metastore.md, "Changing the members".
"""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.quorum import Tally
from virtuallog_metastore.core.rounds import Answer, Effect, Finish, Known, Outcome, Send, Unreachable
from virtuallog_metastore.messages import Decision, Learn, Learned


@attrs.define
class Dissemination:
    """A round that ends as Known or Unreachable."""

    decision: Decision
    former: tuple[NodeId, ...]
    """Members of the version before, as far as this client knows; may be empty."""
    _former: Tally = attrs.field(init=False)
    _next: Tally = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._former = Tally(self.former)
        self._next = Tally(self.decision.members)

    def start(self) -> list[Effect]:
        everybody = sorted({*self.former, *self.decision.members})
        return [Send(tuple(everybody), Learn(self.decision))]

    def step(self, node: NodeId, answer: Answer) -> list[Effect]:
        assert isinstance(answer, Learned)
        if answer.known >= self.decision.version:
            self._former.count(node)
            self._next.count(node)
        done = self._next.complete and (self._former.complete or not self.former)
        return [Finish(Known())] if done else []

    def exhausted(self) -> Outcome:
        """Finish without the former members: they may be gone for good, and must not hold up the
        others."""
        return Known() if self._next.complete else Unreachable()
