"""Pure replicas, coordinators and fills, and a bag of messages between them from which a test picks the next one.

Nothing here waits, and time passes only by `advance`. A request and its answer are two messages; each may be lost,
repeated or overtaken by later ones. Changes are on a replica's disk before its answer is in the bag.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once import bundle
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.effects import (
    Announce,
    AnswerFromDisk,
    CatchUp,
    CoordinatorEffect,
    LearnLocally,
    PaxosAnswer,
    PaxosFail,
    PaxosPersist,
    PaxosResolve,
    PaxosSend,
)
from virtuallog_loglets.paxos.core.fill_attempt import FillAttempt, FillFinish, FillTeach
from virtuallog_loglets.paxos.core.fill_attempt import FillSend as Ask
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.rounds import CrashVector, Rejected
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    Decided,
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosWrite,
    Promise,
    Status,
)
from virtuallog_loglets.paxos.offsets import offset_of

SEGMENT: Final = SegmentId(1, 7)
Deliver = Callable[[], None]


@attrs.define(eq=False)
class Member:
    """A replica with its disk, and the coordinator beside it."""

    replica: Replica
    coordinator: Coordinator
    disk: dict[int, PaxosRecord] = attrs.field(factory=dict)
    judged: set[int] = attrs.field(factory=set)
    """Positions for which the decision was compared with those of the other replicas."""

    def digest(self) -> PositionDigest:
        """Digest of the positions that are learned without a hole."""
        digest = PositionDigest()
        for position in range(self.replica.learned):
            record = self.record(position)
            if record is None:
                digest.skip_to(position + 1)
            else:
                digest.take(position, record.value)
        return digest

    def record(self, position: int) -> PaxosRecord | None:
        """Record of a learned position; None if it is truncated."""
        if position < self.replica.begin or not self.replica.slots.is_learned(position):
            return None
        record = self.replica.slots.recent(position) or self.disk[position]
        return attrs.evolve(record, learned=True)


@attrs.define(eq=False)
class Committee:
    """Replicas 1, 2, ... and what is on its way between them."""

    source: random.Random
    members: dict[NodeId, Member]
    ensemble: Ensemble
    bag: list[tuple[NodeId, NodeId, Deliver]] = attrs.field(factory=list)
    """(from, to, what happens on arrival)"""
    now_ms: int = 0
    decided: dict[int, bytes] = attrs.field(factory=dict)
    """Values that some replica has learned, by position: never two values."""
    accepted: dict[tuple[int, int], bytes] = attrs.field(factory=dict)
    """Values that some replica has accepted, by position and number: never two values."""
    votes: dict[tuple[int, int], set[NodeId]] = attrs.field(factory=dict)
    """Replicas that have accepted each value."""
    failures: list[VirtualLogError] = attrs.field(factory=list)

    @classmethod
    def of(cls, source: random.Random, replicas: int = 3) -> Committee:
        nodes = tuple(NodeId(number + 1) for number in range(replicas))
        ensemble = Ensemble(members=nodes, quorum=replicas // 2 + 1)
        members = {
            node: Member(Replica(SEGMENT, node, 1, Status.VOTING), Coordinator(SEGMENT, node, ensemble))
            for node in nodes
        }
        return cls(source, members, ensemble)

    # -- messages -------------------------------------------------------------------------------------------------

    def deliver(self, number: int = -1, *, copies: bool = False) -> None:
        """One message arrives; with `copies` it stays in the bag as well."""
        index = number % len(self.bag)
        _, _, arrive = self.bag[index] if copies else self.bag.pop(index)
        arrive()

    def deliver_all(self, *, between: Iterable[int] = ()) -> None:
        """Everything arrives, in order, and what that brings about; with `between` only among those nodes, and the rest is lost."""
        heard = frozenset(between) or frozenset(self.members)
        while self.bag:
            source, target, arrive = self.bag.pop(0)
            if source in heard and target in heard:
                arrive()

    def ask(self, source: NodeId, target: NodeId, request: Any, done: Callable[[Any], None]) -> None:
        """Send a request; its answer is a message, too."""

        def arrive() -> None:
            self.handle(target, request, lambda outcome: self.bag.append((target, source, lambda: done(outcome))))

        self.bag.append((source, target, arrive))

    def handle(self, node: NodeId, request: Any, done: Callable[[Any], None] = lambda outcome: None) -> None:
        """A replica takes a request in; `done` is called at once, if there is an answer."""
        member = self.members[node]
        if isinstance(request, PaxosWrite | Learn):
            self._judge_announced(request.decided)
        for effect in member.replica.step(request, done):
            match effect:
                case PaxosPersist(records, drop_below):
                    self._persist(member, records, drop_below)
                case PaxosAnswer(ticket, outcome):
                    ticket(outcome)
                case AnswerFromDisk(ticket, outcome, positions):
                    found = tuple(record for p in positions if (record := member.record(p)) is not None)
                    ticket(attrs.evolve(outcome, records=tuple(outcome.records) + found))
                case PaxosFail(error):
                    self.failures.append(error)
        self._judge(member)

    def _persist(self, member: Member, records: Iterable[PaxosRecord], drop_below: int) -> None:
        for record in records:
            member.disk[record.position] = record
            if record.performed != NOWHERE and not values.is_tombstone(record.value):
                first = self.accepted.setdefault((record.position, record.performed), record.value)
                assert first == record.value, "never two values for one position and number"
                if not record.learned:
                    self.votes.setdefault((record.position, record.performed), set()).add(member.replica.node)
        if drop_below:
            member.disk = {position: record for position, record in member.disk.items() if position >= drop_below}

    def _judge_announced(self, decided: Decided) -> None:
        """`Decided` may be told of what a quorum has accepted with that very number, and of nothing else."""
        for position in range(decided.first, decided.stop):
            voters = self.votes.get((position, decided.proposal), set())
            assert len(voters) >= self.ensemble.quorum, f"no quorum accepted {position} with {decided.proposal}"

    def _judge(self, member: Member) -> None:
        assert not self.failures, self.failures
        replica = member.replica
        for position in range(replica.begin, replica.end + 1):
            if position in member.judged or (record := member.record(position)) is None:
                continue
            member.judged.add(position)
            if not values.is_tombstone(record.value):
                first = self.decided.setdefault(position, record.value)
                assert first == record.value, f"two values are decided for position {position}"

    # -- coordinators ---------------------------------------------------------------------------------------------

    def perform(self, node: NodeId, effects: list[CoordinatorEffect]) -> None:
        """Carry out what a coordinator wants, and let it write what is left to write."""
        core = self.members[node].coordinator
        for effect in effects:
            match effect:
                case PaxosSend(nodes, request, number):
                    for target in nodes:
                        self.ask(node, target, request, self._taker(node, target, request, number))
                case Announce(nodes, learn):
                    for target in nodes:
                        self.ask(node, target, learn, lambda outcome: None)
                case LearnLocally(decided, _):
                    self.handle(node, Learn(segment=SEGMENT, decided=decided))
                case CatchUp(stop, proposal):
                    self.catch_up(node, stop, proposal)
                case PaxosResolve(ticket, outcome):
                    ticket(outcome)
        if core.has_work:
            self.perform(node, core.turn(self.now_ms, self.now_ms))

    def _taker(self, node: NodeId, target: NodeId, request: Any, number: int) -> Callable[[Any], None]:
        core = self.members[node].coordinator
        take: Any = {Promise: core.promised, PaxosWrite: core.written, GetStanding: core.confirmed}[type(request)]

        def done(outcome: Any) -> None:
            failed = isinstance(outcome, VirtualLogError)
            self.perform(node, core.unanswered(target, number) if failed else take(target, number, outcome))

        return done

    def elect(self, node: NodeId) -> None:
        """Make the coordinator of a node stand, in any state."""
        member = self.members[node]
        self.perform(node, member.coordinator.resign("it stands again"))
        if member.coordinator.state is CoordinatorState.INITIAL:
            self.perform(node, member.coordinator.elect(member.replica.promised))

    def tick(self, node: NodeId) -> None:
        self.perform(node, self.members[node].coordinator.tick(self.now_ms))

    # -- fills ----------------------------------------------------------------------------------------------------

    def catch_up(self, node: NodeId, stop: int, proposal: int) -> None:
        """For an election: fill what the local replica has not learned, then go on."""
        member = self.members[node]
        core = member.coordinator
        term = core.proposal

        def filled() -> None:
            if core.state is not CoordinatorState.CATCHING_UP or core.proposal != term:
                return
            missing = member.replica.missing(member.replica.begin, stop)
            if missing:
                self.fill(node, missing[0].start, missing[0].stop, member.replica.promised + 1, filled)
            elif member.replica.seal != NOWHERE:
                self.perform(node, core.close(member.replica.seal))
            elif member.replica.learned != stop:
                self.perform(node, core.resign("somebody else leads"))
            else:
                self.perform(node, core.caught_up(member.digest(), self.now_ms))

        missing = member.replica.missing(member.replica.begin, stop)
        if missing:
            self.fill(node, missing[0].start, missing[0].stop, proposal, filled)
        else:
            filled()

    def fill(
        self, node: NodeId, first: int, stop: int, proposal: int, filled: Callable[[], None] = lambda: None
    ) -> None:
        """One attempt after the other."""
        attempt = FillAttempt(SEGMENT, node, self.ensemble, proposal, first, stop, CrashVector())

        def perform(effects: Iterable[Any]) -> None:
            for effect in effects:
                match effect:
                    case Ask(request, number):
                        for target in self.ensemble.members:
                            self.ask(node, target, request, partial(answered, number, target))
                    case FillTeach(learn):
                        self.handle(node, learn)
                        for target in self.ensemble.members:
                            self.ask(node, target, learn, lambda outcome: None)
                    case FillFinish(Rejected(number)):
                        self.fill(node, first, stop, max(proposal, number) + 1, filled)
                    case FillFinish(None):
                        filled()

        def answered(number: int, target: NodeId, outcome: Any) -> None:
            if not isinstance(outcome, VirtualLogError):
                perform(attempt.answered(number, target, outcome))

        perform(attempt.begin())

    # -- what is in the log ---------------------------------------------------------------------------------------

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Every batch below the SEAL, or the end, with its offset."""
        for position in sorted(self.decided):
            value = self.decided[position]
            if values.kind_of(value) is ValueKind.SEAL:
                return
            if values.kind_of(value) is ValueKind.APPEND:
                for part in bundle.split_untrusted(value, values.BODY):
                    yield offset_of(position) + part.index, Batch.parse_untrusted(value[part.start : part.stop])
