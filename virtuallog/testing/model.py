"""A model of a log: every promise of `virtuallog.contract.loglet.Loglet`, without servers, failures
or time.

       trimmed            readable                 not yet written
    |-----------|------------------------------|......................>
    0       trim_point                        tail

The memory loglet and the loglet of examples/ are shells over this model, and the documentation
refers to it. So nothing here is clever.

One thing is not obvious: a seal forbids *acknowledgements*, not entries. An append that failed may
still land, even in a sealed log (Delos, OSDI'20, section 3.4), and then the sealed tail grows.
`append` is the acknowledged kind; `land` places an entry without a check.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import BeyondTailError, OutOfOrderError, SealedError, TailMismatchError
from virtuallog.contract.types import Gap, GapKind, LogletOffset, Open, PlacedBatch, Sealed, Tail


@attrs.define
class LogModel:
    """One log: batches in a row, a trim point, a seal."""

    align: int = 1
    """Each batch starts at a multiple of this. More than 1 makes a sparse log, as loglets with
    slots or epochs are."""
    tail: int = 0
    trim_point: int = 0
    sealed: bool = False
    batches: list[PlacedBatch] = attrs.field(factory=list, repr=False)
    """The batches that are not trimmed, in order of places."""
    offered: dict[Batch, range] = attrs.field(factory=dict, repr=False)
    """Places of every batch ever ordered. A batch that is offered again gets these."""
    refused: dict[tuple[Batch, int], int] = attrs.field(factory=dict, repr=False)
    """Refused conditional appends, by batch and expected tail; the value is the tail they found."""
    next_sequence: dict[SessionId, int] = attrs.field(factory=dict, repr=False)
    time_ms: int = 0
    """Time of the newest batch, in milliseconds. It never goes back."""

    def append(self, batch: Batch, *, opens: bool, expected_tail: int | None = None, time_ms: int = 0) -> range:
        """Order the batch and acknowledge it.

        Raises:
            SealedError: sealed.
            OutOfOrderError: the session's earlier batches are missing; 0 stands for an unknown
                session.
            TailMismatchError: the batch would not be placed at `expected_tail`.
        """
        if self.sealed:
            raise SealedError(refused=True)
        if batch in self.offered:
            return self.offered[batch]
        expected = self.next_sequence.get(batch.session, batch.first_sequence if opens else None)
        if batch.first_sequence != expected:
            raise OutOfOrderError(expected or 0)
        if expected_tail is not None:
            self._check_tail_is(expected_tail, batch)
        places = range(self.tail, self.tail + batch.count)
        self.land(batch, places, time_ms)
        return places

    def _check_tail_is(self, expected_tail: int, batch: Batch) -> None:
        """Check a condition. A refusal is for good: a second copy of the call may arrive when the
        tail is as expected."""
        found = self.refused.get((batch, expected_tail), self.tail)
        if found != expected_tail:
            self.refused[batch, expected_tail] = found
            raise TailMismatchError(expected_tail, found)

    def land(self, batch: Batch, places: range, time_ms: int = 0) -> None:
        """Place an append at `places`, sealed or not, with or without an acknowledgement."""
        assert len(places) == batch.count
        assert places.start >= self.tail
        assert batch.first_sequence >= self.next_sequence.get(batch.session, 0)
        self.time_ms = max(self.time_ms, time_ms)
        self.batches.append(PlacedBatch(places, batch, self.time_ms))
        self.offered[batch] = places
        self.next_sequence[batch.session] = batch.stop_sequence
        self.tail = -(-places.stop // self.align) * self.align

    def check_tail(self) -> Tail:
        return Sealed(self.tail) if self.sealed else Open(self.tail)

    def seal(self) -> None:
        self.sealed = True

    def prefix_trim(self, offset: int) -> LogletOffset:
        """Drop everything below `offset`, but nothing at or past the tail; return the effective
        trim point."""
        self.trim_point = max(self.trim_point, min(offset, self.tail))
        del self.batches[: self._index_at(self.trim_point)]
        return LogletOffset(self.trim_point)

    def read(self, start: int, stop: int, max_bytes: int) -> list[PlacedBatch | Gap]:
        """Return what lies in [start, stop): at least one item, then as many as fit in `max_bytes`.

        Raises:
            BeyondTailError: `stop` is past the tail.
        """
        if stop > self.tail:
            raise BeyondTailError(stop, self.tail)
        items: list[PlacedBatch | Gap] = []
        for item in self._items(start, stop):
            max_bytes -= len(item.batch.blob) if isinstance(item, PlacedBatch) else 0
            if items and max_bytes < 0:
                break
            items.append(item)
        return items

    def _items(self, start: int, stop: int) -> Iterator[PlacedBatch | Gap]:
        if start < min(stop, self.trim_point):
            trimmed = Gap(start, min(stop, self.trim_point), GapKind.TRIMMED)
            yield trimmed
            start = trimmed.stop
        for index in range(self._index_at(start), len(self.batches)):
            batch = self.batches[index].clip(start, stop)
            if batch is None:
                break
            if start < batch.start:
                yield Gap(start, batch.start, GapKind.FILLER)
            yield batch
            start = batch.stop
        if start < stop:
            yield Gap(start, stop, GapKind.FILLER)

    def _index_at(self, place: int) -> int:
        """Return the index of the first batch that ends past `place`."""
        return bisect.bisect_right(self.batches, place, key=lambda placed: placed.stop)
