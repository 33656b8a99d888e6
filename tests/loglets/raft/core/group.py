"""A group of raft replicas in memory: pure cores, a network that a test moves by hand, disks that sync when it says so.

    group = Group.of_voters(3)
    group.elect(1)
    group.append(1, "a")
    group.settle()                    all messages are delivered, all writes synced
    assert group.entries(2) == ["a"]

A test that plays a schedule uses `deliver`, `drop`, `sync` and `crash`. The invariants (`invariants.py`) are checked after
each step.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from tests.loglets.raft.core.invariants import Invariants
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import wal_records
from virtuallog_loglets.raft.core.effects import RaftAnswer, RaftEffect, RaftFail, RaftPersist, RaftSend, TermChanged
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.records import RaftRecord, RecordPlace, build_batches, parse_untrusted
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_requests import ReplicaRequests
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.raft.messages import (
    NO_EXPECTATION,
    NO_NODE,
    AppendRecords,
    RecordsAppended,
    RequestVote,
    StandNow,
    VoteAnswer,
)
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of, sequence_of

SEGMENT = SegmentId(1, 0)
SESSION = SessionId(bytes(16))


def record(index: int, term: int) -> RaftRecord:
    """A record with one entry, which names it; all records below have one as well."""
    place = RecordPlace(segment=SEGMENT, index=index, term=term, first=index - 1, commit=0, time_ms=0)
    session = SessionId(index.to_bytes(8, "big") + term.to_bytes(8, "big"))
    return build_batches(place, [Batch.build(session, 0, [f"{index}.{term}".encode()])])


@attrs.define(eq=False)
class Message:
    """A request on its way, or the answer to one."""

    sender: NodeId
    receiver: NodeId
    request: Any
    number: int
    asker: RaftReplica
    """The replica that sent the request. Its answer is lost with it: a call ends with the process that made it."""
    answer: Any = None
    """None if there was none in time."""
    is_answer: bool = False

    def answered(self, answer: object) -> Message:
        """The way back of this request."""
        return Message(self.receiver, self.sender, self.request, self.number, self.asker, answer, True)

    def __str__(self) -> str:
        what = self.answer if self.is_answer else self.request
        return f"{self.sender}>{self.receiver} {type(what).__name__}"


@attrs.define(eq=False)
class Node:
    """One replica, its disk and its clients."""

    node: NodeId
    replica: RaftReplica
    requests: ReplicaRequests
    disk: list[tuple[Address, WalRecord]]
    """What is durable, in order."""
    durable: DurableReplicas = attrs.field(factory=DurableReplicas)
    writing: deque[RaftPersist] = attrs.field(factory=deque)
    answers: list[tuple[Any, Any]] = attrs.field(factory=list)
    """(ticket, outcome) of the requests of clients."""
    failed: Exception | None = None
    calls: list[Message] = attrs.field(factory=list)
    """Requests of peers that it has not answered."""
    refusal: VirtualLogError | None = None
    """Error with which the disk refuses what is not essential; None if it takes everything."""


@attrs.define(eq=False)
class Group:
    """Replicas of one log."""

    nodes: dict[NodeId, Node]
    messages: list[Message] = attrs.field(factory=list)
    seed: int = 0
    invariants: Invariants = attrs.field(factory=Invariants)
    sequence: int = 0
    """Sequence number of the next batch."""
    _next_address: int = 100

    @classmethod
    def of_voters(cls, count: int, *, first_leader: int = 0, seed: int = 0) -> Group:
        """Replicas 1 to `count`, all of them voters."""
        return cls.of(Configuration.of_voters(tuple(NodeId(n) for n in range(1, count + 1))), first_leader, seed)

    @classmethod
    def of(cls, members: Configuration, first_leader: int = 0, seed: int = 0) -> Group:
        group = cls({}, seed=seed)
        for node in members.members:
            group.add(node, ReplicaState.begin(members, NodeId(first_leader)))
        if first_leader:
            group.perform(
                group.nodes[NodeId(first_leader)], group.nodes[NodeId(first_leader)].replica.lead_first_term()
            )
        return group

    def add(self, node: NodeId, state: ReplicaState) -> Node:
        """Add a replica that begins with this state."""
        replica = RaftReplica(SEGMENT, node, state, random.Random(self.seed * 1000 + node))
        made = self.nodes[node] = Node(node, replica, ReplicaRequests(replica), [])
        made.durable.states[SEGMENT] = state
        self.perform(made, replica.found())
        self.sync(node)
        return made

    def __getitem__(self, node: int) -> RaftReplica:
        return self.nodes[NodeId(node)].replica

    def node(self, node: int) -> Node:
        """A replica with its disk and its clients."""
        return self.nodes[NodeId(node)]

    def leads(self, node: int) -> bool:
        """True if this replica leads, as far as it knows."""
        return self[node].role is RaftRole.LEADER

    # -- steps ----------------------------------------------------------------------------------------------------

    def do(self, node: int, step: Callable[[Node], list[RaftEffect]]) -> None:
        """Have a replica take a step."""
        at = self.nodes[NodeId(node)]
        self.perform(at, step(at))
        self.check()

    def perform(self, at: Node, effects: Iterable[RaftEffect]) -> None:
        for effect in effects:
            match effect:
                case RaftSend(peer, request, number, stored):
                    if stored:
                        assert isinstance(request, AppendRecords)
                        blobs = tuple(blob for address in stored if (blob := self._read(at, address)) is not None)
                        request = attrs.evolve(request, records=blobs)
                        if not blobs:
                            self.perform(at, at.replica.records_answered(peer, number, request.term, None))
                            continue
                    self.messages.append(Message(at.node, peer, request, number, at.replica))
                case RaftPersist():
                    if at.refusal is not None and not effect.essential:
                        self.perform(at, at.replica.failed(effect, at.refusal))
                    else:
                        at.writing.append(effect)
                case RaftAnswer(ticket, outcome):
                    if isinstance(ticket, Message):
                        at.calls.remove(ticket)
                        self.messages.append(ticket.answered(outcome))
                    else:
                        at.answers.append((ticket, at.replica.standing if outcome is None else outcome))
                case RaftFail(error):
                    at.failed = error

    def deliver(self, message: Message, *, keep: bool = False) -> None:
        """Deliver a message; with `keep` it may be delivered again."""
        if not keep:
            self.messages.remove(message)
        at = self.nodes.get(message.receiver)
        if at is None:
            self.messages.append(message.answered(None))
            return
        if message.is_answer and message.asker is not at.replica:
            return
        request = message.request
        if message.is_answer:
            answer = None if isinstance(message.answer, Exception) else message.answer
            self.perform(at, self._answered(at, message, request, answer))
        else:
            at.calls.append(message)
            effects = self._handled(at, request, message)
            self.perform(at, effects)
        self.check()

    def _handled(self, at: Node, request: object, ticket: object) -> list[RaftEffect]:
        match request:
            case RequestVote():
                return at.replica.vote_requested(request, ticket)
            case AppendRecords():
                at.replica.lacks_room = at.refusal is not None
                return at.replica.records_requested(request, ticket)
            case StandNow():
                return at.replica.stand_now(request, ticket)
        raise TypeError(type(request))

    def drop(self, message: Message) -> None:
        """Lose a message; its sender notices, later, that there is no answer."""
        self.messages.remove(message)
        asker = message.receiver if message.is_answer else message.sender
        at = self.nodes.get(asker)
        if at is not None and message.asker is at.replica:
            self.perform(at, self._answered(at, message, message.request, None))
        self.check()

    def _answered(self, at: Node, message: Message, request: Any, answer: Any) -> list[RaftEffect]:
        peer = message.sender if message.is_answer else message.receiver
        if isinstance(request, RequestVote):
            return at.replica.vote_answered(peer, message.number, answer)
        if isinstance(request, AppendRecords):
            effects = at.replica.records_answered(peer, message.number, request.term, answer)
            return effects + at.requests.after_answers()
        return []

    def sync(self, node: int, count: int = 1000) -> None:
        """Have the disk of a node finish its oldest writes."""
        at = self.nodes[NodeId(node)]
        while at.writing and count:
            count -= 1
            write = at.writing.popleft()
            addresses = [self._store(at, wal_records.encode(SEGMENT, change)) for change in write.changes]
            self.perform(at, at.replica.persisted(write, addresses))
            self.check()

    def _store(self, at: Node, stored: WalRecord, *, new_file: bool = False) -> Address:
        self._next_address += 1
        file = sequence_of(at.durable.newest_address) + new_file
        address = at.durable.newest_address = address_of(max(file, 1), self._next_address)
        at.disk.append((address, stored))
        return address

    def refuse(self, node: int, error: VirtualLogError) -> None:
        """Have a disk that turns out to be full refuse the oldest waiting write of batches, and those of records behind it."""
        at = self.node(node)
        stream = [write for write in at.writing if write.has_records]
        first = next((number for number, write in enumerate(stream) if not write.essential), len(stream))
        at.writing = deque(write for write in at.writing if write not in stream[first:])
        for write in stream[first:]:
            self.perform(at, at.replica.failed(write, error))
        self.check()

    def begin_file(self, node: int) -> None:
        """Have the write-ahead log of a node begin a new file, and drop the files that are not needed."""
        at = self.node(node)
        for number, head in enumerate(at.durable.snapshot(1 << 20)):
            self._store(at, head, new_file=number == 0)
        first = sequence_of(at.durable.lowest_address_needed)
        at.disk[:] = [(address, stored) for address, stored in at.disk if sequence_of(address) >= first]

    def crash(self, node: int) -> None:
        """End a replica and begin it anew from its disk. Requests that are on their way stay there, answers to it do not."""
        at = self.nodes[NodeId(node)]
        self.messages += [call.answered(None) for call in at.calls]
        durable = DurableReplicas()
        for address, stored in at.disk:
            durable.replay(address, stored)
        state = durable.states[SEGMENT]
        state.drop_trimmed()
        replica = RaftReplica(SEGMENT, at.node, state, random.Random(self.seed * 1000 + node + 7))
        self.nodes[at.node] = Node(at.node, replica, ReplicaRequests(replica), at.disk, durable)
        self.invariants.forget(at.node)
        self.check()

    def begin_with(self, node: int, shape: str, *, term: int = 0) -> None:
        """Begin a replica anew with records of these terms, one digit each; its term is that of the last, or `term`."""
        at = self.node(node)
        for index, digit in enumerate(shape, 1):
            self._store(at, wal_records.encode(SEGMENT, record(index, int(digit))))
        newest = max([term, *map(int, shape)])
        if newest > self[node].state.term:
            self._store(at, wal_records.encode(SEGMENT, TermChanged(newest, NO_NODE)))
        self.crash(node)

    def lose_disk(self, node: int, members: Configuration) -> None:
        """Replace a replica by one without memory, under the same name."""
        del self.nodes[NodeId(node)]
        self.invariants.forget(NodeId(node))
        self.add(NodeId(node), ReplicaState.begin(members))

    # -- stories --------------------------------------------------------------------------------------------------

    def elect(self, node: int) -> None:
        """Have a replica stand, until it leads. The others must not hear from a leader."""
        for _ in range(60):
            if self[node].role is RaftRole.LEADER:
                return
            for other in self.nodes:
                if other != node:
                    self[other]._deadline = self[other].ticks + 1000
            self.do(node, lambda at: at.replica.tick(0))
            self.settle()
        raise AssertionError(f"{node} does not lead: {[(n, self[n].role.name) for n in self.nodes]}")

    def append(
        self, node: int, *payloads: str, session: SessionId = SESSION, sequence: int | None = None, opens: bool = False
    ) -> object:
        """Offer a batch to a replica; returns its ticket. Without a sequence number it follows the last one."""
        ticket = self.offer(node, *payloads, session=session, sequence=sequence, opens=opens)
        self.turn(node)
        return ticket

    def elect_with(self, node: int, *, voters: Iterable[int]) -> None:
        """Have a replica stand until these vote for it, which hear from no leader; its first records stay on their way."""
        for _ in range(100):
            self.sync(node)
            if self.leads(node):
                return
            self.do(node, lambda at: at.replica.stand())
            for voter in voters:
                self[voter]._deadline = self[voter].ticks + 1000
                self.do(voter, lambda at: at.replica.tick(0))
            for message in [each for each in self.messages if isinstance(each.request, RequestVote)]:
                (self.deliver if {message.sender, message.receiver} <= {node, *voters} else self.drop)(message)
            for voter in voters:
                self.sync(voter)
        raise AssertionError(f"{node} is not elected")

    def ask(self, node: int, request: object) -> Any:
        """Have a replica handle a request of some peer, its disk included; returns the answer."""
        ticket = object()
        self.do(node, lambda at: self._handled(at, request, ticket))
        self.sync(node)
        return self.outcome(node, ticket)

    def hear(
        self, node: int, peer: int, answer: VoteAnswer | RecordsAppended, *, number: int = 1, term: int = 0
    ) -> None:
        """Have a replica hear an answer of a peer, to records that were sent in `term`, or to a question for a vote."""
        at, voter = self.node(node), NodeId(peer)
        if isinstance(answer, VoteAnswer):
            self.perform(at, at.replica.vote_answered(voter, number, answer))
        else:
            self.perform(at, at.replica.records_answered(voter, number, term, answer))
        self.check()

    def offer(
        self, node: int, *payloads: str, session: SessionId = SESSION, sequence: int | None = None, opens: bool = False,
        expected_tail: int = NO_EXPECTATION, now_ms: int = 0, ticket: object = None,
    ) -> object:  # fmt: skip
        """Offer a batch to a replica, which cuts no record yet; returns its ticket."""
        start = self.sequence if sequence is None else sequence
        if sequence is None:
            self.sequence += len(payloads)
        batch = Batch.build(session, start, [payload.encode() for payload in payloads])
        name = f"append {start}" if session == SESSION else f"append {session.hex()[:4]} {start}"
        ticket = name if ticket is None else ticket
        opens = opens or start == 0
        self.do(node, lambda at: at.requests.append(batch, ticket, now_ms, opens=opens, expected_tail=expected_tail))
        return ticket

    def turn(self, node: int) -> None:
        """End a scheduler turn: a leader cuts records of what waits, until nothing does or enough are in flight."""
        self.do(node, lambda at: at.requests.turn(0))
        while self[node].has_work:
            self.do(node, lambda at: at.requests.turn(0))

    def tail(self, node: int, ticket: str = "tail") -> str:
        """Ask a replica for the tail; returns the ticket."""
        self.do(node, lambda at: at.requests.check_tail(ticket))
        return ticket

    def seal(self, node: int, ticket: str = "seal", *, stand: bool = False) -> str:
        """Have a replica seal the log; returns the ticket."""
        self.do(node, lambda at: at.requests.seal(ticket, stand=stand))
        return ticket

    def settle(self, *, without: Iterable[int] = ()) -> None:
        """Deliver all messages and sync all writes, but for those from or to the nodes in `without`, which are lost."""
        cut = set(without)
        for _ in range(10_000):
            for node in list(self.nodes):
                if node not in cut:
                    self.sync(node)
            if not self.messages:
                return
            message = self.messages[0]
            if cut & {message.sender, message.receiver}:
                self.drop(message)
            else:
                self.deliver(message)
        raise AssertionError("the messages do not end")

    def tick(self, *nodes: int, times: int = 1, without: Iterable[int] = ()) -> None:
        """Have time pass at these nodes, or at all, settling after each tick. Replicas at rest have no ticks, as in the driver."""
        for _ in range(times):
            for node in nodes or tuple(self.nodes):
                if not self[node].is_at_rest:
                    self.do(node, lambda at: at.replica.tick(0))
            self.settle(without=without)

    # -- views ----------------------------------------------------------------------------------------------------

    def records(self, node: int) -> list[RaftRecord]:
        """Records of a replica, dropped ones left out."""
        at, log = self.nodes[NodeId(node)], self[node].state.log
        found = []
        for index in range(log.base.index + 1, log.last_index + 1):
            kept = log.kept(index)
            if kept is None:
                blob = self._read(at, log.address(index))
                assert blob is not None, f"record {index} of {node} is on no disk"
                kept = parse_untrusted(blob)
            found.append(kept)
        return found

    def shape(self, node: int) -> str:
        """Terms of the records of a replica, as digits, and behind | those that it does not know to be committed."""
        commit = self[node].state.commit
        parts = [[str(r.term) for r in self.records(node) if (r.index <= commit) is done] for done in (True, False)]
        return "".join(parts[0]) + "|" + "".join(parts[1])

    def entries(self, node: int) -> list[str]:
        """Committed entries that a replica has."""
        commit = self[node].state.commit
        found = [r for r in self.records(node) if r.index <= commit]
        return [payload.decode() for r in found for placed in r.placed() for payload in placed.batch.payloads]

    def outcome(self, node: int, ticket: object) -> Any:
        """Answer to a client's request; None if there is none yet."""
        return next((outcome for found, outcome in self.nodes[NodeId(node)].answers if found == ticket), None)

    def _read(self, at: Node, address: Address) -> bytes | None:
        """Blob of a stored record; None if its file has been dropped."""
        return next((stored.payload for found, stored in at.disk if found == address), None)

    def check(self) -> None:
        """Check the invariants of all replicas together."""
        for node, at in self.nodes.items():
            assert at.failed is None, f"{node} has failed: {at.failed}"
        self.invariants.check({node: at.replica for node, at in self.nodes.items()})
