"""State of the positions of a log at one replica: records, decisions, truncation, SEAL.

         begin              learned                          end
    -------|-------------------|------------------------------|
    trun-     all decided        open records, some decided
    cated                        ones, and holes

In memory are the records of undecided positions, the decided positions beyond `learned` as intervals, and the newest
decided values for readers that follow the tail. Everything else is on the disk. No operation takes time per position
except on the positions that it names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosRecord

RECENT_BYTES_MAX: Final = 8 << 20
"""Cap on the newest decided values in memory. Readers that follow the tail get those; others read from the disk."""
RECORD_BYTES: Final = 256
"""Memory of a record beside its value, in bytes."""


@attrs.define
class PositionSet:
    """A set of positions, kept as sorted intervals that neither overlap nor touch.

    A truncation or a catch-up concerns millions of positions at once, so no operation takes time per position.
    """

    _starts: list[int] = attrs.field(factory=list)
    _stops: list[int] = attrs.field(factory=list)

    def __contains__(self, position: int) -> bool:
        return self.run_end(position) > position

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[range]:
        """The intervals, ascending."""
        return map(range, self._starts, self._stops)

    def add(self, start: int, stop: int) -> None:
        """Add all of [start, stop)."""
        if start >= stop:
            return
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if low < high:  # it overlaps or touches these
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
        self._starts[low:high], self._stops[low:high] = [start], [stop]

    def drop_below(self, position: int) -> None:
        """Remove everything below `position`."""
        count = bisect_right(self._stops, position)
        del self._starts[:count], self._stops[:count]
        if self._starts and self._starts[0] < position:
            self._starts[0] = position

    def run_end(self, position: int) -> int:
        """First position from `position` on that is not in the set."""
        index = bisect_right(self._starts, position) - 1
        return max(position, self._stops[index]) if index >= 0 else position

    def gaps(self, start: int, stop: int) -> list[range]:
        """Parts of [start, stop) that are not in the set, ascending."""
        found: list[range] = []
        while start < stop:
            start = self.run_end(start)
            index = bisect_right(self._starts, start)
            gap_stop = min(stop, self._starts[index]) if index < len(self._starts) else stop
            if start < gap_stop:
                found.append(range(start, gap_stop))
            start = max(start, gap_stop)
        return found


@attrs.define(eq=False)
class PaxosSlots:
    """Positions of one log at one replica. For `begin`, `learned`, `end`, `seal` and `trim` see `messages.Standing`.

    The state here may be ahead of the disk; the driver makes changes durable before it reports them.
    """

    begin: int = 0
    learned: int = 0
    end: int = 0
    seal: int = NOWHERE
    trim: int = 0
    digest: PositionDigest = attrs.field(factory=PositionDigest)
    """Sessions of the decided prefix, or of a part of it: it stops where a value is on the disk only."""
    open_bytes: int = attrs.field(default=0, init=False)
    """Bytes in memory for undecided positions."""
    recent_bytes: int = attrs.field(default=0, init=False)
    """Bytes in memory for `_recent`."""
    _open: dict[int, PaxosRecord] = attrs.field(factory=dict, init=False)
    """Records of undecided positions."""
    _beyond: PositionSet = attrs.field(factory=PositionSet, init=False)
    """Decided positions that are not below `learned`."""
    _recent: dict[int, PaxosRecord] = attrs.field(factory=dict, init=False)
    """Newest decided records, in the order in which they became known as decided."""
    _seals: set[int] = attrs.field(factory=set, init=False)
    """Positions at which a SEAL is accepted or learned."""

    # -- questions ------------------------------------------------------------------------------------------------

    def is_learned(self, position: int) -> bool:
        """True if the position is known to be decided here; truncated positions were."""
        return position < self.learned or (bool(self._beyond) and position in self._beyond)

    def open_record(self, position: int) -> PaxosRecord | None:
        """Record of an undecided position; None if nothing was promised or accepted there."""
        return self._open.get(position)

    def recent(self, position: int) -> PaxosRecord | None:
        """Record of a decided position; None if it is not in memory."""
        record = self._recent.get(position)
        return None if record is None else _decided(record)

    def learned_run(self, first: int, stop: int) -> int:
        """End of the run of positions from `first` on that are decided and held here: a position in [first, stop]."""
        if first < self.begin:
            return first
        run = self.learned if first < self.learned else self._beyond.run_end(first)
        return max(first, min(run, stop))

    def missing(self, first: int, stop: int) -> list[range]:
        """Parts of [first, stop) that are not known to be decided, ascending."""
        return self._beyond.gaps(max(first, self.learned), stop)

    @property
    def seal_seen(self) -> int:
        """Lowest position at which a SEAL is accepted or learned; NOWHERE if there is none."""
        return min(self._seals, default=NOWHERE)

    def uniform(self) -> tuple[int, int]:
        """(First position from which all through `end` were accepted with one proposal, that proposal).

        The run stops at decided positions: other replicas may have accepted another value there with that proposal.
        """
        position, proposal = self.end, NOWHERE
        while (record := self._open.get(position)) is not None and record.performed != NOWHERE:
            if proposal not in {NOWHERE, record.performed}:
                break
            proposal = record.performed
            position -= 1
        return position + 1, proposal

    # -- changes --------------------------------------------------------------------------------------------------

    def put(self, record: PaxosRecord) -> None:
        """Store what is promised or accepted at an undecided position."""
        position = record.position
        assert not self.is_learned(position), "what is decided never changes"
        former = self._open.get(position)
        if former is not None:
            self._let_go(former)
        self._open[position] = record
        self.open_bytes += len(record.value) + RECORD_BYTES
        if record.value and values.kind_of(record.value) is ValueKind.SEAL:
            self._seals.add(position)
        self.end = max(self.end, position)

    def decide(self, proposal: int, first: int, stop: int) -> list[PaxosRecord]:
        """Mark values in [first, stop) accepted with `proposal` or a higher one as decided; returns these records."""
        first, stop = max(first, self.learned), min(stop, self.end + 1)
        return self._learn_all(self._chosen(proposal, first, stop))

    def _chosen(self, proposal: int, first: int, stop: int) -> Iterator[PaxosRecord]:
        wide = stop - first > len(self._open)
        for position in sorted(self._open) if wide else range(first, stop):
            record = self._open.get(position)
            if record is not None and first <= position < stop and record.performed >= proposal:
                yield record

    def learn(self, record: PaxosRecord) -> None:
        """Learn a decided value."""
        self._learn_all([record])

    def _learn_all(self, records: Iterable[PaxosRecord]) -> list[PaxosRecord]:
        found = list(records)
        for record in found:
            self._learn_one(record)
        self._advance()
        return found

    def _learn_one(self, record: PaxosRecord) -> None:
        position, value = record.position, record.value
        former = self._open.pop(position, None)
        if former is not None:
            self._let_go(former)
        if position == self.learned and not self._beyond:  # nearly always
            self.learned = position + 1
        else:
            self._beyond.add(position, position + 1)
        self.end = max(self.end, position)
        kind = values.kind_of(value)
        if kind is ValueKind.SEAL:
            self._seals.add(position)
        elif kind is ValueKind.TRUNCATE:
            truncation = values.truncation_of(value)
            self.trim = max(self.trim, truncation.trim)
            self.truncate(min(truncation.to, position))
        self._keep_recent(record)

    def truncate(self, to: int) -> None:
        """Drop every position below `to`, but never the SEAL of a closed log."""
        if self.seal != NOWHERE:
            to = min(to, self.seal)
        if to <= self.begin:
            return
        self.begin, self.learned, self.end = to, max(self.learned, to), max(self.end, to - 1)
        for position in [position for position in self._open if position < to]:
            self._let_go(self._open.pop(position))
        for position in [position for position in self._recent if position < to]:
            self.recent_bytes -= len(self._recent.pop(position).value) + RECORD_BYTES
        self._seals = {position for position in self._seals if position >= to}
        self.digest.skip_to(to)
        self._advance()

    def digest_more(self, records: Iterable[PaxosRecord]) -> None:
        """Extend the digest by decided records from `digest.stop` on, in order; other records are ignored."""
        for record in records:
            if record.position == self.digest.stop < self.learned:
                self.digest.take(record.position, record.value)

    def _advance(self) -> None:
        """Move `learned` over what is decided without a hole."""
        run = self._beyond.run_end(self.learned)
        self._beyond.drop_below(run)
        self.learned = run
        if self.seal == NOWHERE and self._seals and min(self._seals) < run:
            self._close()
        if self.seal == NOWHERE:
            self._digest_recent()

    def _close(self) -> None:
        """Close the log at its SEAL and free what served appends and readers of the tail."""
        self.seal = min(self._seals)
        self.digest = PositionDigest(stop=self.learned)
        self._recent.clear()
        self.recent_bytes = 0

    def _digest_recent(self) -> None:
        digest, recent = self.digest, self._recent
        while digest.stop < self.learned and (record := recent.get(digest.stop)) is not None:
            digest.take(record.position, record.value)

    def _keep_recent(self, record: PaxosRecord) -> None:
        if self.seal != NOWHERE:
            return
        recent = self._recent
        recent[record.position] = record
        self.recent_bytes += len(record.value) + RECORD_BYTES
        while self.recent_bytes > RECENT_BYTES_MAX and len(recent) > 1:
            oldest = next(iter(recent))
            self.recent_bytes -= len(recent.pop(oldest).value) + RECORD_BYTES

    def _let_go(self, record: PaxosRecord) -> None:
        """Account for an open record that is replaced, decided or dropped."""
        self.open_bytes -= len(record.value) + RECORD_BYTES
        self._seals.discard(record.position)


def _decided(record: PaxosRecord) -> PaxosRecord:
    """The record, marked as decided."""
    if record.learned:
        return record
    return PaxosRecord(
        position=record.position,
        promised=record.promised,
        performed=record.performed,
        value=record.value,
        learned=True,
    )


def promised_record(position: int, before: PaxosRecord | None, proposal: int) -> PaxosRecord:
    """The record of `position` after an explicit promise of `proposal`; `before` is None if there was none."""
    if before is None:
        return PaxosRecord(position=position, promised=proposal)
    return PaxosRecord(position=position, promised=proposal, performed=before.performed, value=before.value)
