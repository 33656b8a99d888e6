"""Exactly-once: every proposal of a replica is applied once and in order, whatever the log does to
it (SOSP'21, section 4.3).

The appender below keeps order and sends nothing twice while its session lives. When that gives up,
it is unknown which of its entries are in the log, or will be. So each entry carries (replica,
incarnation, sequence number), and `apply` passes up only the next number of the newest incarnation.
All replicas skip a repeated entry, one before its predecessor, and one of an ended incarnation. The
proposer plays the same log, and proposes again what it has not seen applied.

A proposal is completed by `post_apply` of its entry, from any of its copies. Reports of the layers
below only say when a copy is no longer in flight. The proposer's half is in
`core/pending_proposals.py`.

The state is one record for each replica. When there are more than `REPLICAS_MAX`, records of gone
replicas are dropped, the most silent one first. If one of them comes back, it ends its incarnation
and begins anew. A member of the view is never gone, however silent: a server without clients
proposes nothing, while short-lived programs, each under a new name, propose all the time. What a
dropped record has refused stays refused: `core/session_floor.py`.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any, ClassVar, Final

import attrs
import trio

from virtuallog.contract.errors import CorruptionError, MalformedError, UnavailableError, VirtualLogError
from virtuallog.contract.metrics import Counter, MetricFamily
from virtuallog.contract.ports import Done, Outcome
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import session_floor, view
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import read_cursor, section, section_span
from virtuallog_database.engines.core.pending_proposals import PendingProposal, PendingProposals
from virtuallog_database.engines.layers.layer import Layer
from virtuallog_database.transaction import StoreTransaction

REPLICAS_MAX: Final = 64
"""Records in the state: many times the replicas that a log has at a time."""

_INCARNATION: Final = struct.Struct(">QII")
"""Boot, life, series: compared as bytes, newer ones are greater."""
_STAMP: Final = struct.Struct(">16sQ")
"""Incarnation, sequence number; then the name of the replica."""
_RECORD: Final = struct.Struct(">16sQQ")
"""Incarnation, next sequence number, position of its last entry."""


@attrs.frozen(kw_only=True)
class SessionOrderSettings:
    """Settings of repeated proposals. Times in seconds."""

    propose_again_pause: float = 0.2
    """Pause before all unapplied proposals are proposed again."""
    give_up: float = 30.0
    """Time without any progress after which proposals fail with UnavailableError: their outcome is
    unknown. None of them can be applied any more once a later one of this replica is."""


@attrs.frozen
class Stamp:
    """Identity of a proposal: replica, incarnation and sequence number."""

    incarnation: bytes
    sequence: int
    replica: bytes

    def encode(self) -> bytes:
        """Durable format: 16 bytes of incarnation, sequence number u64, big-endian; name of the
        replica."""
        return _STAMP.pack(self.incarnation, self.sequence) + self.replica

    @classmethod
    def parse_untrusted(cls, header: bytes) -> Stamp:
        """Parse a header. Raises MalformedError: no such header."""
        if len(header) < _STAMP.size:
            raise MalformedError(f"a header of {len(header)} bytes for the order of a session")
        incarnation, sequence = _STAMP.unpack_from(header)
        return cls(incarnation, sequence, header[_STAMP.size :])


class Skipped:
    """Result of an entry that was not passed up."""


SKIPPED: Final = Skipped()


@attrs.define(eq=False)
class SessionOrderEngine(Layer):
    """Numbers the proposals of this replica, and passes up each entry once and in order."""

    name: ClassVar[str] = "session_order"

    settings: SessionOrderSettings = attrs.field(factory=SessionOrderSettings, kw_only=True)
    _replica: bytes = attrs.field(init=False)
    _series: int = attrs.field(default=0, init=False)
    """Incarnations that this object has ended."""
    _proposals: PendingProposals = attrs.field(init=False)
    _began: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Cursor when the first proposal of this incarnation was made."""
    _progress: float = attrs.field(default=0.0, init=False)
    """Time of the last completed proposal, or of the first one."""
    _work: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set if something has to be proposed again."""
    _again: Counter = attrs.field(
        factory=lambda: Counter("virtuallog_database_proposed_again_total", "Entries that were proposed once more."),
        init=False,
    )
    _skipped: Counter = attrs.field(
        factory=lambda: Counter(
            "virtuallog_database_skipped_entries_total", "Entries passed over: doubled, out of order, of a former life."
        ),
        init=False,
    )

    def __attrs_post_init__(self) -> None:
        self._replica = self.context.identity.name.encode()
        self._proposals = PendingProposals(self._incarnation())

    # -- proposing ------------------------------------------------------------------------------------------------

    def propose(self, entry: Entry, done: Done) -> None:
        if self.stopped is not None:
            done(self.stopped)
            return
        if not self._proposals.pending:
            self._progress = self.context.environment.clock.monotonic()
        proposal = self._proposals.add(entry, done)
        if proposal is not None:
            if not proposal.sequence:
                self._began = read_cursor(self.context.store)
            self._send(proposal)

    def _send(self, proposal: PendingProposal) -> None:
        stamp = Stamp(self._proposals.incarnation, proposal.sequence, self._replica)
        entry = proposal.entry.with_header(self.name, stamp.encode())
        if not proposal.sequence:
            entry = session_floor.with_beginning(entry, self._began)
        self.below.propose(entry, partial(self._settled, stamp.incarnation, stamp.sequence))

    def _settled(self, incarnation: bytes, sequence: int, outcome: Outcome[Any]) -> None:
        is_unknown = isinstance(outcome, UnavailableError)
        error = outcome if isinstance(outcome, VirtualLogError) and not is_unknown else None
        if self._proposals.settled(incarnation, sequence, error=error, is_unknown=is_unknown):
            self._work.set()

    async def run(self) -> None:
        """Propose again, or give up, whenever every copy in flight has come back and something is
        missing."""
        clock = self.context.environment.clock
        while True:
            await self._work.wait()
            self._work = trio.Event()
            if self._proposals.error is not None:
                self._begin_anew(self._proposals.error)
            await clock.sleep(self.settings.propose_again_pause)
            if clock.monotonic() - self._progress > self.settings.give_up:
                self._begin_anew(UnavailableError("no progress for too long: unknown outcome"))
            if self._is_forgotten():
                self._series += 1
                self._began = read_cursor(self.context.store)
                self._proposals.renew(self._incarnation())
            for proposal in self._proposals.again():
                self._again.value += 1
                self._send(proposal)

    def _is_forgotten(self) -> bool:
        """True if no entry of this incarnation can be applied any more: its record was dropped, or
        it began too early (the floor never falls). Ask only between transactions, when the
        callbacks of all applied entries have run."""
        if not self._proposals.pending:
            return False
        store, incarnation = self.context.store, self._proposals.incarnation
        newest, _ = _expected(store.get(section(self.name) + self._replica), b"")
        return newest != incarnation and self._began < session_floor.floor(store)

    def _begin_anew(self, error: VirtualLogError) -> None:
        self._series += 1
        self._progress = self.context.environment.clock.monotonic()
        for done, told in self._proposals.abandon(self._incarnation(), error):
            done(told)

    def _incarnation(self) -> bytes:
        identity = self.context.identity
        return _INCARNATION.pack(identity.boot, identity.life, self._series)

    def stop(self, error: VirtualLogError) -> None:
        self.stopped = error
        for done, told in self._proposals.abandon(self._incarnation(), error):
            done(told)

    # -- applying -------------------------------------------------------------------------------------------------

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        header = entry.headers.get(self.name)
        if header is None:
            return self.apply_above(transaction, entry, position)
        stamp = Stamp.parse_untrusted(header)
        key = section(self.name) + stamp.replica
        record = transaction.get(key)
        incarnation, expected = _expected(record, stamp.incarnation)
        if stamp.incarnation < incarnation or stamp.sequence != expected:
            return SKIPPED
        if not expected and session_floor.beginning_of(entry) < session_floor.floor(transaction):
            return SKIPPED
        if record is None:
            _make_room(transaction)
        transaction.put(key, _RECORD.pack(stamp.incarnation, expected + 1, position))
        return self.apply_above(transaction, entry, position)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        if result is SKIPPED:
            self._skipped.value += 1
            return
        self.post_apply_above(entry, position, result)
        header = entry.headers.get(self.name)
        if header is None:
            return
        stamp = Stamp.parse_untrusted(header)
        if stamp.replica == self._replica:
            done = self._proposals.applied(stamp.incarnation, stamp.sequence)
            if done is not None:
                self._progress = self.context.environment.clock.monotonic()
                self.context.completions.add(done, result)

    def metrics(self) -> list[MetricFamily]:
        return [self._again.family(), self._skipped.family()]


def _expected(record: bytes | None, incarnation: bytes) -> tuple[bytes, int]:
    """The newest incarnation, and the sequence number expected from `incarnation` if that is no
    older one."""
    if record is None:
        return incarnation, 0
    if len(record) != _RECORD.size:
        raise CorruptionError(f"a record of {len(record)} bytes about the order of a session")
    newest, following, _ = _RECORD.unpack(record)
    return newest, following if newest == incarnation else 0


def _make_room(transaction: StoreTransaction) -> None:
    """Drop a record, to make room for a replica that has none."""
    records = dict(transaction.scan(section_span(SessionOrderEngine.name), REPLICAS_MAX + 1))
    if len(records) >= REPLICAS_MAX:
        last = {key: LogPosition(_RECORD.unpack(record)[2]) for key, record in records.items()}
        present = {section(SessionOrderEngine.name) + name.encode() for name in view.members(transaction)}
        oldest = min(records.keys() - present or records.keys(), key=last.__getitem__)
        transaction.delete(oldest)
        session_floor.dropped(transaction, last[oldest])
