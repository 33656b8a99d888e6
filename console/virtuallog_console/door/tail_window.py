"""The newest entries of the log, read once and spelled once for all tails that are open. What was not read is there as a count.

    positions   ...  | chunk | chunk | chunk |
                   start                   stop

A chunk is spelled when the first tail sends it, and all others send the same bytes.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.types import Data, Gap, Record
from virtuallog_console.door.entry_json import Hides, hides_nothing, spell_record

WINDOW_BYTES_MAX: Final = 8 << 20
"""Payload bytes that a window keeps, or one chunk. Spelled in both encodings they are some four times as many."""
WINDOW_ENTRIES_MAX: Final = 1 << 15
"""Entries that a window keeps, or one chunk."""
CHUNK_ENTRIES_MAX: Final = 256
"""Entries in a chunk: spelled in about a millisecond, in which no other task runs."""
CHUNK_BYTES_MAX: Final = 256 << 10
"""Payload bytes in a chunk, or one entry: what one send takes."""


EVENT_BYTES: Final = 100
"""Bytes of an event beside its payload."""


@attrs.frozen
class Skipped:
    """Positions that no tail is sent, as the log was faster than all tails together may be."""

    start: int
    stop: int


TailRecord: TypeAlias = Record | Skipped


@attrs.define(eq=False)
class TailChunk:
    """Adjacent records, and the server-sent events that tell of them."""

    records: Sequence[TailRecord]
    """`Skipped` comes first, if at all."""
    _spelled: dict[str, bytes] = attrs.field(factory=dict, init=False)

    @property
    def size(self) -> int:
        """Bytes of all payloads."""
        return sum(len(record.payload) for record in self.records if isinstance(record, Data))

    @property
    def entries_start(self) -> int:
        """First position that was not skipped."""
        first = self.records[0]
        return first.stop if isinstance(first, Skipped) else start_of(first)

    @property
    def start(self) -> int:
        """First position of the chunk."""
        return start_of(self.records[0])

    @property
    def stop(self) -> int:
        """One past the last position of the chunk."""
        return stop_of(self.records[-1])

    def records_from(self, position: int) -> Sequence[TailRecord]:
        """Records for the positions from `position` on."""
        if position <= self.start:
            return self.records
        return [
            attrs.evolve(record, start=max(record.start, position)) if isinstance(record, Skipped) else record
            for record in self.records
            if stop_of(record) > position
        ]

    def events(self, encoding: str, position: int, hides: Hides = hides_nothing) -> bytes:
        """Events for the positions from `position` on. `hides` is the same for all tails."""
        if position > self.start:
            return spell_events(self.records_from(position), encoding, hides)
        if encoding not in self._spelled:
            self._spelled[encoding] = spell_events(self.records, encoding, hides)
        return self._spelled[encoding]


def chunks_of(records: Sequence[Record]) -> list[TailChunk]:
    """Cut records into chunks."""
    chunks, part, size = list[TailChunk](), list[TailRecord](), 0
    for record in records:
        length = 0 if isinstance(record, Gap) else len(record.payload)
        if part and (len(part) >= CHUNK_ENTRIES_MAX or size + length > CHUNK_BYTES_MAX):
            chunks.append(TailChunk(part))
            part, size = [], 0
        part.append(record)
        size += length
    return [*chunks, TailChunk(part)] if part else chunks


@attrs.define(eq=False)
class TailWindow:
    """The chunks between `start` and `stop`, without holes."""

    start: int
    """First position that the window has."""
    stop: int
    """One past its last position."""
    _chunks: list[TailChunk] = attrs.field(factory=list, init=False)
    _stops: list[int] = attrs.field(factory=list, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _entries: int = attrs.field(default=0, init=False)

    def add(self, chunk: TailChunk) -> None:
        """Add what comes next. Drop the oldest chunks beyond the bounds."""
        assert chunk.start == self.stop
        self._chunks.append(chunk)
        self._stops.append(chunk.stop)
        self.stop = chunk.stop
        self._bytes += chunk.size
        self._entries += len(chunk.records)
        drop = 0
        while drop < len(self._chunks) - 1 and (self._bytes > WINDOW_BYTES_MAX or self._entries > WINDOW_ENTRIES_MAX):
            self._bytes -= self._chunks[drop].size
            self._entries -= len(self._chunks[drop].records)
            self.start = self._stops[drop]
            drop += 1
        if drop:
            del self._chunks[:drop], self._stops[:drop]

    def at(self, position: int) -> TailChunk | None:
        """The chunk that has this position. None if it is not in the window."""
        if not self.start <= position < self.stop:
            return None
        return self._chunks[bisect.bisect_right(self._stops, position)]


def spell_events(records: Sequence[TailRecord], encoding: str, hides: Hides = hides_nothing) -> bytes:
    """Server-sent events: the id of each is its last position, so that `Last-Event-ID` says where to go on."""
    return "".join(
        f"event: {_EVENTS.get(type(record), 'entry')}\nid: {stop_of(record) - 1}\ndata: {_data(record, encoding, hides)}\n\n"
        for record in records
    ).encode()


def event_bytes(record: TailRecord) -> int:
    """Bytes of the event for a record, about, without spelling it: of a payload in base64."""
    return EVENT_BYTES + (4 * len(record.payload) // 3 if isinstance(record, Data) else 0)


def start_of(record: TailRecord) -> int:
    """First position of a record."""
    return record.position if isinstance(record, Data) else record.start


def stop_of(record: TailRecord) -> int:
    """One past the last position of a record."""
    return record.position + 1 if isinstance(record, Data) else record.stop


def _data(record: TailRecord, encoding: str, hides: Hides) -> str:
    if isinstance(record, Skipped):
        return f'{{"from": {record.start}, "to": {record.stop}, "count": {record.stop - record.start}}}'
    return spell_record(record, encoding, hides)


_EVENTS: Final = {Gap: "gap", Skipped: "skipped"}
