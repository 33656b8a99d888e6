"""What a coordinator is to write, position by position.                                                            Pure.

Batches that wait share a position, in their order, until it is full (bundle.py); what else is written has one of its own. Where
a batch will lie is settled when it is offered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import OverloadedError
from virtuallog.ordering import bundle
from virtuallog.ordering.session_table import OrderedBatch
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.offsets import offset_of

QUEUE_BYTES_MAX: Final = 32 << 20
"""Bytes beyond which more is refused: some hundred milliseconds of work of a fast disk."""
WAVE_BYTES: Final = 1 << 20
"""A position takes batches until they would exceed this; one larger batch may."""

ClientTicket: TypeAlias = Any
"""The driver's own: whom an answer is for."""


@attrs.define(eq=False)
class QueuedPosition:
    """One position."""

    position: int
    make: Callable[[int], bytes] | None = None
    """The value, from the time in milliseconds; None: that of `placements`."""
    ticket: ClientTicket = None
    """Is told the position; None: nobody."""
    size: int = 0
    placements: list[OrderedBatch] = attrs.field(factory=list)
    entries: int = 0
    is_open: bool = False
    """More batches may join."""

    def value(self, time_ms: int) -> bytes:
        if self.make is not None:
            return self.make(time_ms)
        batches = [placement.batch for placement in self.placements if placement.batch is not None]
        assert len(batches) == len(self.placements), "what is not written is not committed"
        return values.append(bundle.join(batches), time_ms)

    def commit(self) -> Iterator[tuple[ClientTicket, int]]:
        """Who is told what, now that it is decided: the place of a batch, else the position."""
        for placement in self.placements:
            for ticket in placement.commit():
                yield ticket, placement.first
        if self.ticket is not None:
            yield self.ticket, self.position

    def give_up(self) -> Iterator[ClientTicket]:
        """Whoever waits for it."""
        return (ticket for ticket, _ in self.commit())


@attrs.define(eq=False)
class ProposalQueue:
    """First in, first out."""

    next: int
    """The position behind all that is here."""
    size: int = attrs.field(default=0, init=False)
    """Bytes that wait."""
    _items: deque[QueuedPosition] = attrs.field(factory=deque, init=False)

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[QueuedPosition]:
        return iter(self._items)

    @property
    def tail(self) -> int:
        """Offset of the first entry of a batch that gets a position of its own."""
        return offset_of(self.next)

    def close(self) -> None:
        """What comes next begins a position."""
        if self._items:
            self._items[-1].is_open = False

    def place_of(self, batch: Batch) -> int:
        """The offset that the batch gets from `add_batch`, if that is called next.

        Raises:
            OverloadedError: too much waits. Nothing was done.
        """
        self._check_room(len(batch.blob))
        last = self._items[-1] if self._items else None
        return offset_of(last.position) + last.entries if last is not None and _has_room(last, batch) else self.tail

    def add_batch(self, placement: OrderedBatch) -> None:
        """At its offset, which `place_of` has given."""
        batch = placement.batch
        assert batch is not None
        if not self._items or not _has_room(self._items[-1], batch):
            self._push(QueuedPosition(self.next, is_open=True))
        last = self._items[-1]
        assert placement.first == offset_of(last.position) + last.entries, "a batch lies where it was said to lie"
        last.placements.append(placement)
        last.entries += batch.count
        last.size += len(batch.blob)
        self.size += len(batch.blob)

    def add(self, make: Callable[[int], bytes], ticket: ClientTicket, size: int) -> None:
        """A value with a position of its own.

        Raises:
            OverloadedError: too much waits. Nothing was done.
        """
        self._check_room(size)
        self._push(QueuedPosition(self.next, make, ticket, size))
        self.size += size

    def _check_room(self, size: int) -> None:
        if self.size + size > QUEUE_BYTES_MAX:
            raise OverloadedError(f"{self.size} bytes wait to be ordered")

    def pop(self) -> QueuedPosition:
        """The next one to write."""
        item = self._items.popleft()
        item.is_open = False
        self.size -= item.size
        return item

    def _push(self, item: QueuedPosition) -> None:
        self.close()
        self._items.append(item)
        self.next += 1


def _has_room(item: QueuedPosition, batch: Batch) -> bool:
    return (
        item.is_open and item.size + len(batch.blob) <= WAVE_BYTES and item.entries + batch.count <= bundle.ENTRIES_MAX
    )
