"""History of the calls of clients at a group of replicas, and the promises that it must keep.

* An acknowledged batch is below every tail that is asked for later, and stays at its place.
* Tails never go back, and a sealed one never changes; nothing is acknowledged past it.
* Each batch is in the log at most once, those of a session in their order and without holes.
* A refusal is true: what was refused for good is not in the log, and the tail that it names was there.
"""

from __future__ import annotations

from typing import Any

import attrs

from tests.loglets.raft.core.group import Group
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import SealedError, TailMismatchError
from virtuallog_loglets.raft.messages import NOWHERE, LeaderReply


@attrs.define(eq=False)
class Call:
    """One call of a client; it has its own identity as a ticket."""

    kind: str
    node: int
    floor: int
    """Highest tail that was known to any client when it was asked."""
    seal: int
    """Tail of the sealed log, if a client knew it when it was asked; else NOWHERE."""
    payload: str = ""
    expected: int = -1
    outcome: Any = None
    is_over: bool = False

    @property
    def place(self) -> int:
        """Offset or tail of the answer; NOWHERE if it was no success."""
        return self.outcome.place if isinstance(self.outcome, LeaderReply) else NOWHERE


@attrs.define(eq=False)
class History:
    """Calls of all clients at one group, checked as their answers come."""

    group: Group
    open: list[Call] = attrs.field(factory=list)
    acknowledged: dict[str, int] = attrs.field(factory=dict)
    """Place of each batch that was acknowledged."""
    refused: set[str] = attrs.field(factory=set)
    floor: int = 0
    """Highest tail that any client knows: behind each batch that was acknowledged, and each tail that was told."""
    sealed: int = NOWHERE
    """The tail of the sealed log, once a client knows."""

    def ask(self, kind: str, node: int, payload: str = "", expected: int = -1) -> Call:
        """Note that a client calls."""
        call = Call(kind, node, self.floor, self.sealed, payload, expected)
        self.open.append(call)
        return call

    def listen(self) -> None:
        """Take in the answers that have come."""
        for at in self.group.nodes.values():
            answers, at.answers = at.answers, []
            for call, outcome in answers:
                if isinstance(call, Call):
                    assert not call.is_over, f"{call} is answered twice"
                    call.outcome, call.is_over = outcome, True
                    self._check(call)
        self.open = [call for call in self.open if not call.is_over]

    def lose(self, node: int) -> None:
        """Note that a process has ended: no call to it will be answered."""
        for call in self.open:
            call.is_over = call.is_over or call.node == node
        self.open = [call for call in self.open if not call.is_over]

    def _check(self, call: Call) -> None:
        if isinstance(call.outcome, TailMismatchError):
            assert call.outcome.expected == call.expected != call.outcome.found
            known = max(at.replica.state.tail for at in self.group.nodes.values())
            assert call.outcome.found <= known, f"{call} names a tail that was not there"
        if call.kind == "append" and (
            isinstance(call.outcome, TailMismatchError)
            or (isinstance(call.outcome, SealedError) and call.outcome.refused)
        ):
            self.refused.add(call.payload)
        if call.place == NOWHERE:
            return
        if call.kind == "append":
            assert self.acknowledged.setdefault(call.payload, call.place) == call.place, f"{call} has moved"
            assert call.expected in (-1, call.place), f"{call} met another tail"
            assert self.sealed == NOWHERE or call.place < self.sealed, f"{call} is past the seal"
            self.floor = max(self.floor, call.place + 1)
        elif call.kind in ("tail", "seal"):
            assert call.place >= call.floor, f"{call} goes back behind {call.floor}"
            assert call.seal in (NOWHERE, call.place), f"{call} is not the tail of the seal"
            assert call.seal == NOWHERE or call.outcome.sealed, f"{call} opens a sealed log"
            assert self.sealed == NOWHERE or call.place <= self.sealed, f"{call} is past the seal"
            self.floor = max(self.floor, call.place)
            if call.outcome.sealed:
                assert self.floor == call.place, f"{call} is below what was told"
                self.sealed = call.place

    def check_log(self) -> None:
        """Check the committed records against all answers, once all replicas know what is committed."""
        places: dict[str, int] = {}
        sessions: dict[SessionId, int] = {}
        for index in sorted(self.group.invariants.committed):
            record = self.group.invariants.parsed(index)
            for placed in record.placed():
                batch = placed.batch
                assert batch.first_sequence == sessions.get(batch.session, 0), "a session has a hole"
                sessions[batch.session] = batch.stop_sequence
                for number, entry in enumerate(batch.payloads):
                    assert entry.decode() not in places, f"{entry!r} is in the log twice"
                    places[entry.decode()] = placed.start + number
        assert sorted(places.values()) == list(range(len(places))), "offsets are not dense"
        for payload, place in self.acknowledged.items():
            assert places.get(payload) == place, (
                f"{payload} was acknowledged at {place}, and is at {places.get(payload)}"
            )
        assert not self.refused & places.keys(), "what was refused is in the log"
        assert self.sealed in (NOWHERE, len(places))
