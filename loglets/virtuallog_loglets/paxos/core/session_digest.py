"""Digest of the sessions of a log: the batches that a leader must recognise when they are offered again.

Any later leader must find a batch that was offered before. So every replica folds what it learns, in the order of
positions, into a digest: for each session its next sequence number and its last batches. The digest is stored now and
then. A TRUNCATE carries what it drops, as a replica that joins later never sees those batches.

The digest is bounded by counts and not by time, so that a clock that jumps makes no replica forget. The sessions that
appended last keep their batches, others only their next sequence number. Sessions beyond that are forgotten, and the
digest says so.

Encoded, little-endian: flags u8 (1: some session is forgotten) | sessions u32 | for each, the longest idle first:
    session 16 bytes | next sequence u64 | batches u8 | for each batch: first sequence u64, count u32, place u64
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.batch import SessionId, glance_untrusted
from virtuallog.contract.errors import MalformedError
from virtuallog.exactly_once import bundle
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.offsets import offset_of

BATCHES_MAX: Final = 64
"""Batches remembered per session, as in a leader's table: an appender has no more in flight."""
SESSIONS_MAX: Final = 4096
"""Sessions remembered with their batches: up to 10 KB each, 40 MB in the extreme case that all have
the most in flight."""
IDLE_MAX: Final = 65536
"""Sessions remembered with their next sequence number only: 200 bytes each."""

_HEAD: Final = struct.Struct("<BI")
_SESSION: Final = struct.Struct("<16sQB")
_BATCH: Final = struct.Struct("<QIQ")


@attrs.frozen
class DigestedBatch:
    """One batch in the log."""

    first_sequence: int
    count: int
    place: int
    """Loglet offset of its first entry."""


@attrs.frozen
class DigestedSession:
    """One session in the digest."""

    session: SessionId
    next_sequence: int
    last: tuple[DigestedBatch, ...]
    """Last batches of the session, ascending; empty for a session that has been idle for long."""


@attrs.define(eq=False)
class _Known:
    next_sequence: int
    batches: deque[tuple[int, int, int]] = attrs.field(factory=lambda: deque(maxlen=BATCHES_MAX))
    """(first sequence, count, place)"""

    def merge(self, earlier: DigestedSession) -> None:
        self.next_sequence = max(self.next_sequence, earlier.next_sequence)
        batches = {*self.batches, *((batch.first_sequence, batch.count, batch.place) for batch in earlier.last)}
        self.batches = deque(sorted(batches, key=_place_of), maxlen=BATCHES_MAX)


@attrs.define(eq=False)
class SessionDigest:
    """Sessions of all positions below `stop`."""

    stop: int = 0
    has_forgotten: bool = False
    """True if a session was forgotten: an unknown session may then be an old one."""
    taken_bytes: int = attrs.field(default=0, init=False)
    """Bytes of the values taken in since this object was made."""
    _active: OrderedDict[bytes, _Known] = attrs.field(factory=OrderedDict, init=False)
    """Sessions with their batches, in the order of their last batches."""
    _idle: OrderedDict[bytes, int] = attrs.field(factory=OrderedDict, init=False)
    """Next sequence numbers of sessions without batches, longest idle first."""

    def sessions(self) -> Iterator[DigestedSession]:
        """All sessions, longest idle first."""
        for name, next_sequence in self._idle.items():
            yield DigestedSession(SessionId(name), next_sequence, ())
        for name, known in self._active.items():
            yield DigestedSession(
                SessionId(name), known.next_sequence, tuple(DigestedBatch(*batch) for batch in known.batches)
            )

    def take(self, position: int, value: bytes) -> None:
        """Take in the decided value of position `stop`, which has been checked."""
        assert position == self.stop, "batches of a session are taken in order"
        self.stop = position + 1
        self.taken_bytes += len(value)
        kind = values.kind_of(value)
        if kind is ValueKind.APPEND:
            self._take_batches(position, value)
        elif kind is ValueKind.TRUNCATE and (carried := values.truncation_of(value).digest):
            self._take_carried(carried)

    def skip_to(self, position: int) -> None:
        """Skip truncated positions below `position`; a TRUNCATE carries their sessions."""
        self.stop = max(self.stop, position)

    def copy(self) -> SessionDigest:
        return self.decode_untrusted(self.encode(), self.stop)

    def encode(self, below: int | None = None) -> bytes:
        """Encode for the disk; or, with `below` (at most `stop`), for a TRUNCATE that drops everything below that position."""
        assert below is None or below <= self.stop, "what is dropped is in the digest"
        parts = [_SESSION.pack(name, next_sequence, 0) for name, next_sequence in self._idle.items()]
        sessions = len(parts)
        for name, known in self._active.items():
            batches = [batch for batch in known.batches if below is None or batch[2] < offset_of(below)]
            if batches:
                parts += [_SESSION.pack(name, known.next_sequence, len(batches)), *(_BATCH.pack(*b) for b in batches)]
                sessions += 1
        return _HEAD.pack(self.has_forgotten, sessions) + b"".join(parts)

    @classmethod
    def decode_untrusted(cls, encoded: bytes, stop: int) -> SessionDigest:
        """Decode the output of `encode`, as the digest of all positions below `stop`.

        Raises:
            MalformedError: not a digest.
        """
        digest = cls(stop)
        digest._merge(*_parse_untrusted(encoded))
        return digest

    def _take_batches(self, position: int, value: bytes) -> None:
        try:
            parts = bundle.split_untrusted(value, values.BODY)
        except MalformedError:  # user bytes of a log used by itself, not batches
            return
        for part in parts:
            batch = glance_untrusted(value, part.start)
            if batch is not None:
                self._take_batch(*batch, offset_of(position) + part.index)

    def _take_batch(self, session: SessionId, first_sequence: int, count: int, place: int) -> None:
        known = self._active.get(session)
        if known is None:
            known = self._active[session] = _Known(self._idle.pop(session, 0))
            self._bound()
        else:
            self._active.move_to_end(session)
        known.next_sequence = max(known.next_sequence, first_sequence + count)
        known.batches.append((first_sequence, count, place))

    def _take_carried(self, carried: bytes) -> None:
        """Take in what a TRUNCATE dropped.

        The TRUNCATE is decided, so an unreadable digest counts as forgotten sessions.
        """
        try:
            self._merge(*_parse_untrusted(carried))
        except MalformedError:
            self.has_forgotten = True

    def _merge(self, has_forgotten: bool, sessions: list[DigestedSession]) -> None:
        """Merge sessions from before all positions here; `sessions` has the longest idle first."""
        self.has_forgotten |= has_forgotten
        for earlier in reversed(sessions):
            known, name = self._active.get(earlier.session), earlier.session
            if known is not None:
                known.merge(earlier)
            elif earlier.last:
                known = self._active[name] = _Known(self._idle.pop(name, 0))
                known.merge(earlier)
                self._active.move_to_end(name, last=False)
            else:
                self._idle[name] = max(earlier.next_sequence, self._idle.get(name, 0))
                self._idle.move_to_end(name, last=False)
        self._bound()

    def _bound(self) -> None:
        while len(self._active) > SESSIONS_MAX:
            name, known = self._active.popitem(last=False)
            self._idle[name] = known.next_sequence
        while len(self._idle) > IDLE_MAX:
            self._idle.popitem(last=False)
            self.has_forgotten = True


def _place_of(batch: tuple[int, int, int]) -> int:
    return batch[2]


def _parse_untrusted(encoded: bytes) -> tuple[bool, list[DigestedSession]]:
    try:
        flags, count = _HEAD.unpack_from(encoded)
        at, sessions = _HEAD.size, []
        for _ in range(count):
            name, next_sequence, batches = _SESSION.unpack_from(encoded, at)
            at += _SESSION.size
            stop = at + batches * _BATCH.size
            last = tuple(DigestedBatch(*batch) for batch in _BATCH.iter_unpack(encoded[at:stop]))
            if len(last) != batches or batches > BATCHES_MAX:
                raise MalformedError("a digest of sessions ends within a session")
            sessions.append(DigestedSession(SessionId(name), next_sequence, last))
            at = stop
    except struct.error as error:
        raise MalformedError("not a digest of sessions") from error
    if at != len(encoded) or flags > 1:
        raise MalformedError(f"a digest of sessions with flags {flags}, of {len(encoded)} bytes where {at} are meant")
    return bool(flags), sessions
