"""Basic types of a shared log: positions, tails, records, gaps.

Two address spaces exist and must never be mixed up: a `LogPosition` names a place in the virtual
log, a `LogletOffset` a place inside one loglet. Only `virtuallog.contract.chain` converts between
them. Both are plain integers at run time, below 2**63; a type checker keeps them apart.

The places of a batch are a `range`, as is the result of an `append`. Our loglets give consecutive
places, step 1, so that no tail lies in the middle of a batch. The types allow other steps.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NewType, TypeAlias

import attrs

from virtuallog.contract.batch import Batch, SessionId

LogPosition = NewType("LogPosition", int)
LogletOffset = NewType("LogletOffset", int)
NodeId = NewType("NodeId", int)

POSITION_MAX = (1 << 63) - 1
"""Highest position. Positions travel as signed 64-bit integers."""


@attrs.frozen
class Open:
    """The tail of a loglet (or log) that takes appends: its first unwritten place."""

    tail: int


@attrs.frozen
class Sealed:
    """The tail of a sealed loglet. It may still grow between calls (Delos, OSDI'20, section 3.4)."""

    tail: int


Tail: TypeAlias = Open | Sealed


class GapKind(enum.Enum):
    """Reason why a range of places holds no data."""

    TRIMMED = "trimmed"
    """Dropped by `prefix_trim`, or below the start of the chain."""
    FILLER = "filler"
    """Written by the log itself (no-op, seal, padding), or never usable in a sparse address space."""
    LOST = "lost"
    """Every copy is gone. Only servers that cannot have forgotten report this."""


@attrs.frozen
class Gap:
    """A range [start, stop) without data, and the reason."""

    start: int
    stop: int
    kind: GapKind

    def clip(self, start: int, stop: int) -> Gap | None:
        """Return the part of this gap within [start, stop); None if there is none."""
        low, high = max(self.start, start), min(self.stop, stop)
        return Gap(low, high, self.kind) if low < high else None

    def shift(self, by: int) -> Gap:
        return Gap(self.start + by, self.stop + by, self.kind)


# not frozen: made for every entry that is read, and frozen classes take three times as long to make
@attrs.define(unsafe_hash=True)
class Data:
    """One entry of the log, as a reader sees it. Not to be changed."""

    position: LogPosition
    payload: bytes
    time_ms: int
    """Wall-clock time of ordering, in milliseconds since the epoch. Non-decreasing per sequencer only."""
    session: SessionId
    sequence: int
    """Number of this entry within its session; (session, sequence) is unique in the log."""


Record: TypeAlias = Data | Gap


@attrs.frozen
class PlacedBatch:
    """A batch and the places of its entries, possibly clipped. Loglets return it from `read`.

    Batches travel whole. `places` is narrowed for a reader that starts, or a chain that ends, in
    the middle of one.
    """

    places: range
    """Places (offsets or positions) of the entries that are in view."""
    batch: Batch
    time_ms: int
    first: int = 0
    """Index within the batch of the entry at `places[0]`."""

    @property
    def start(self) -> int:
        return self.places.start

    @property
    def stop(self) -> int:
        """One past the last place in view."""
        return self.places[-1] + 1

    def clip(self, start: int, stop: int) -> PlacedBatch | None:
        """Return the entries with places within [start, stop); None if there are none."""
        places = self.places
        if start <= places.start and places[-1] < stop:
            return self
        step = places.step
        skip = max(0, -(-(start - places.start) // step))
        keep = places[skip : max(skip, -(-(stop - places.start) // step))]
        return attrs.evolve(self, places=keep, first=self.first + skip) if keep else None

    def shift(self, by: int) -> PlacedBatch:
        places = self.places
        moved = range(places.start + by, places.stop + by, places.step)
        return PlacedBatch(moved, self.batch, self.time_ms, self.first)

    def records(self) -> Iterator[Data]:
        """Yield one `Data` for each entry in view, in order."""
        batch, first = self.batch, self.first
        payloads = batch.payloads
        for index, place in enumerate(self.places, start=first):
            yield Data(LogPosition(place), payloads[index], self.time_ms, batch.session, batch.first_sequence + index)
