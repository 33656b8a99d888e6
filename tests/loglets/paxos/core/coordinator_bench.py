"""A coordinator core under test: its effects are collected, its replicas answered by hand."""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError, encode
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.coordinator import Coordinator
from virtuallog_loglets.paxos.core.effects import CoordinatorEffect, PaxosResolve, PaxosSend
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    Incarnations,
    PaxosRecord,
    PaxosWrite,
    PaxosWritten,
    Promised,
    Standing,
    Status,
    Verdict,
)

SEGMENT = SegmentId(1, 7)


A, B, C = NodeId(1), NodeId(2), NodeId(3)


ALL = (A, B, C)


SESSION, OTHER = b"session.........", b"another.session."


def batch_of(first_sequence: int = 0, count: int = 1, session: bytes = SESSION, text: bytes = b"x") -> Batch:
    return Batch.build(SessionId(session), first_sequence, [text] * count)


def promised(end: int = 0, verdict: Verdict = Verdict.ACCEPT, proposal: int = 1, known_leader: NodeId = B) -> Promised:
    return Promised(
        verdict=verdict,
        proposal=proposal,
        end=end,
        records=(),
        incarnation=1,
        incarnations=(),
        coordinator=known_leader,
    )


def written(
    verdict: Verdict = Verdict.ACCEPT,
    proposal: int = 1,
    records: tuple[PaxosRecord, ...] = (),
    told: Incarnations = (),
    *,
    has_waiters: bool = False,
) -> PaxosWritten:
    return PaxosWritten(
        verdict=verdict, proposal=proposal, end=0, records=records, incarnation=1, incarnations=told, coordinator=B,
        has_waiters=has_waiters,
    )  # fmt: skip


def standing(promise: int = 1, end: int = 0, status: Status = Status.VOTING) -> Standing:
    return Standing(
        status=status, incarnation=1, promised=promise, begin=0, learned=0, end=end, uniform_from=0, uniform=0,
        coordinator=C,
    )  # fmt: skip


@attrs.define
class Bench:
    """A coordinator of three replicas, and what it has asked for so far."""

    core: Coordinator = attrs.field(
        factory=lambda: Coordinator(SEGMENT, A, Ensemble(members=ALL, quorum=2)),
    )
    writes: list[PaxosWrite] = attrs.field(factory=list)
    round: int = 0
    """Round of the last request that was sent."""
    outcomes: dict[object, Any] = attrs.field(factory=dict)
    log: list[CoordinatorEffect] = attrs.field(factory=list)
    """Everything, in order."""
    now: int = 0

    @classmethod
    def leading(cls, end: int = 0, digest: PositionDigest | None = None) -> Bench:
        """Elected with number 1 by A and B; `end` is decided."""
        bench = cls()
        bench.run(bench.core.elect(0))
        bench.run(bench.core.promised(A, bench.round, promised(end)))
        bench.run(bench.core.promised(B, bench.round, promised(0)))
        bench.run(bench.core.caught_up(digest or PositionDigest(end + 1), 0))
        bench.log.clear()
        return bench

    def run(self, effects: list[CoordinatorEffect]) -> list[CoordinatorEffect]:
        for effect in effects:
            match effect:
                case PaxosSend(nodes, PaxosWrite() as write, number):
                    self.round = number
                    if nodes == ALL:
                        self.writes.append(write)
                case PaxosSend(_, _, number):
                    self.round = number
                case PaxosResolve(ticket, outcome):
                    assert ticket not in self.outcomes
                    self.outcomes[ticket] = outcome
                case _:
                    pass
        self.log += effects
        return effects

    def offer(
        self, ticket: object, batch: Batch, *, opens: bool = True, expected: int = NOWHERE, turns: bool = True
    ) -> None:
        self.run(self.core.offer(batch, ticket, self.now, opens=opens, expected_tail=expected))
        if turns:
            self.turn()

    @property
    def told(self) -> dict[object, Any]:
        """The outcomes, with errors as they travel: two of the same class and fields are not equal as objects."""
        return {ticket: _plain(outcome) for ticket, outcome in self.outcomes.items()}

    def may_hurry(self) -> bool:
        return self.core.may_hurry

    def needs_ticks(self) -> bool:
        return self.core.needs_ticks

    def turn(self) -> None:
        self.run(self.core.turn(self.now, 1000 + self.now))

    def accept(self, *nodes: NodeId) -> None:
        """These accept what is in flight."""
        number = self.round
        for node in nodes or (A, C):
            self.run(self.core.written(node, number, written()))

    def confirm(self) -> None:
        """Have a quorum confirm the lead; the last request must be that question."""
        number = self.round
        for node in (A, C):
            self.run(self.core.confirmed(node, number, standing()))

    def commit(self) -> None:
        """Have a quorum accept the write, then write what waits."""
        self.accept()
        self.turn()


def _plain(outcome: object) -> object:
    return encode(outcome) if isinstance(outcome, VirtualLogError) else outcome
