"""The bounded queue of an appender: pending appends of callers, gathered into batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import accumulate

import attrs
import outcome
import trio

from virtuallog.contract.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, ENTRY_BYTES_MAX
from virtuallog.contract.errors import TooLargeError, VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog.exactly_once.append_session import InFlightBatch

BATCH_HEADERS_BYTES = 1024
"""Bytes kept free in each batch for its own fields."""


@attrs.define(eq=False)
class PendingAppend:
    """Entries of one call, which waits until the batch is settled. They stay side by side, in one batch."""

    payloads: Sequence[bytes]
    size: int
    """Bytes of all payloads."""
    expected_tail: LogPosition | None = None
    """Position at which the entries have to land; None if unconditional."""
    task: trio.lowlevel.Task | None = None
    """The task of the caller; None unless it waits."""
    step: int = 1
    """Distance of the positions of two entries, once they are known."""

    def wait(self) -> Awaitable[int]:
        """Wait for the position of the first entry. A cancelled caller only stops waiting; the append goes on."""
        self.task = trio.lowlevel.current_task()
        return trio.lowlevel.wait_task_rescheduled(self._stop_waiting)  # noqa: ASYNC105  # the caller awaits it

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def places(self, first: int) -> range:
        """Positions of the entries, given that of the first."""
        return range(first, first + self.step * len(self.payloads), self.step)

    def finish(self, first: int) -> None:
        """Tell a caller that does not wait: the entries are in the log. This one has gone."""

    def fail(self, error: VirtualLogError) -> None:
        """Wake the caller: the entries are not in the log, or the outcome is unknown."""
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Error(error))


@attrs.define(eq=False)
class PostedAppend(PendingAppend):
    """Entries of a caller that does not wait but is called back: no task has to be woken."""

    done: Callable[[range | VirtualLogError], None] = attrs.field(kw_only=True)

    def finish(self, first: int) -> None:
        self.done(self.places(first))

    def fail(self, error: VirtualLogError) -> None:
        self.done(error)


def finish_all(offers: Sequence[PendingAppend], places: range) -> None:
    """Tell the callers of a batch that its entries are in the log, at `places`."""
    firsts: Iterable[int] = places
    if len(places) != len(offers):
        counts = (len(offer.payloads) for offer in offers)
        firsts = accumulate((places.step * count for count in counts), initial=places.start)
    if places.step != 1:
        for offer in offers:
            offer.step = places.step
    reschedule, value = trio.lowlevel.reschedule, outcome.Value  # what a crowd costs its client is in this loop
    for offer, first in zip(offers, firsts, strict=False):
        task = offer.task
        if task is None:
            offer.finish(first)
        else:
            offer.task = None
            reschedule(task, value(first))


def check_size(payloads: Sequence[bytes], entry_bytes_max: int) -> int:
    """Total size of `payloads` in bytes.

    Raises:
        TooLargeError: an entry or the whole is over its limit; no retry will help.
    """
    if len(payloads) == 1 and (size := len(payloads[0])) <= entry_bytes_max and size <= ENTRY_BYTES_MAX:
        return size  # the usual case: two comparisons instead of four passes
    largest, size = max(map(len, payloads)), sum(map(len, payloads))
    if largest > entry_bytes_max:
        raise TooLargeError(what="bytes in an entry", size=largest, limit=entry_bytes_max)
    limit = BATCH_BYTES_MAX - BATCH_HEADERS_BYTES
    if size + 4 * len(payloads) > limit:
        raise TooLargeError(what="bytes in a batch", size=size + 4 * len(payloads), limit=limit)
    if len(payloads) > BATCH_COUNT_MAX:
        raise TooLargeError(what="entries in a batch", size=len(payloads), limit=BATCH_COUNT_MAX)
    return size


@attrs.define(eq=False)
class AppendQueue:
    """Pending appends in order of arrival."""

    bytes_max: int
    """Queue size in bytes above which callers wait."""
    offers: list[PendingAppend] = attrs.field(factory=list, init=False)
    gathers: bool = attrs.field(default=False, init=False)
    """True if an append may be put without a further look: there is room, and the queue will be cut.

    Set by the appender. False at the latest when the queue is full, or something is taken.
    """
    bytes: int = attrs.field(default=0, init=False)
    """Bytes of all payloads in the queue."""
    _entries: int = attrs.field(default=0, init=False)
    _conditional: int = attrs.field(default=0, init=False)
    """Number of conditional appends in the queue."""
    _room: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def is_full(self) -> bool:
        """True if a caller should `wait_room` before the next `put`."""
        return self.bytes > self.bytes_max

    async def wait_room(self) -> None:
        """Wait until one more append may be put. Cancel: no effect."""
        while self.is_full:
            await self._room.wait()

    def put(self, offer: PendingAppend) -> None:
        """Add an append at the end."""
        self.offers.append(offer)
        self.bytes += offer.size
        self._entries += len(offer.payloads)
        if self.bytes > self.bytes_max:
            self.gathers = False
        if offer.expected_tail is not None:
            self._conditional += 1

    def take_batch(self, bytes_max: int, entries_max: int) -> list[PendingAppend]:
        """Take the appends of the next batch: at least one, then as many as fit. A conditional one stays alone."""
        if self.bytes <= bytes_max and self._entries <= entries_max and not self._conditional:
            return self.clear()
        count = size = entries = 0
        for offer in self.offers:
            entries += len(offer.payloads)
            size += offer.size
            is_alone = offer.expected_tail is not None
            if count and (is_alone or size > bytes_max or entries > entries_max):
                break
            count += 1
            if is_alone:
                break
        return self._take(count)

    def clear(self) -> list[PendingAppend]:
        """Take all appends out."""
        return self._take(len(self.offers))

    def _take(self, count: int) -> list[PendingAppend]:
        was_full, self.gathers = self.is_full, False
        taken, self.offers = self.offers[:count], self.offers[count:]
        if self.offers:
            self.bytes -= sum(offer.size for offer in taken)
            self._entries -= sum(len(offer.payloads) for offer in taken)
            self._conditional -= sum(offer.expected_tail is not None for offer in taken)
        else:
            self.bytes = self._entries = self._conditional = 0
        if was_full and not self.is_full:
            self._room.set()
            self._room = trio.Event()
        return taken


def pending_appends_of(flight: InFlightBatch) -> list[PendingAppend]:
    """The pending appends in a batch, in the order of their entries."""
    offers: list[PendingAppend] = flight.tag
    return offers
