"""Records of one replica: which index holds which term, where its entries are, what of it is durable.

       dropped        committed          not committed
    |-----------|---------------------|----------------|
    1          base                 commit            last index
                       ...what is durable may end anywhere behind the base...

Some 16 bytes of memory for a record; terms are kept as runs. The bytes of a record are kept while it is not committed, or
is one of the last ones, for peers that are a little behind. All others are read from the disk by address.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import Configuration, decode_untrusted
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.wal.core.record import Address

KEPT_BYTES_MAX: Final = 4 << 20
"""Bytes of committed records kept in memory."""
_NOWHERE: Final = 0
"""Address of a record that is not durable. A segment's header is before its first record, so none has it."""


@attrs.frozen
class LogPoint:
    """A place between two records: behind that of `index`."""

    index: int
    term: int
    """Term of the record at `index`; 0 if that is 0."""
    offset: int
    """Offset of the first entry behind it."""


START: Final = LogPoint(0, 0, 0)
"""Point before the first record."""


@attrs.define(eq=False)
class _Unsynced:
    """Records that one write stores."""

    write: int
    first: int
    last: int


@attrs.define(eq=False)
class RaftLog:
    """Records above `base`, ascending, without holes."""

    origin: Configuration
    """Members that the log was made with, or those at the base."""
    base: LogPoint = START
    """Nothing up to here is kept; all of it is committed."""
    last_index: int = attrs.field(init=False)
    last_term: int = attrs.field(init=False)
    next_offset: int = attrs.field(init=False)
    """Offset of the next entry."""
    durable_index: int = attrs.field(init=False)
    """Everything up to here is durable at this replica."""
    seal: int = attrs.field(default=0, init=False)
    """Index of the SEAL, committed or not; 0 if there is none."""
    _firsts: array[int] = attrs.field(factory=lambda: array("q"), init=False)
    _addresses: array[int] = attrs.field(factory=lambda: array("q"), init=False)
    _runs: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    """(first index, term) of each run of records of one term, ascending."""
    _configurations: list[Configuration] = attrs.field(factory=list, init=False)
    _kept: dict[int, RaftRecord] = attrs.field(factory=dict, init=False)
    """Records in memory, the oldest first; all that are not committed are among them."""
    _kept_bytes: int = attrs.field(default=0, init=False)
    _unsynced: deque[_Unsynced] = attrs.field(factory=deque, init=False)

    def __attrs_post_init__(self) -> None:
        self.last_index, self.last_term, self.next_offset = self.base.index, self.base.term, self.base.offset
        self.durable_index = self.base.index

    # -- questions ------------------------------------------------------------------------------------------------

    @property
    def end(self) -> LogPoint:
        """Point behind the last record."""
        return LogPoint(self.last_index, self.last_term, self.next_offset)

    @property
    def configuration(self) -> Configuration:
        """Members that are in force: the last ones in the log, committed or not."""
        return self._configurations[-1] if self._configurations else self.origin

    def configuration_at(self, index: int) -> Configuration:
        """Members in force at `index`."""
        found = self.origin
        for configuration in self._configurations:
            if configuration.index <= index:
                found = configuration
        return found

    def term_at(self, index: int) -> int | None:
        """Term of the record at `index`; None if this replica cannot say: it is below the base, or not there."""
        if index == self.base.index:
            return self.base.term
        if not self.base.index < index <= self.last_index:
            return None
        return self._runs[bisect_right(self._runs, index, key=_first_of) - 1][1]

    def matches(self, index: int, term: int) -> bool:
        """True if the record at `index` is of `term`: then all below is equal as well (log matching)."""
        return self.term_at(index) == term

    def hint(self, index: int, term: int) -> tuple[int, int]:
        """The last (index, term) of this log with an index up to `index` and a term up to `term`.

        Two logs that differ at `index` can only match at or below it. Rule R12: a leader that goes back spends one
        question for a term, and not one for an index.
        """
        index = min(index, self.last_index)
        while index > self.base.index:
            run = bisect_right(self._runs, index, key=_first_of) - 1
            first, found = self._runs[run]
            if found <= term:
                return index, found
            index = first - 1
        return self.base.index, self.base.term

    def offset_at(self, index: int) -> int:
        """Offset of the first entry behind the record at `index`."""
        if index >= self.last_index:
            return self.next_offset
        return self._firsts[index - self.base.index]

    def first_at(self, index: int) -> int:
        """Offset at which the record at `index` begins."""
        return self.offset_at(index - 1)

    def index_of(self, offset: int) -> int:
        """Index of the first record with entries at or past `offset`; past the last one if there is none."""
        place = bisect_right(self._firsts, offset) - 1
        if place < 0:
            return self.base.index + 1
        return (
            self.base.index + 1 + place if self.offset_at(self.base.index + 1 + place) > offset else self.last_index + 1
        )

    def index_from(self, offset: int) -> int:
        """Index of the first record that holds `offset` or begins there, with or without entries."""
        place = bisect_left(self._firsts, offset)
        index = self.base.index + 1 + place
        return index - 1 if place and self.offset_at(index - 1) > offset else index

    def kept(self, index: int) -> RaftRecord | None:
        """The record at `index` if it is in memory."""
        return self._kept.get(index)

    def address(self, index: int) -> Address:
        """Address of a durable record above the base."""
        found = self._addresses[index - self.base.index - 1]
        assert found != _NOWHERE, "a record that is not durable is in memory"
        return Address(found)

    def unsynced_since(self, write: int) -> int:
        """Index of the first record that waits for the write of this number or for a later one; past the last one if none does.

        A later write may lie lower than an earlier one, whose records have been replaced.
        """
        return next((each.first for each in self._unsynced if each.write >= write), self.last_index + 1)

    @property
    def lowest_address(self) -> Address | None:
        """Address of the first record, below those of all others; None if no record is durable."""
        return Address(self._addresses[0]) if self._addresses and self._addresses[0] != _NOWHERE else None

    # -- changes --------------------------------------------------------------------------------------------------

    def append(self, record: RaftRecord, write: int = 0, address: Address | None = None) -> None:
        """Append a record that follows. It is durable at `address`, or once the write of number `write` is."""
        assert record.index == self.last_index + 1, "a log has no holes"
        assert record.term >= self.last_term, "terms never go back"
        assert record.first == self.next_offset, "an offset is a function of the log's prefix"
        if record.term != self.last_term or not self._runs:
            self._runs.append((record.index, record.term))
        self.last_index, self.last_term, self.next_offset = record.index, record.term, record.stop
        self._firsts.append(record.first)
        self._addresses.append(_NOWHERE if address is None else address)
        self._kept[record.index] = record
        self._kept_bytes += len(record.blob)
        if record.kind is RecordKind.SEAL:
            assert not self.seal, "a log has one SEAL"
            self.seal = record.index
        elif record.kind is RecordKind.CONFIGURATION:
            self._configurations.append(decode_untrusted(record.index, record.body))
        if address is not None:
            self.durable_index = record.index
        elif self._unsynced and self._unsynced[-1].write == write:
            self._unsynced[-1].last = record.index
        else:
            self._unsynced.append(_Unsynced(write, record.index, record.index))

    def truncate(self, last: int) -> None:
        """Drop everything behind `last`. What is committed stays: callers see to that."""
        assert last >= self.base.index
        if last >= self.last_index:
            return
        for index in range(last + 1, self.last_index + 1):
            dropped = self._kept.pop(index, None)
            self._kept_bytes -= len(dropped.blob) if dropped is not None else 0
        self.next_offset = self._firsts[last - self.base.index]
        del self._firsts[last - self.base.index :]
        del self._addresses[last - self.base.index :]
        while self._runs and self._runs[-1][0] > last:
            self._runs.pop()
        while self._configurations and self._configurations[-1].index > last:
            self._configurations.pop()
        self.seal = self.seal if self.seal <= last else 0
        while self._unsynced and self._unsynced[-1].first > last:
            self._unsynced.pop()
        if self._unsynced:
            self._unsynced[-1].last = min(self._unsynced[-1].last, last)
        self.last_index, self.last_term = last, self._runs[-1][1] if self._runs else self.base.term
        self.durable_index = min(self.durable_index, last)

    def synced(self, write: int, addresses: dict[int, Address]) -> None:
        """Note that the write of this number is durable; `addresses` by index.

        What a truncation has dropped since is not in the log any more, even if equal bytes follow: these are of a
        later write. So a write is known by its number and not by what it stored.
        """
        if not self._unsynced or self._unsynced[0].write != write:
            return
        done = self._unsynced.popleft()
        for index in range(done.first, done.last + 1):
            self._addresses[index - self.base.index - 1] = addresses[index]
        self.durable_index = max(self.durable_index, done.last)

    def drop_below(self, index: int) -> None:
        """Drop the records up to `index`, which are committed and durable. The base moves there."""
        if index <= self.base.index:
            return
        count = index - self.base.index
        term = self.term_at(index)
        assert term is not None
        self.origin = self.configuration_at(index)
        for dropped in range(self.base.index + 1, index + 1):
            record = self._kept.pop(dropped, None)
            self._kept_bytes -= len(record.blob) if record is not None else 0
        self.base = LogPoint(index, term, self.offset_at(index))
        del self._firsts[:count]
        del self._addresses[:count]
        run = bisect_right(self._runs, index + 1, key=_first_of) - 1
        self._runs = [(max(first, index + 1), found) for first, found in self._runs[run:]] if self._firsts else []
        self._configurations = [each for each in self._configurations if each.index > index]

    def release(self, commit: int) -> None:
        """Forget the bytes of old records that are committed and durable."""
        while self._kept_bytes > KEPT_BYTES_MAX:
            index = next(iter(self._kept))
            if index > min(commit, self.durable_index):
                return
            self._kept_bytes -= len(self._kept.pop(index).blob)


def committed_index(matches: dict[NodeId, int], configuration: Configuration) -> int:
    """Highest index that a majority of the voters has reached."""
    reached = sorted((matches.get(voter, 0) for voter in configuration.voters), reverse=True)
    return reached[configuration.quorum - 1]


def _first_of(run: tuple[int, int]) -> int:
    return run[0]
