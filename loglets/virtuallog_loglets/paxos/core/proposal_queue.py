"""Queue of positions that a leader is to write.

Waiting batches share a position, in their order, until it is full (virtuallog/exactly_once/bundle.py). Any other value has
a position of its own. The offset of a batch is fixed when it is offered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import OverloadedError
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.session_table import OrderedBatch
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.offsets import offset_of

QUEUE_BYTES_MAX: Final = 32 << 20
"""Cap on queued bytes: some hundred milliseconds of work of a fast disk."""
WAVE_BYTES: Final = 1 << 20
"""Cap on the bytes of batches that share a position; a single larger batch is allowed."""

ClientTicket: TypeAlias = Any
"""Opaque object of the driver that names the receiver of an answer."""


@attrs.define(eq=False)
class QueuedPosition:
    """One position that waits to be written."""

    position: int
    make: Callable[[int], bytes] | None = None
    """Makes the value from the time of day in milliseconds; None if the value is that of `placements`."""
    ticket: ClientTicket = None
    """Receiver of the position; None if there is none."""
    size: int = 0
    """Bytes."""
    placements: list[OrderedBatch] = attrs.field(factory=list)
    """Batches that share the position."""
    entries: int = 0
    """Entries of these batches."""
    is_open: bool = False
    """True if more batches may join."""

    def value(self, time_ms: int) -> bytes:
        """The value to write, stamped with the time of day `time_ms`."""
        if self.make is not None:
            return self.make(time_ms)
        batches = [placement.batch for placement in self.placements if placement.batch is not None]
        assert len(batches) == len(self.placements), "what is not written is not committed"
        return values.append(bundle.join(batches), time_ms)

    def commit(self) -> Iterator[tuple[ClientTicket, int]]:
        """Receivers and their answers, now that the position is decided: the offset of a batch, or else the position."""
        for placement in self.placements:
            for ticket in placement.commit():
                yield ticket, placement.first
        if self.ticket is not None:
            yield self.ticket, self.position

    def give_up(self) -> Iterator[ClientTicket]:
        """Receivers that wait for the position."""
        return (ticket for ticket, _ in self.commit())


@attrs.define(eq=False)
class ProposalQueue:
    """First-in first-out queue of positions."""

    next: int
    """Position behind all queued ones."""
    size: int = attrs.field(default=0, init=False)
    """Queued bytes."""
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
        """Have the next batch begin a new position."""
        if self._items:
            self._items[-1].is_open = False

    def place_of(self, batch: Batch) -> int:
        """Offset that the batch gets from `add_batch`, if that is called next.

        Raises:
            OverloadedError: too many bytes are queued. Nothing was done.
        """
        self._check_room(len(batch.blob))
        last = self._items[-1] if self._items else None
        return offset_of(last.position) + last.entries if last is not None and _has_room(last, batch) else self.tail

    def add_batch(self, placement: OrderedBatch) -> None:
        """Queue a batch at its offset, which `place_of` returned."""
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
        """Queue a value that gets a position of its own.

        Raises:
            OverloadedError: too many bytes are queued. Nothing was done.
        """
        self._check_room(size)
        self._push(QueuedPosition(self.next, make, ticket, size))
        self.size += size

    def _check_room(self, size: int) -> None:
        if self.size + size > QUEUE_BYTES_MAX:
            raise OverloadedError(f"{self.size} bytes wait to be ordered")

    def pop(self) -> QueuedPosition:
        """Remove and return the next position to write."""
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
