"""A client of the Paxos log in an exploration: its tail checks, one after the other.

A settling that a check asks for is taken for one that fails, so the check begins a new round; coordinators settle by themselves
(`tail` at a node).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.tail_check import (
    AskStandings,
    PaxosTailCheck,
    PaxosTailEffect,
    SettleThrough,
    TailEstablished,
)
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding, WaitLearned
from virtuallog_simulation.explorer.batches import SEGMENT
from virtuallog_simulation.explorer.local_states import Cell, Event, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.paxos.state import PaxosClientView
from virtuallog_simulation.explorer.paxos.texts import message_text


@attrs.define(eq=False)
class PaxosClientCell(Cell):
    """One client."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"ensemble"})

    node: int
    ensemble: Ensemble
    operations: int = 0
    check: PaxosTailCheck | None = None
    ticket: Event = ()
    """Event that began the check."""
    past: int = NOWHERE
    """Position that replicas are to have learned before they answer; NOWHERE if they answer at once."""
    asked: set[int] = attrs.field(factory=set)

    @property
    def name(self) -> int:
        return self.node

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        match event:
            case ("check", _, _):
                self.operations, self.ticket = self.operations + 1, event
                self.check = PaxosTailCheck(len(self.ensemble.members), self.ensemble.quorum)
                self._perform(self.check.begin(), sent, told)
            case ("repeat", server):
                sent.append(self._question(server))
            case ("waited",) if self.check is not None:
                self._perform(self.check.waited_long(), sent, told)
            case ("take", MessageInFlight() as message) if self.check is not None:
                if message.call[2] == self.check.round:
                    self.asked.discard(message.sender)
                self._perform(self.check.answer(NodeId(message.sender), message.body), sent, told)
            case _:
                raise TypeError(event)
        return sent, told

    def _perform(self, effects: Sequence[PaxosTailEffect], sent: list[Sent], told: list[Any]) -> None:
        check = self.check
        assert check is not None
        for effect in effects:
            match effect:
                case AskStandings(_, past):
                    self.past, self.asked = past, set(self.ensemble.members)
                    sent += [self._question(server) for server in self.ensemble.members]
                case SettleThrough():
                    self._perform(check.settled(), sent, told)
                case TailEstablished(tail):
                    told.append((self.ticket, tail))
                    self.check, self.ticket, self.past, self.asked = None, (), NOWHERE, set()

    def _question(self, server: int) -> Sent:
        waits = self.past != NOWHERE
        request = WaitLearned(segment=SEGMENT, past=self.past) if waits else GetStanding(segment=SEGMENT)
        call = ("check", self.operations, self.check.round if self.check is not None else 0)
        return Sent(server, call, request, f"{message_text(request)} #{call[1]}.{call[2]}")

    def view(self) -> PaxosClientView:
        """Part that moves and checks look at."""
        check = self.check
        if check is None:
            return PaxosClientView(self.node, 0, 0, False, frozenset())
        return PaxosClientView(self.node, self.operations, check.round, check.is_waiting, frozenset(self.asked))
