"""A model of stores that are lost: the rules of replica, recovery and proposer alone, with messages in a bag.

Any message may be late, lost or doubled; any replica may lose its store at any time, and more than one. What is shown is safety: for one
position no two values are ever counted as decided, and none is learned that is not. Each fix of a defect can be taken out, and then
chance alone finds what it is good for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import PaxosAnswer
from virtuallog_loglets.paxos.core.recovery import FollowQuorum, Recovery
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Round
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    NOWHERE,
    Decided,
    Learn,
    PaxosRecord,
    PaxosRecover,
    PaxosRecovered,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Status,
)

SEGMENT: Final = SegmentId(1, 1)


@attrs.frozen
class Fixes:
    """Rules that the model follows; all of them by default."""

    recovers_promise: bool = True
    drops_former_votes: bool = True
    recovers_incarnations: bool = True
    learns_all: bool = True
    """Before it votes, a replica knows every position that the quorum knew of."""


class TwoValuesError(Exception):
    """The violation."""


@attrs.define(eq=False)
class Leader:
    """Was elected with `proposal`, and believes it for ever."""

    proposal: int
    position: int
    """Position of the next write."""


@attrs.define(eq=False)
class Model:
    """Everything there is, and the choices of chance."""

    random: random.Random
    fixes: Fixes
    quorum: int = 2
    replicas: dict[NodeId, Replica] = attrs.field(factory=dict)
    bag: list[Callable[[], None]] = attrs.field(factory=list)
    decided: dict[int, bytes] = attrs.field(factory=dict)
    """Votes that proposers counted."""
    stores: int = 0
    values: int = 0
    leaders: list[Leader] = attrs.field(factory=list)
    """All that were ever elected."""
    following: dict[NodeId, FollowQuorum] = attrs.field(factory=dict)
    recoveries: int = 0

    def __attrs_post_init__(self) -> None:
        for node in map(NodeId, range(1, 2 * self.quorum)):
            self.replicas[node] = self._store(node, Status.VOTING)
            self._handle(node, Learn(segment=SEGMENT, records=(learned(0, values.nop()),)))

    # -- what may happen ----------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Let `steps` random events happen."""
        for _ in range(steps):
            if self.bag and self.random.random() < 0.85:
                self._deliver()
            else:
                self._begin()

    def _deliver(self) -> None:
        """Often one of the newest, so that rounds end; else any, so that some take long."""
        oldest = max(0, len(self.bag) - 6) if self.random.random() < 0.7 else 0
        at = self.random.randrange(oldest, len(self.bag))
        message = self.bag[at]
        if self.random.random() < 0.98:  # the rest arrives once more
            del self.bag[at]
        if self.random.random() < 0.95:
            message()

    def _begin(self) -> None:
        silent = [node for node, replica in self.replicas.items() if replica.status is not Status.VOTING]
        if silent and self.random.random() < 0.6:
            self.recover(self.random.choice(silent))
            return
        node, chance = self.random.choice(list(self.replicas)), self.random.random()
        if chance < 0.4 and self.leaders:
            self.append(self.random.choice(self.leaders[-3:]))
        elif chance < 0.7:
            self.stand(node)
        elif chance < 0.8:
            self.fill(node, self.random.randrange(1, self.replicas[node].end + 2))
        elif len(silent) < self.quorum - 1 or chance < 0.81:  # with more losses no replica recovers
            self.lose(node)

    def lose(self, node: NodeId) -> None:
        """The store of a replica, and all that it knew."""
        self.replicas[node] = self._store(node, Status.EMPTY)
        self.following.pop(node, None)

    # -- proposers ----------------------------------------------------------------------------------------------------

    def stand(self, node: NodeId, proposal: int | None = None) -> None:
        """For election; who is elected writes behind all that there is, some time."""
        number = self.replicas[node].promised + 1 if proposal is None else proposal

        def elected(answers: Sequence[Any]) -> None:
            self.leaders.append(Leader(number, max(answer.end for answer in answers) + 1))

        self._round(Promise(segment=SEGMENT, proposal=number, coordinator=node), elected)

    def append(self, leader: Leader) -> None:
        """Write one more value. The proposer goes on in any case, as it has heard nothing."""
        self.values += 1
        self.write(leader.proposal, leader.position, values.append(b"value %d" % self.values, 0))
        leader.position += 1

    def fill(self, node: NodeId, position: int, proposal: int | None = None) -> None:
        """Write the value that was accepted with the highest number, or a NOP."""
        number = self.replicas[node].promised + self.random.randrange(1, 4) if proposal is None else proposal

        def promised(answers: Sequence[Any]) -> None:
            found = [record for answer in answers for record in answer.records]
            decided = [record for record in found if record.learned]
            best = max(found, key=lambda record: record.performed, default=None)
            if decided:
                self._spread(decided[0])
            else:
                self.write(number, position, values.nop() if best is None else best.value)

        request = Promise(segment=SEGMENT, proposal=number, coordinator=node, first=position, stop=position + 1)
        self._round(request, promised)

    def write(self, number: int, position: int, value: bytes) -> None:
        def written(answers: Sequence[Any]) -> None:
            if any(answer.records for answer in answers):
                return
            self._decide(position, value)
            decided = Decided(proposal=number, first=position, stop=position + 1)
            self._ask(Learn(segment=SEGMENT, decided=decided), lambda voter, answer: None)

        request = PaxosWrite(segment=SEGMENT, proposal=number, coordinator=NO_NODE, first=position, values=(value,))
        self._round(request, written)

    def _round(self, request: Promise | PaxosWrite, accepted: Callable[[Sequence[Any]], None]) -> None:
        """The proposer's rule for counting is the product's."""
        round_, over = Round(self.quorum, CrashVector()), False

        def answered(voter: NodeId, answer: Promised | PaxosWritten) -> None:
            nonlocal over
            if over:
                return
            if not self.fixes.drops_former_votes:
                answer = attrs.evolve(answer, incarnation=0, incarnations=())
            outcome = round_.count(voter, answer)
            over = outcome is not None
            if isinstance(outcome, Accepted):
                accepted(outcome.answers)

        self._ask(request, answered)

    def _decide(self, position: int, value: bytes) -> None:
        if self.decided.setdefault(position, value) != value:
            raise TwoValuesError(f"position {position}: {value!r} and {self.decided[position]!r}")

    def _spread(self, record: PaxosRecord) -> None:
        self._decide(record.position, record.value)
        self._ask(Learn(segment=SEGMENT, records=(record,)), lambda voter, answer: None)

    # -- recovery -----------------------------------------------------------------------------------------------------

    def recover(self, node: NodeId) -> None:
        """Begin or continue a recovery. The range is filled by chance, and only by proposers."""
        replica, quorum = self.replicas[node], self.following.get(node)
        if quorum is None:
            self._ask_how_far(node)
            return
        missing = replica.missing(quorum.begin, quorum.end + 1) if self.fixes.learns_all else []
        if missing:
            self.fill(node, missing[0].start, quorum.promised + self.random.randrange(1, 4))
            return
        promised = quorum.promised if self.fixes.recovers_promise else 0
        told = quorum.incarnations if self.fixes.recovers_incarnations else ()
        replica.adopt(Status.VOTING, promised, incarnations=told)
        del self.following[node]
        self.recoveries += 1

    def _ask_how_far(self, node: NodeId) -> None:
        replica = self.replicas[node]
        own = self._handle(node, PaxosRecover(segment=SEGMENT, node=node, incarnation=NOWHERE))
        recovery = Recovery(node, own, self.quorum)

        def answered(voter: NodeId, answer: PaxosRecovered) -> None:
            recovery.answered(voter, answer)
            step, same = recovery.next_step, self.replicas[node] is replica and replica.status is not Status.VOTING
            if same and isinstance(step, FollowQuorum) and node not in self.following:
                self.following[node] = step
                replica.adopt(Status.RECOVERING)

        self._ask(PaxosRecover(segment=SEGMENT, node=node, incarnation=replica.incarnation), answered)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _ask(self, request: Any, answered: Callable[[NodeId, Any], None]) -> None:
        unreached = self.random.choice([NOWHERE, *self.replicas])  # cut off at the moment
        for node in self.replicas:
            if node != unreached:
                self.bag.append(partial(self._arrive, node, request, answered))

    def _arrive(self, node: NodeId, request: Any, answered: Callable[[NodeId, Any], None]) -> None:
        answer = self._handle(node, request)
        self.bag.append(lambda: answered(node, answer))

    def _handle(self, node: NodeId, request: Any) -> Any:
        return answer_of(self.replicas[node], request)

    def _store(self, node: NodeId, status: Status) -> Replica:
        self.stores += 1
        return new_replica(node, self.stores, status)


def new_replica(node: NodeId, incarnation: int, status: Status) -> Replica:
    """A replica with an empty store."""
    return Replica(SEGMENT, node, incarnation, status)


def answer_of(replica: Replica, request: Any) -> Any:
    """Answer of a replica, once it is durable, which takes no time here."""
    effects = replica.step(request, None)
    answers = [effect.outcome for effect in effects if isinstance(effect, PaxosAnswer)]
    assert len(answers) == 1, f"to {request}: {effects}"
    return answers[0]


def learned(position: int, value: bytes) -> PaxosRecord:
    """A decision, to be told."""
    return PaxosRecord(position=position, promised=0, performed=0, value=value, learned=True)
