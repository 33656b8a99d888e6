"""Batches of clients at a leader: waiting for a record, or in one that is not committed yet.

A batch keeps its offset, and a refused condition stays refused: the network repeats requests, and clients offer a batch
again, to any later leader. Batches that arrive in one scheduler turn, or while enough records are in flight, share one.

A new leader takes over the sessions of its whole log, the records that are not committed included: these will be. A
batch that is offered again while it is in such a record waits for it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from virtuallog.contract.batch import Batch, glance_untrusted
from virtuallog.contract.errors import (
    OverloadedError,
    ReconfigurationNeededError,
    TailMismatchError,
    UnavailableError,
)
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.rejected_conditions import RejectedConditions
from virtuallog.exactly_once.session_digest import SessionDigest
from virtuallog.exactly_once.session_table import OrderedBatch, SessionTable
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core.effects import RaftAnswer, Ticket
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.messages import NO_EXPECTATION, LeaderReply

QUEUE_BYTES_MAX: Final = 32 << 20
"""Queued bytes beyond which batches are refused: some hundred milliseconds of work of a fast disk."""
TICKETS_MAX: Final = 4
"""Callers that wait for one batch: the latest few that offered it. Earlier ones have given up."""


@attrs.define(eq=False)
class Proposals:
    """Batches of one term of a leader."""

    sessions: SessionTable
    refusals: RejectedConditions
    tail: int
    """Offset of the next batch: behind all records, and behind the batches that wait."""
    record_bytes: int = RaftLimits().record_bytes
    """See `RaftLimits`."""
    queued_bytes: int = attrs.field(default=0, init=False)
    was_alone: bool = attrs.field(default=False, init=False)
    """True if the last record had one batch."""
    _queue: deque[OrderedBatch] = attrs.field(factory=deque, init=False)
    _records: deque[tuple[int, list[OrderedBatch]]] = attrs.field(factory=deque, init=False)
    """(index, batches) of the records that are not committed."""

    @property
    def is_waiting(self) -> bool:
        """True if batches wait for a record."""
        return bool(self._queue)

    def inherit(self, record: RaftRecord, now_ms: int) -> None:
        """Take over the batches of a record that is not committed, behind all earlier ones."""
        placements = []
        for place, part in record.parts():
            batch = Batch.parse_untrusted(record.blob[part.start : part.stop])
            placements.append(self.sessions.inherit(batch, place, now_ms))
        self._records.append((record.index, placements))

    def offer(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[RaftAnswer]:
        """Take in a checked batch; it is answered once it is committed.

        Raises:
            VirtualLogError: this leader does not take it. Final only once it is sure that it led.
        """
        placement = self.sessions.find(batch, opens=opens)
        if placement is not None:
            return self._offer_again(placement, batch, ticket)
        if expected_tail != NO_EXPECTATION:
            found = self.refusals.find(batch, expected_tail)
            if found is not None or expected_tail != self.tail:
                raise TailMismatchError(expected_tail, self.tail if found is None else found)
        if self.queued_bytes + len(batch.blob) > QUEUE_BYTES_MAX:
            raise OverloadedError(f"{self.queued_bytes} bytes wait to be ordered")
        self._queue.append(self.sessions.place(batch, self.tail, ticket, now_ms))
        self.queued_bytes += len(batch.blob)
        self.tail += batch.count
        return []

    def cut(self, index: int) -> list[Batch]:
        """Batches of the next record, which has this index."""
        placements: list[OrderedBatch] = []
        batches: list[Batch] = []
        size = entries = 0
        while self._queue:
            batch = self._queue[0].batch
            assert batch is not None, "what is queued is not committed"
            entries += batch.count
            if batches and (size + len(batch.blob) > self.record_bytes or entries > bundle.ENTRIES_MAX):
                break
            placements.append(self._queue.popleft())
            batches.append(batch)
            size += len(batch.blob)
        self.queued_bytes -= size
        self.was_alone = len(batches) == 1
        self._records.append((index, placements))
        return batches

    def committed(self, commit: int) -> list[RaftAnswer]:
        """Answer the batches of all records up to `commit`."""
        answers: list[RaftAnswer] = []
        while self._records and self._records[0][0] <= commit:
            for placement in self._records.popleft()[1]:
                reply = LeaderReply(place=placement.first)
                answers += [RaftAnswer(ticket, reply) for ticket in placement.commit()]
        return answers

    def take_waiting(self) -> list[Ticket]:
        """Tickets of the batches that wait for a record; none of them will get one."""
        tickets = [ticket for placement in self._queue for ticket in placement.commit()]
        self._queue.clear()
        self.queued_bytes = 0
        return tickets

    def give_up(self) -> list[Ticket]:
        """Tickets of all batches, as the term has ended: their outcome is unknown."""
        placements = [placement for _, placements in self._records for placement in placements]
        self._records.clear()
        return [ticket for placement in placements for ticket in placement.commit()] + self.take_waiting()

    def _offer_again(self, placement: OrderedBatch, batch: Batch, ticket: Ticket) -> list[RaftAnswer]:
        if placement.committed:
            return [RaftAnswer(ticket, LeaderReply(place=placement.first))]
        if placement.batch != batch:
            raise ReconfigurationNeededError("two different batches of a session have the same sequence number")
        placement.tickets += (ticket,)
        if len(placement.tickets) <= TICKETS_MAX:
            return []
        earliest, *others = placement.tickets
        placement.tickets = tuple(others)
        return [RaftAnswer(earliest, UnavailableError("the same batch was offered again and again"))]


def digest_record(digest: SessionDigest, record: RaftRecord) -> None:
    """Take the batches of a committed record into a digest; records come in order."""
    lone = record.glance_lone()
    if lone is not None:
        digest.take_batch(*lone, record.first)
        return
    for place, part in record.parts():
        found = glance_untrusted(record.blob, part.start)
        if found is not None:
            digest.take_batch(*found, place)
