"""A sequencer core under test: its effects are collected, its log servers answered by hand."""

from __future__ import annotations

from typing import Any

import attrs

from tests.loglets.native.core.log_server_bench import SEGMENT, batch_of, config_of, stored_of
from virtuallog.contract.batch import Batch
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.core.sequencer import Effect, NativeResolve, NativeSend, Sequencer
from virtuallog_loglets.native.messages import NO_EXPECTATION

S1, S2, S3 = NodeId(1), NodeId(2), NodeId(3)


@attrs.define
class Bench:
    """A sequencer of three servers, and what it has asked for so far."""

    core: Sequencer = attrs.field(factory=lambda: Sequencer(SEGMENT, config_of(3)))
    sends: dict[NodeId, list[tuple[int, int]]] = attrs.field(factory=dict)
    """(first, known tail) of each wave sent to a server."""
    runs: dict[NodeId, int] = attrs.field(factory=dict)
    outcomes: dict[object, Any] = attrs.field(factory=dict)
    others: list[Effect] = attrs.field(factory=list)
    now: int = 0

    def offer(self, ticket: object, batch: Batch, *, opens: bool = False, expected: int = NO_EXPECTATION) -> None:
        self.run(self.core.offer(batch, ticket, self.now, opens=opens, expected_tail=expected))

    def append(self, count: int, first_sequence: int = 0, session: bytes = b"session.........") -> None:
        """Offer a batch under its sequence number as a ticket, and make a wave of it."""
        self.offer((session, first_sequence), batch_of(count, first_sequence, session), opens=first_sequence == 0)
        self.turn()

    def has_work(self) -> bool:
        return self.core.has_work

    def turn(self) -> None:
        self.run(self.core.turn(self.now))

    def ack(self, server: NodeId, tail: int) -> None:
        self.run(self.core.stored(server, self.runs.get(server, 0), stored_of(tail)))

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case NativeSend(wave, known_tail, receivers):
                    for server, run in receivers:
                        self.sends.setdefault(server, []).append((wave.first, known_tail))
                        self.runs[server] = run
                case NativeResolve(ticket, outcome):
                    assert ticket not in self.outcomes
                    self.outcomes[ticket] = outcome
                case _:
                    self.others.append(effect)
