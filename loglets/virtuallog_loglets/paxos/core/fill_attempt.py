"""One attempt to have a range of positions decided, with one number.

It asks for the explicit promise. Of the answers of a quorum it passes on what is decided. Elsewhere it writes the value
with the highest number, or NOP. Then all replicas learn the whole range.

* A value is chosen once, when a quorum has promised: never two values for one position and number.
* A tombstone says that a position is decided; it is passed on, and never written as a value (defect 7 of docs/internals/sources.md).
* A decision in the answer to a write is right: it was made with a higher number, or the position is truncated.
* Repeated, late and missing answers do no harm.

Source: Mesos, src/log/consensus.cpp, FillProcess, which does one position at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Ignored, Rejected, Round, RoundOutcome
from virtuallog_loglets.paxos.messages import Learn, PaxosRecord, PaxosWrite, PaxosWritten, Promise, Promised

PIECE_BYTES: Final = 4 << 20
"""Cap on values in one request; a single larger value is allowed. Far below the cap of a frame."""

PROMISE_ROUND: Final = 0
"""Round of the promise; writes have the rounds from 1 on."""


@attrs.frozen
class FillSend:
    """Send `request` to all of the ensemble; give the answers to `answered` with the round."""

    request: Promise | PaxosWrite
    round: int


@attrs.frozen
class FillTeach:
    """Send the decided records to all of the ensemble, without waiting. Only `FillFinish` comes later."""

    request: Learn


@attrs.frozen
class FillFinish:
    """End of the attempt, always the last effect."""

    failure: Rejected | Ignored | None
    """Reason why it failed; None if everything is decided."""


FillEffect: TypeAlias = FillSend | FillTeach | FillFinish


@attrs.define(eq=False)
class FillAttempt:
    """Core of one attempt: takes answers, returns effects."""

    segment: SegmentId
    node: NodeId
    """The proposer."""
    ensemble: Ensemble
    proposal: int
    first: int
    stop: int
    crash_vector: CrashVector = attrs.field(factory=CrashVector)
    _rounds: list[Round] = attrs.field(factory=list, init=False)
    _decided: dict[int, PaxosRecord] = attrs.field(factory=dict, init=False)
    _chosen: dict[int, bytes] = attrs.field(factory=dict, init=False)
    _open: set[int] = attrs.field(factory=set, init=False)
    """Numbers of the rounds that are not over."""
    _is_over: bool = attrs.field(default=False, init=False)

    def begin(self) -> list[FillEffect]:
        promise = Promise(
            segment=self.segment, proposal=self.proposal, coordinator=self.node, first=self.first, stop=self.stop
        )
        return [self._open_round(promise)]

    def answered(self, number: int, node: NodeId, answer: Promised | PaxosWritten) -> list[FillEffect]:
        """Take a replica's answer to round `number`; its values have been checked."""
        if self._is_over or number not in self._open:
            return []
        assert isinstance(answer, Promised if number == PROMISE_ROUND else PaxosWritten)
        match self._count(number, node, answer):
            case Accepted(answers):
                self._open.remove(number)
                return self._choose(answers) if number == PROMISE_ROUND else self._written(answers)
            case Rejected() | Ignored() as failure:
                return self._finish(failure)
            case None:
                return []

    def _count(self, number: int, node: NodeId, answer: Promised | PaxosWritten) -> RoundOutcome | None:
        return self._rounds[number].count(node, answer)

    def _open_round(self, request: Promise | PaxosWrite) -> FillSend:
        number = len(self._rounds)
        self._rounds.append(Round(self.ensemble.quorum, self.crash_vector))
        self._open.add(number)
        return FillSend(request, number)

    def _choose(self, answers: Iterable[Promised | PaxosWritten]) -> list[FillEffect]:
        """Choose values, as a quorum has promised: no lower number decides anything else any more."""
        self._note(answers)
        highest: dict[int, PaxosRecord] = {}
        for record in self._records(answers):
            known = highest.get(record.position)
            if known is None or record.performed > known.performed:
                highest[record.position] = record
        assert not self._chosen, "a value is chosen once"
        for position in range(self.first, self.stop):
            if position not in self._decided:
                found = highest.get(position)
                self._chosen[position] = values.nop() if found is None else found.value
        return [self._open_round(request) for request in self._writes()] or self._teach()

    def _written(self, answers: Iterable[Promised | PaxosWritten]) -> list[FillEffect]:
        self._note(answers)
        return [] if self._open else self._teach()

    def _note(self, answers: Iterable[Promised | PaxosWritten]) -> None:
        for record in self._records(answers):
            if record.learned:
                self._decided.setdefault(record.position, record)

    def _records(self, answers: Iterable[Promised | PaxosWritten]) -> Iterator[PaxosRecord]:
        """Records that hold a value, at positions of this attempt; others are ignored."""
        for answer in answers:
            for record in answer.records:
                if self.first <= record.position < self.stop and record.value:
                    yield record

    def _writes(self) -> Iterator[PaxosWrite]:
        for run in _runs(self._chosen):
            for piece in _pieces(run, lambda position: len(self._chosen[position])):
                yield PaxosWrite(
                    segment=self.segment,
                    proposal=self.proposal,
                    coordinator=self.node,
                    first=piece[0],
                    values=tuple(self._chosen[position] for position in piece),
                )

    def _teach(self) -> list[FillEffect]:
        """Send all records to all replicas: one that has not accepted needs the values, perhaps the caller's own."""
        records = {position: self._as_decided(position) for position in range(self.first, self.stop)}
        taught: list[FillEffect] = [
            FillTeach(Learn(segment=self.segment, records=tuple(records[position] for position in piece)))
            for piece in _pieces(list(records), lambda position: len(records[position].value))
        ]
        return [*taught, *self._finish(None)]

    def _as_decided(self, position: int) -> PaxosRecord:
        known = self._decided.get(position)
        if known is not None:
            return known
        value, number = self._chosen[position], self.proposal
        return PaxosRecord(position=position, promised=number, performed=number, value=value, learned=True)

    def _finish(self, failure: Rejected | Ignored | None) -> list[FillEffect]:
        self._is_over = True
        return [FillFinish(failure)]


def _runs(positions: Iterable[int]) -> Iterator[list[int]]:
    """Runs of ascending positions, cut where one is missing."""
    for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
        yield [position for _, position in run]


def _pieces(positions: Iterable[int], size_of: Callable[[int], int]) -> Iterator[list[int]]:
    """Pieces of `positions` of at most `PIECE_BYTES` each."""
    piece, size = list[int](), 0
    for position in positions:
        if piece and size + size_of(position) > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(position)
        size += size_of(position)
    if piece:
        yield piece
