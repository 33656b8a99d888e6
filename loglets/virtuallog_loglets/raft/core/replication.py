"""Flow of records from a leader to its peers.

    PROBE       where do the logs part? One message at a time; a rejection goes back by terms (R12)
    REPLICATE   the logs are equal up to `match`; messages leave before earlier ones are answered
    BASE        the peer needs records that the leader has dropped: it gets the state at the base

`transitions.py` has what leads from one to the other.

Every message has a number, and is answered once: by the peer or by a timeout. So what is in flight is known, and a lost
window is noticed. A rejection counts only if no other one has moved the flow since it was sent (R13).

Source: etcd's tracker (specs); Ongaro's thesis, 10.2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core.effects import RaftSend
from virtuallog_loglets.raft.core.log import RaftLog, committed_index
from virtuallog_loglets.raft.core.membership import MemberKind
from virtuallog_loglets.raft.core.records import RecordKind
from virtuallog_loglets.raft.core.transitions import FLOWS, Flow
from virtuallog_loglets.raft.messages import AppendRecords, RecordsAppended
from virtuallog_loglets.wal.core.record import Address

WINDOW: Final = 8
"""Messages of one epoch in flight to one peer, in REPLICATE; twice as many of all epochs."""
MESSAGE_RECORDS: Final = 64
"""Records in a message."""


@attrs.define(eq=False)
class _Flight:
    """Message without an answer."""

    epoch: int
    round: int
    previous: int
    last: int
    commit: int


@attrs.define(eq=False)
class PeerProgress:
    """Progress of one peer, as the leader knows it. `match` is always below `next`."""

    next: int
    match: int = 0
    """The peer's log is equal up to here, and durable."""
    flow: Flow = Flow.PROBE
    epoch: int = 0
    """Changes of direction; messages of an earlier one say nothing about where the logs part."""
    paused: bool = False
    """True from a message without an answer, or a refusal for lack of room, to the next heartbeat."""
    heard: int = 0
    """Tick of the last answer."""
    confirmed: int = 0
    """Newest round whose message it has answered."""
    commit_sent: int = 0
    commit_known: int = 0
    """Commit index that it has surely heard of."""
    waiting: bool = False
    """True if a client waits at the peer for the next commit."""
    full: bool = False
    """True if the peer's disk has no room for the next record of batches, as it has said last."""
    flights: dict[int, _Flight] = attrs.field(factory=dict)

    @property
    def is_asking(self) -> bool:
        """True if a message of the present epoch has no answer yet."""
        return any(flight.epoch == self.epoch for flight in self.flights.values())

    @property
    def is_window_full(self) -> bool:
        """True if no records may leave. Messages of earlier epochs, which may be lost, have a window of their own."""
        if len(self.flights) < WINDOW:
            return False
        return (
            len(self.flights) >= 2 * WINDOW
            or sum(flight.epoch == self.epoch for flight in self.flights.values()) >= WINDOW
        )

    def go_back(self, following: int) -> None:
        """Look for the place where the logs part, at or below `following`."""
        self.turn(Flow.PROBE, max(self.match + 1, following))

    def turn(self, flow: Flow, following: int) -> None:
        """Change the direction: the next record to send is `following`."""
        self.flow, self.epoch, self.next = FLOWS.checked(self.flow, flow), self.epoch + 1, following


@attrs.define(eq=False)
class RaftReplicator:
    """Flows to all peers, for one term of a leader."""

    segment: SegmentId
    me: NodeId
    term: int
    log: RaftLog
    _base: Callable[[], bytes]
    """Encodes the state at the log's base, for a peer that needs it."""
    message_bytes: int = RaftLimits().message_bytes
    """See `RaftLimits`."""
    round: int = 0
    """Round of confirmation that messages belong to now (`read_index.py`)."""
    peers: dict[NodeId, PeerProgress] = attrs.field(factory=dict, init=False)
    newcomers: tuple[NodeId, ...] = attrs.field(default=(), init=False)
    """Members that are to vote once they have caught up."""
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    def __attrs_post_init__(self) -> None:
        self.follow_members(0)

    def follow_members(self, now: int) -> None:
        """Begin flows to new members, end those to former ones."""
        members = self.log.configuration.members
        self.peers = {
            node: self.peers.get(node) or PeerProgress(next=self.log.last_index + 1, heard=now)
            for node in members
            if node != self.me
        }
        # a leader may be one itself, until its own demotion is committed
        self.newcomers = tuple(node for node in self.peers if members[node].kind is MemberKind.PRE_VOTER)

    # -- what majorities have -------------------------------------------------------------------------------------

    @property
    def committed(self) -> int:
        """Index that a majority of voters has durably. The leader counts itself by what it has synced."""
        matches = {node: progress.match for node, progress in self.peers.items()}
        return committed_index({**matches, self.me: self.log.durable_index}, self.log.configuration)

    @property
    def confirmed(self) -> int:
        """Newest round that a majority of voters has answered."""
        rounds = {node: progress.confirmed for node, progress in self.peers.items()}
        return committed_index({**rounds, self.me: self.round}, self.log.configuration)

    def hears_majority(self, since: int) -> bool:
        """True if a majority of voters, itself among them, has answered since tick `since`."""
        heard = {node: int(progress.heard >= since) for node, progress in self.peers.items()}
        return committed_index({**heard, self.me: 1}, self.log.configuration) == 1

    def has_room(self, *, own: bool) -> bool:
        """True if a majority of voters has room for batches, as far as this leader knows; `own`: that it has itself."""
        if own and not any(progress.full for progress in self.peers.values()):
            return True
        room = {node: int(not progress.full) for node, progress in self.peers.items()}
        return committed_index({**room, self.me: int(own)}, self.log.configuration) == 1

    def caught_up(self, commit: int) -> NodeId | None:
        """A newcomer that has its membership, and of what is committed all but a message; None if there is none."""
        since = max(self.log.configuration.index, commit - MESSAGE_RECORDS)
        return next((node for node in self.newcomers if self.peers[node].match >= since), None)

    def all_know(self, commit: int) -> bool:
        """True if every peer has heard that everything up to `commit` is committed."""
        return all(progress.commit_known >= commit for progress in self.peers.values())

    # -- sending --------------------------------------------------------------------------------------------------

    def pump(self, commit: int) -> list[RaftSend]:
        """Send each peer what it may be sent."""
        sends: list[RaftSend] = []
        last = self.log.last_index
        for node, progress in self.peers.items():
            while progress.next <= last and (send := self._next_records(node, progress, commit)) is not None:
                sends.append(send)
        return sends

    def beat(self, commit: int, since: int) -> list[RaftSend]:
        """Tell the peers that this replica leads.

        Those that have messages in flight, and have answered one since tick `since`, are left out. The others get an empty
        message beside what is in flight: that may be lost, and a call fails much later than an election begins.
        """
        sends: list[RaftSend] = []
        for node, progress in self.peers.items():
            progress.paused = False
            send = self._next_records(node, progress, commit)
            quiet = progress.flow is not Flow.BASE and (progress.heard < since or not progress.flights)
            if send is None and quiet and len(progress.flights) < 2 * WINDOW:
                send = self._send(node, progress, commit, progress.next - 1, progress.next - 1, ())
            if send is not None:
                sends.append(send)
        return sends

    def announce(self, commit: int) -> list[RaftSend]:
        """Tell the peers where clients wait, and which are not about to hear of it, what is committed."""
        return [
            self._send(node, progress, commit, progress.next - 1, progress.next - 1, ())
            for node, progress in self.peers.items()
            if progress.waiting
            and progress.flow is Flow.REPLICATE
            and progress.commit_sent < min(commit, progress.next - 1)
            and not progress.is_window_full
        ]

    def _next_records(self, node: NodeId, progress: PeerProgress, commit: int) -> RaftSend | None:
        log, previous = self.log, progress.next - 1
        if progress.paused or previous >= log.last_index:
            return None
        if previous < log.base.index:
            progress.flow = FLOWS.checked(progress.flow, Flow.BASE)
        if progress.flow is not Flow.REPLICATE and progress.is_asking:
            return None
        if progress.flow is Flow.BASE:
            return self._send(node, progress, commit, log.base.index, log.base.index, (), self._base())
        if progress.is_window_full or (progress.full and self._ends_in_batches):
            return None
        last, blobs, stored = self._pick(previous)
        if stored and progress.flights:
            return None  # what is read from the disk goes one message at a time
        send = self._send(node, progress, commit, previous, last, blobs, stored=stored)
        if progress.flow is Flow.REPLICATE and not stored:
            progress.next = last + 1
        return send

    @property
    def _ends_in_batches(self) -> bool:
        """False if a full disk may take the end of the log: other records, as a SEAL, may use the last room."""
        newest = self.log.kept(self.log.last_index)
        return newest is None or newest.kind is RecordKind.BATCHES

    def _pick(self, previous: int) -> tuple[int, tuple[bytes, ...], tuple[Address, ...]]:
        """Last index of the next message, and its records: those in memory, or else the addresses of those that are not."""
        log, index = self.log, previous
        stop = min(log.last_index, previous + MESSAGE_RECORDS)
        stored: list[Address] = []
        while index < stop and log.kept(index + 1) is None:
            index += 1
            stored.append(log.address(index))
        if stored:
            return index, (), tuple(stored)
        blobs: list[bytes] = []
        size = 0
        while index < stop and (record := log.kept(index + 1)) is not None:
            size += len(record.blob)
            if blobs and size > self.message_bytes:
                break
            blobs.append(record.blob)
            index += 1
        return index, tuple(blobs), ()

    def _send(
        self, node: NodeId, progress: PeerProgress, commit: int, previous: int, last: int, records: tuple[bytes, ...],
        base: bytes = b"", stored: tuple[Address, ...] = (),
    ) -> RaftSend:  # fmt: skip
        number = next(self._numbers)
        term = self.log.term_at(previous)
        assert term is not None, "a flow never goes below the base"
        progress.flights[number] = _Flight(progress.epoch, self.round, previous, last, min(commit, last))
        progress.commit_sent = max(progress.commit_sent, min(commit, last))
        request = AppendRecords(
            segment=self.segment, term=self.term, leader=self.me, previous_index=previous, previous_term=term,
            commit=commit, records=records, base=base,
        )  # fmt: skip
        return RaftSend(node, request, number, stored)

    # -- answers --------------------------------------------------------------------------------------------------

    def answered(self, node: NodeId, number: int, reply: RecordsAppended | None, now: int) -> None:
        """Take in the answer to a message of this term; None if there was none in time."""
        progress = self.peers.get(node)
        flight = progress.flights.pop(number, None) if progress is not None else None
        if progress is None or flight is None:
            return
        if reply is None:
            if flight.epoch == progress.epoch:  # others left before the flow began anew, which may work by now
                progress.paused = True
                progress.go_back(progress.match + 1)
            return
        progress.heard, progress.waiting, progress.full = now, reply.waiting, reply.full
        progress.confirmed = max(progress.confirmed, flight.round)
        if reply.accepted:
            # a message that was read from the disk may have had less than was meant
            progress.commit_known = max(progress.commit_known, min(flight.commit, reply.index))
            self._accepted(progress, reply.index)
        elif flight.epoch == progress.epoch and flight.previous > progress.match:
            index, _ = self.log.hint(reply.index, reply.hint_term)
            progress.go_back(min(index + 1, flight.previous))
        if reply.full and not reply.accepted:
            progress.paused = True  # at a heartbeat its disk may have room again

    def _accepted(self, progress: PeerProgress, index: int) -> None:
        # More than this log has cannot have been sent by this leader: a peer that says so is wrong.
        index = min(index, self.log.last_index)
        if index <= progress.match and progress.flow is Flow.REPLICATE:
            return
        progress.match = max(progress.match, index)
        progress.next = max(progress.next, progress.match + 1)
        if progress.flow is not Flow.REPLICATE and progress.match + 1 > self.log.base.index:
            progress.turn(Flow.REPLICATE, progress.match + 1)
