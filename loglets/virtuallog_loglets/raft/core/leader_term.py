"""A replica while it leads: takes requests of clients, cuts records, answers once they are committed.

Rules:
* R7: its first record is a NOOP (or the SEAL that it was elected for), so that it can commit what earlier leaders left:
  R11, only a record of the own term counts as committed by counting replicas. All below follows.
* Reads, refusals and changes of the members wait until that record is committed.
* What is behind a SEAL takes no batch, committed or not. Clients get SealedError once it is committed; a SEAL that
  is truncated was answered to no client.
* When the term ends, all that waits is *maybe*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    InvalidSettingError,
    OverloadedError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import membership, records
from virtuallog_loglets.raft.core.effects import RaftAnswer, Ticket
from virtuallog_loglets.raft.core.log import RaftLog
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember
from virtuallog_loglets.raft.core.proposals import Proposals
from virtuallog_loglets.raft.core.read_index import RaftRead, ReadIndex
from virtuallog_loglets.raft.core.records import RaftRecord, RecordPlace
from virtuallog_loglets.raft.core.replication import RaftReplicator
from virtuallog_loglets.raft.messages import NOWHERE, LeaderReply

RECORDS_MAX: Final = 4
"""Most records that are not committed when a new one is cut, those of earlier leaders included. Four keep network and
disks busy at the same time; more only make records smaller."""
WAITING_MAX: Final = 1024
"""Most callers that wait for the SEAL, and for a change of the members."""


@attrs.define(eq=False)
class RaftTerm:
    """One term of a leader. Its owner appends the records that it cuts, and tells what is committed."""

    log: RaftLog
    replicator: RaftReplicator
    proposals: Proposals
    since: int
    """Index of the first record of its term; 0 if it needs none: nothing is older than the term."""
    reads: ReadIndex = attrs.field(factory=ReadIndex, init=False)
    transfer: NodeId | None = attrs.field(default=None, init=False)
    """Replica that is to lead next; no requests are taken meanwhile."""
    transfer_ticket: Ticket = attrs.field(default=None, init=False)
    transfer_since: int = attrs.field(default=0, init=False)
    """Tick at which the transfer began."""
    transfer_sent: bool = attrs.field(default=False, init=False)
    """True once that replica has been told to stand."""
    _waiting: deque[tuple[int, Ticket]] = attrs.field(factory=deque, init=False)
    """Callers that are answered with the place behind a record, once it is committed."""

    _behind_seal: list[tuple[Ticket, Batch | None]] = attrs.field(factory=list, init=False)
    """Callers that came behind a SEAL which is not committed yet, with their batches."""
    _commit: int = attrs.field(default=0, init=False)

    @property
    def term(self) -> int:
        return self.replicator.term

    @property
    def is_established(self) -> bool:
        """True if this leader knows what is committed."""
        return self._commit >= self.since

    @property
    def takes_batches(self) -> bool:
        """False behind a SEAL, committed or not, and during a transfer of the leadership."""
        return not self.log.seal and self.transfer is None

    def is_done(self, commit: int) -> bool:
        """True if all records are committed, all peers know so, and no transfer is on."""
        return self.transfer is None and self.log.last_index == commit and self.replicator.all_know(commit)

    def has_work(self, commit: int) -> bool:
        """True if `cut` would make a record."""
        return self.proposals.is_waiting and self.takes_batches and self.log.last_index - commit < RECORDS_MAX

    def may_hurry(self, commit: int) -> bool:
        """True if a batch need not wait for the end of the scheduler turn, in which others could join its record."""
        return self.proposals.was_alone and self.proposals.is_waiting and self.log.last_index == commit

    # -- requests of clients --------------------------------------------------------------------------------------

    def offer(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[RaftAnswer]:
        """Take in a checked batch; it is answered once it is committed, or refused for good."""
        if self.log.seal:
            return self._offer_behind_seal(batch, ticket)
        if not self.takes_batches:
            return [RaftAnswer(ticket, UnavailableError("unknown outcome: the leadership is being transferred"))]
        try:
            return self.proposals.offer(batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)
        except OverloadedError as error:
            return [RaftAnswer(ticket, error)]
        except VirtualLogError as error:
            return self._refuse(batch, ticket, error, now_ms)

    def _refuse(self, batch: Batch, ticket: Ticket, error: VirtualLogError, now_ms: int) -> list[RaftAnswer]:
        """Refuse a batch, for good if it is for its condition: copies of the call may come later."""
        if isinstance(error, TailMismatchError):
            try:
                self.proposals.refusals.add(batch, error.expected, error.found, now_ms)
            except OverloadedError as overloaded:
                return [RaftAnswer(ticket, overloaded)]
        return self.read(ticket, error)

    def read(self, ticket: Ticket, error: VirtualLogError | None = None) -> list[RaftAnswer]:
        """Answer with the tail, or with a refusal, once it is sure that this replica led when the request came."""
        if self.transfer is not None:
            return [RaftAnswer(ticket, UnavailableError("unknown outcome: the leadership is being transferred"))]
        try:
            self.reads.check_room()
        except OverloadedError as overloaded:
            return [RaftAnswer(ticket, overloaded)]
        if not self.is_established:
            self.reads.hold(ticket, error)
            return []
        self._begin_read(ticket, error)
        return self._ready()

    def wait(self, index: int, ticket: Ticket) -> list[RaftAnswer]:
        """Answer once everything up to `index` is committed."""
        if len(self._waiting) >= WAITING_MAX:
            return [RaftAnswer(ticket, OverloadedError(f"{WAITING_MAX} callers wait for the same record"))]
        self._waiting.append((index, ticket))
        return []

    def check_change(self, members: Mapping[NodeId, RaftMember], seen: int) -> None:
        """Check that the members may be changed to these now, by a caller who has seen those of the record at `seen`.

        Raises:
            UnavailableError: not yet.
            InvalidSettingError: not like this.
        """
        present: Configuration = self.log.configuration
        if not self.is_established:
            raise UnavailableError("no record of this leader is committed yet: the members cannot be changed")
        if present.index > self._commit:
            raise UnavailableError(f"another change, in the record at {present.index}, is not committed yet")
        if seen != present.index:
            raise InvalidSettingError("members", f"they have been changed by the record at {present.index}, not {seen}")
        membership.check_change(present, members, self.replicator.me)

    def find_promotion(self) -> dict[NodeId, RaftMember] | None:
        """The members with a newcomer that has caught up as a voter; None if there is none, or not now."""
        node = self.replicator.caught_up(self._commit)
        present = self.log.configuration
        if node is None or self.transfer is not None or not self.is_established or present.index > self._commit:
            return None
        return {**present.members, node: attrs.evolve(present.members[node], kind=MemberKind.VOTER)}

    def hold_waiting(self) -> None:
        """Hold the batches that wait for a record, and the refusals that may rest on one: none of them will be cut."""
        tickets = self.proposals.take_waiting() + self.reads.take_refusals()
        self._behind_seal += [(ticket, None) for ticket in tickets]

    def begin_transfer(self, target: NodeId, ticket: Ticket, now: int) -> list[RaftAnswer]:
        """Take no requests until `target` leads, or time is up."""
        answers = self.end_transfer(UnavailableError("another transfer has taken its place"))
        self.transfer, self.transfer_ticket, self.transfer_since = target, ticket, now
        return answers

    def end_transfer(self, error: VirtualLogError) -> list[RaftAnswer]:
        """Take requests again."""
        ticket, self.transfer, self.transfer_ticket, self.transfer_sent = self.transfer_ticket, None, None, False
        return [] if ticket is None else [RaftAnswer(ticket, error)]

    # -- records --------------------------------------------------------------------------------------------------

    def place(self, commit: int, time_ms: int) -> RecordPlace:
        """Place of the next record."""
        log = self.log
        return RecordPlace(
            segment=self.replicator.segment, index=log.last_index + 1, term=self.term, first=log.next_offset,
            commit=commit, time_ms=time_ms,
        )  # fmt: skip

    def cut(self, commit: int, time_ms: int) -> RaftRecord:
        """Make a record of the batches that wait, as many as fit."""
        place = self.place(commit, time_ms)
        return records.build_batches(place, self.proposals.cut(place.index))

    def committed(self, commit: int) -> list[RaftAnswer]:
        """Answer what waited for `commit`, in the order of the log."""
        self._commit = commit
        answers = self.proposals.committed(commit)
        while self._waiting and self._waiting[0][0] <= commit:
            index, ticket = self._waiting.popleft()
            answers.append(RaftAnswer(ticket, self._tail_at(index)))
        if self._is_sealed:
            answers += [RaftAnswer(ticket, self._sealed_error(batch)) for ticket, batch in self._behind_seal]
            self._behind_seal.clear()
        if self.is_established:
            for ticket, error in self.reads.take_held():
                self._begin_read(ticket, error)
        return answers + self.confirmed()

    def confirmed(self) -> list[RaftAnswer]:
        """Answer the reads that a majority has confirmed."""
        return self._ready() if self.reads.is_waiting else []

    def give_up(self, error: VirtualLogError) -> list[RaftAnswer]:
        """End the term: all that waits is answered with `error`."""
        tickets = self.proposals.give_up() + self.reads.give_up() + [ticket for _, ticket in self._waiting]
        tickets += [ticket for ticket, _ in self._behind_seal]
        answers = [RaftAnswer(ticket, error) for ticket in tickets]
        self._waiting.clear()
        self._behind_seal.clear()
        if self.transfer is not None and self.transfer_sent:
            answers.append(RaftAnswer(self.transfer_ticket, LeaderReply(place=NOWHERE, leader=self.transfer)))
            return answers
        return answers + self.end_transfer(error)

    # -- details --------------------------------------------------------------------------------------------------

    def _begin_read(self, ticket: Ticket, error: VirtualLogError | None) -> None:
        """Have a read confirmed by a new round.

        A refusal rests on all batches, also on those that wait for a record, so it waits until they are committed.
        """
        answer = self._tail_at(self._commit) if error is None else error
        stop = self._committed_tail if error is None else self.proposals.tail
        self.reads.add(RaftRead(ticket, self.replicator.round + 1, stop, answer))

    def _ready(self) -> list[RaftAnswer]:
        ready = self.reads.ready(self.replicator.confirmed, self._committed_tail)
        return [RaftAnswer(read.ticket, read.answer) for read in ready]

    @property
    def _committed_tail(self) -> int:
        return self.log.offset_at(self._commit)

    def _tail_at(self, index: int) -> LeaderReply:
        sealed = 0 < self.log.seal <= index
        return LeaderReply(place=self.log.offset_at(index), sealed=sealed)

    def _offer_behind_seal(self, batch: Batch, ticket: Ticket) -> list[RaftAnswer]:
        """Refuse a batch behind the SEAL, once that is committed: before, no client may hear of it."""
        if self._is_sealed:
            return [RaftAnswer(ticket, self._sealed_error(batch))]
        if len(self._behind_seal) >= WAITING_MAX:
            return [RaftAnswer(ticket, OverloadedError("the log is being sealed"))]
        self._behind_seal.append((ticket, batch))
        return []

    @property
    def _is_sealed(self) -> bool:
        return 0 < self.log.seal <= self._commit

    def _sealed_error(self, batch: Batch | None) -> SealedError:
        """SealedError that says that nothing is in the log only if that is certain: this may be the second copy of a call."""
        return SealedError(refused=batch is not None and not self.proposals.sessions.may_have_placed(batch))
