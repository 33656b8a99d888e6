"""Writer of one session: groups its batches into transactions and resolves those with unknown
outcome.

Events are methods and return effects. At most one effect is a request to ZooKeeper, and no other is
due before its result arrives: a session has one transaction in flight, with all its batches that
waited.

    offered --> waiting --- Commit ---> in flight --- committed ---> answered
       ^  ^                      |
       |  '---- unknown: Look, is it there? ----'

The znode of the writer holds the session's progress. A Commit sets it at the known version, in one
transaction with the slot. So a late copy, or one sent by another process of the same session, has
no effect once another Commit has succeeded.

A sequencer remembers sessions in `virtuallog.exactly_once.session_table`; here the znode of each one
remembers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    OutOfOrderError,
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    VirtualLogError,
)
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.slot_offsets import INDEX_BITS, SLOT
from virtuallog_loglets.zookeeper.core.records import CHUNK_BYTES, WriterState

WAITING_MAX: Final = 128
"""Most waiting batches of a session; an appender has at most 64."""
SLOTS_MAX: Final = (1 << 31) - (1 << 20)
"""Most slots. ZooKeeper numbers with 32 bits, signed. Transactions in flight when this is reached
still have room."""
ABSENT: Final = -1
"""Version that stands for a writer's znode that does not exist."""


@attrs.frozen
class ReadWriterState:
    """Read the writer's znode, no older than now, and find the slot of its last bundle."""


@attrs.frozen(kw_only=True)
class Commit:
    """Create a slot with these batches and set the writer's znode, in one transaction."""

    batches: tuple[Batch, ...]
    written: WriterState
    version: int
    """Version that the writer's znode must have; ABSENT to create it."""
    slot: int | None
    """Slot that must result; None if any will do."""


@attrs.frozen(kw_only=True)
class Fence:
    """Set the writer's znode only. Anything sent at this version before, and still under way, then
    has no effect."""

    written: WriterState
    version: int


@attrs.frozen
class AskTail:
    """Find the tail, no older than now."""


@attrs.frozen
class ZooKeeperAnswer:
    """Answer the callers that wait."""

    tickets: tuple[Any, ...]
    outcome: range | VirtualLogError


Effect: TypeAlias = ReadWriterState | Commit | Fence | AskTail | ZooKeeperAnswer


@attrs.define(eq=False)
class _Offer:
    batch: Batch
    opens: bool
    expected: int | None
    tickets: list[Any]
    maybe: bool = False
    """True if a transaction with this batch had no answer."""

    def answer(self, outcome: range | VirtualLogError) -> ZooKeeperAnswer:
        return ZooKeeperAnswer(tuple(self.tickets), outcome)

    def placed_at(self, offset: int) -> ZooKeeperAnswer:
        return self.answer(range(offset, offset + self.batch.count))


@attrs.define(eq=False)
class ZooKeeperWriter:
    """Writer of one session, whose batches any number of callers offer."""

    _written: WriterState | None = attrs.field(default=None, init=False)
    """State at the version below; None if there is none yet."""
    _version: int | None = attrs.field(default=ABSENT, init=False)
    """Version of the writer's znode; None if it must be read. A session that opens is taken for new
    at first: if it is not, that shows without harm."""
    _is_sure: bool = attrs.field(default=False, init=False)
    """True if this client has read or written the state above."""
    _waiting: dict[int, _Offer] = attrs.field(factory=dict, init=False)
    """Waiting batches by first sequence."""
    _flight: list[_Offer] = attrs.field(factory=list, init=False)
    _busy: bool = attrs.field(default=False, init=False)
    """True while a request is in flight."""
    _floor: int = attrs.field(default=0, init=False)
    """Lower bound of the next slot of this session."""
    _sent: WriterState | None = attrs.field(default=None, init=False)
    """Content of the writer's znode if the request in flight succeeds."""
    _tail: int = attrs.field(default=0, init=False)
    """Tail that a conditional batch has met."""

    @property
    def is_idle(self) -> bool:
        """True if no caller waits and nothing is in flight."""
        return not self._busy and not self._waiting

    # -- callers --------------------------------------------------------------------------------------------------------

    def offer(self, batch: Batch, expected: int | None, ticket: Any, *, opens: bool) -> list[Effect]:
        """Take in a batch to be placed. The same batch may be offered several times."""
        for known in (*self._flight, *self._waiting.values()):
            if known.batch.first_sequence == batch.first_sequence:
                known.tickets.append(ticket)
                return []
        if len(self._waiting) >= WAITING_MAX:
            return [ZooKeeperAnswer((ticket,), OverloadedError(f"{WAITING_MAX} batches of this session wait"))]
        self._waiting[batch.first_sequence] = _Offer(batch, opens, expected, [ticket])
        return self._next()

    def withdraw(self, ticket: Any) -> None:
        """Forget a caller that no longer waits. What has not been sent never will be."""
        for offer in (*self._flight, *self._waiting.values()):
            if ticket in offer.tickets:
                offer.tickets.remove(ticket)
        for first in [first for first, offer in self._waiting.items() if not offer.tickets]:
            del self._waiting[first]

    # -- results ----------------------------------------------------------------------------------------------------------

    def found(self, written: WriterState | None, version: int) -> list[Effect]:
        """Take in the result of `ReadWriterState`."""
        self._written, self._version, self._is_sure, self._busy = written, version, True, False
        return self._next()

    def committed(self, slot: int, version: int) -> list[Effect]:
        """Take in that the batches in flight are in this slot."""
        assert self._sent is not None
        self._written = self._sent.resolved(slot)
        self._version, self._is_sure, self._busy, self._floor = version, True, False, slot + 1
        first = self._flight[0].batch.first_sequence
        placed: list[Effect] = [
            offer.placed_at((slot << INDEX_BITS) + offer.batch.first_sequence - first) for offer in self._flight
        ]
        self._flight = []
        return [*placed, *self._next()]

    def refused(self) -> list[Effect]:
        """Take in that the transaction did nothing, for a reason that is gone by now."""
        self._take_back()
        return self._next()

    def outdated(self) -> list[Effect]:
        """Take in that the transaction did nothing, because the writer's znode has another version."""
        self._take_back()
        self._version = None
        return self._next()

    def unknown(self) -> list[Effect]:
        """Take in that the last request has no answer. A transaction may have happened, or may still happen."""
        for offer in self._flight:
            offer.maybe = True
        self._take_back()
        self._version = None
        return self._next()

    def mismatched(self, tail: int) -> list[Effect]:
        """Take in that the tail is another one: the conditional batch in flight was not placed, or
        was not sent yet."""
        (offer,) = self._flight
        assert offer.expected is not None
        if offer.expected % SLOT or offer.expected < tail:
            return self._refuse(offer, tail)
        if offer.expected == tail:  # by now
            return self.refused()
        # The tail may reach the expected one, and a copy of the transaction arrive then. It must
        # be impossible first.
        assert self._version is not None
        self._tail, self._sent = tail, self._written or WriterState(next_sequence=offer.batch.first_sequence)
        return [Fence(written=self._sent, version=self._version)]

    def fenced(self, version: int) -> list[Effect]:
        self._written, self._version, self._is_sure = self._sent, version, True
        (offer,) = self._flight
        return self._refuse(offer, self._tail)

    def sealed(self, reason: str = "sealed") -> list[Effect]:
        """Take in that the loglet is sealed, and that the last request did nothing."""
        return self._end(lambda offer: SealedError(reason, refused=not offer.maybe))

    def failed(self, error: VirtualLogError) -> list[Effect]:
        """Take in that the last request failed with unknown outcome."""
        return self._end(lambda _: error)

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _refuse(self, offer: _Offer, tail: int) -> list[Effect]:
        assert offer.expected is not None
        self._flight, self._busy = [], False
        return [offer.answer(TailMismatchError(offer.expected, tail)), *self._next()]

    def _take_back(self) -> None:
        self._busy = False
        self._waiting = {offer.batch.first_sequence: offer for offer in self._flight if offer.tickets} | self._waiting
        self._flight = []

    def _end(self, error: Any) -> list[Effect]:
        self._take_back()
        offers, self._waiting, self._version = list(self._waiting.values()), {}, None
        return [offer.answer(error(offer)) for offer in offers]

    def _next(self) -> list[Effect]:
        """Answer the callers that can be answered, and send the next request if there is something to do."""
        if self._busy or not self._waiting:
            return []
        if not self._is_sure and not any(offer.opens for offer in self._waiting.values()):
            self._version = None
        if self._version is None:
            self._busy = True
            return [ReadWriterState()]
        answers, ready = self._sort_out()
        return [*answers, *(self._commit(ready) if ready else [])]

    def _sort_out(self) -> tuple[list[Effect], list[_Offer]]:
        """Answers that are known already, and the batches for the next slot. The rest waits for that slot."""
        answers: list[Effect] = []
        ready: list[_Offer] = []
        offers = sorted(self._waiting.values(), key=lambda offer: offer.batch.first_sequence)
        start = self._start(offers)
        following, is_full = start, False
        for offer in offers:
            first = offer.batch.first_sequence
            if start is None or following is None:
                answers.append(self._drop(offer, OutOfOrderError(0)))
            elif first < start:
                answers.append(self._find(offer))
            elif first > following:
                answers.append(self._drop(offer, OutOfOrderError(following)))
            else:
                following = offer.batch.stop_sequence
                is_full = is_full or not _fits(ready, offer)
                if not is_full:
                    ready.append(offer)
        return answers, ready

    def _start(self, offers: Iterable[_Offer]) -> int | None:
        """Sequence at which the session goes on; None if it does not exist and no batch opens it."""
        if self._written is not None:
            return self._written.next_sequence
        return next((offer.batch.first_sequence for offer in offers if offer.opens), None)

    def _find(self, offer: _Offer) -> ZooKeeperAnswer:
        if self._written is None:  # before the one that opens
            return self._drop(offer, OutOfOrderError(0))
        try:
            place = self._written.place_of(offer.batch)
        except ReconfigurationNeededError as error:
            return self._drop(offer, error)
        del self._waiting[offer.batch.first_sequence]
        return offer.placed_at(place)

    def _drop(self, offer: _Offer, error: VirtualLogError) -> ZooKeeperAnswer:
        del self._waiting[offer.batch.first_sequence]
        return offer.answer(error)

    def _commit(self, ready: list[_Offer]) -> list[Effect]:
        assert self._version is not None
        if self._floor >= SLOTS_MAX:
            return self._end(lambda _: ReconfigurationNeededError("ZooKeeper has no more numbers for slots here"))
        for offer in ready:
            del self._waiting[offer.batch.first_sequence]
        self._flight, self._busy = ready, True
        expected = ready[0].expected
        if expected is not None and expected % SLOT:  # no batch begins there
            return [AskTail()]
        first, stop = ready[0].batch.first_sequence, ready[-1].batch.stop_sequence
        before = self._written or WriterState(next_sequence=first)
        self._sent = before.with_bundle(first, stop, self._floor)
        return [
            Commit(
                batches=tuple(offer.batch for offer in ready),
                written=self._sent,
                version=self._version,
                slot=None if expected is None else expected >> INDEX_BITS,
            )
        ]


def _fits(ready: list[_Offer], offer: _Offer) -> bool:
    """True if the batch may share the slot. A conditional one is alone."""
    if not ready:
        return True
    if offer.expected is not None or ready[0].expected is not None:
        return False
    size = sum(len(one.batch.blob) for one in ready) + len(offer.batch.blob) + 16 * (len(ready) + 2)
    entries = sum(one.batch.count for one in ready) + offer.batch.count
    return size <= CHUNK_BYTES and entries <= bundle.ENTRIES_MAX
