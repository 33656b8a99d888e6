"""What a replica knows about the positions of its log.                                                             Pure.

         begin              learned                          end
    -------|-------------------|------------------------------|
    trun-     all decided        open records, some decided
    cated                        ones, and holes

In memory are the records of what is not decided, as intervals what is decided beyond `learned`, and the newest decided
values for those who follow the tail. Everything else is on the disk. Nothing takes time per position but what concerns
that very position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from virtuallog_loglets.paxos import values
from virtuallog_loglets.paxos.digest import Digest
from virtuallog_loglets.paxos.messages import NOWHERE, Record
from virtuallog_loglets.paxos.positions import Positions
from virtuallog_loglets.paxos.values import Kind

RECENT_BYTES_MAX: Final = 8 << 20
"""Of the newest decided values. Who follows the tail is served from them; who lags more than that reads from the disk."""
RECORD_BYTES: Final = 256
"""What a record takes in memory beside its value."""


@attrs.define(eq=False)
class Slots:
    """Everything here is as durable as its last change."""

    begin: int = 0
    learned: int = 0
    end: int = 0
    seal: int = NOWHERE
    trim: int = 0
    digest: Digest = attrs.field(factory=Digest)
    """Of the decided prefix, or of less: it stops where a value is on the disk only."""
    open_bytes: int = attrs.field(default=0, init=False)
    """In memory for what is not decided."""
    recent_bytes: int = attrs.field(default=0, init=False)
    _open: dict[int, Record] = attrs.field(factory=dict, init=False)
    _beyond: Positions = attrs.field(factory=Positions, init=False)
    """Decided, and not below `learned`."""
    _recent: dict[int, Record] = attrs.field(factory=dict, init=False)
    """The newest decided ones, in the order in which that became known."""
    _seals: set[int] = attrs.field(factory=set, init=False)
    """Where a SEAL is accepted or learned."""

    # -- questions ------------------------------------------------------------------------------------------------

    def is_learned(self, position: int) -> bool:
        """Decided, as far as is known here; what is truncated was."""
        return position < self.learned or (bool(self._beyond) and position in self._beyond)

    def open_record(self, position: int) -> Record | None:
        """What was promised or accepted at a position that is not decided."""
        return self._open.get(position)

    def recent(self, position: int) -> Record | None:
        """The record of a decided position, if it is in memory."""
        record = self._recent.get(position)
        return None if record is None else _decided(record)

    def learned_run(self, first: int, stop: int) -> int:
        """How far everything from `first` on is decided and here: a position in [first, stop]."""
        if first < self.begin:
            return first
        run = self.learned if first < self.learned else self._beyond.run_end(first)
        return max(first, min(run, stop))

    def missing(self, first: int, stop: int) -> list[range]:
        """What of [first, stop) is not known to be decided, ascending."""
        return self._beyond.gaps(max(first, self.learned), stop)

    @property
    def seal_seen(self) -> int:
        """Lowest position at which a SEAL is accepted or learned."""
        return min(self._seals, default=NOWHERE)

    def uniform(self) -> tuple[int, int]:
        """(first position from which on all was accepted with one proposal, that proposal). It ends at what is decided: that may
        be another value than others have accepted with that proposal."""
        position, proposal = self.end, NOWHERE
        while (record := self._open.get(position)) is not None and record.performed != NOWHERE:
            if proposal not in {NOWHERE, record.performed}:
                break
            proposal = record.performed
            position -= 1
        return position + 1, proposal

    # -- changes --------------------------------------------------------------------------------------------------

    def put(self, record: Record) -> None:
        """Take in what is promised or accepted at a position that is not decided."""
        position = record.position
        assert not self.is_learned(position), "what is decided never changes"
        former = self._open.get(position)
        if former is not None:
            self._let_go(former)
        self._open[position] = record
        self.open_bytes += len(record.value) + RECORD_BYTES
        if record.value and values.kind_of(record.value) is Kind.SEAL:
            self._seals.add(position)
        self.end = max(self.end, position)

    def decide(self, proposal: int, first: int, stop: int) -> list[Record]:
        """Mark what was accepted in [first, stop) with `proposal` or a higher one; returns what is newly decided."""
        first, stop = max(first, self.learned), min(stop, self.end + 1)
        return self._learn_all(self._chosen(proposal, first, stop))

    def _chosen(self, proposal: int, first: int, stop: int) -> Iterator[Record]:
        wide = stop - first > len(self._open)
        for position in sorted(self._open) if wide else range(first, stop):
            record = self._open.get(position)
            if record is not None and first <= position < stop and record.performed >= proposal:
                yield record

    def learn(self, record: Record) -> None:
        """Take in a decided value from elsewhere."""
        self._learn_all([record])

    def _learn_all(self, records: Iterable[Record]) -> list[Record]:
        found = list(records)
        for record in found:
            self._learn_one(record)
        self._advance()
        return found

    def _learn_one(self, record: Record) -> None:
        position, value = record.position, record.value
        former = self._open.pop(position, None)
        if former is not None:
            self._let_go(former)
        if position == self.learned and not self._beyond:  # as nearly always
            self.learned = position + 1
        else:
            self._beyond.add(position, position + 1)
        self.end = max(self.end, position)
        kind = values.kind_of(value)
        if kind is Kind.SEAL:
            self._seals.add(position)
        elif kind is Kind.TRUNCATE:
            truncation = values.truncation_of(value)
            self.trim = max(self.trim, truncation.trim)
            self.truncate(min(truncation.to, position))
        self._keep_recent(record)

    def truncate(self, to: int) -> None:
        """Drop every position below `to`; never the SEAL of a closed log."""
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

    def digest_more(self, records: Iterable[Record]) -> None:
        """Go on with the digest: decided records from `digest.stop` on, in order; others are passed over."""
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
        """What served those who append or follow the tail serves nobody any more."""
        self.seal = min(self._seals)
        self.digest = Digest(stop=self.learned)
        self._recent.clear()
        self.recent_bytes = 0

    def _digest_recent(self) -> None:
        digest, recent = self.digest, self._recent
        while digest.stop < self.learned and (record := recent.get(digest.stop)) is not None:
            digest.take(record.position, record.value)

    def _keep_recent(self, record: Record) -> None:
        if self.seal != NOWHERE:
            return
        recent = self._recent
        recent[record.position] = record
        self.recent_bytes += len(record.value) + RECORD_BYTES
        while self.recent_bytes > RECENT_BYTES_MAX and len(recent) > 1:
            oldest = next(iter(recent))
            self.recent_bytes -= len(recent.pop(oldest).value) + RECORD_BYTES

    def _let_go(self, record: Record) -> None:
        """An open record that is replaced, decided or dropped."""
        self.open_bytes -= len(record.value) + RECORD_BYTES
        self._seals.discard(record.position)


def _decided(record: Record) -> Record:
    """The same record, as one that is known to be decided."""
    if record.learned:
        return record
    return Record(
        position=record.position,
        promised=record.promised,
        performed=record.performed,
        value=record.value,
        learned=True,
    )
