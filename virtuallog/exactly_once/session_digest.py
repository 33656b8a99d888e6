"""Digest of the sessions of a log: the batches that a leader must recognise when they are offered again.

Any later leader must find a batch that was offered before. So every replica folds what is decided, in the order of the
log, into a digest: for each session its next sequence number and its last batches.

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
from itertools import accumulate
from typing import Final

import attrs

from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import MalformedError

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
    """Offset of its first entry."""


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
    """Sessions of a prefix of the log."""

    has_forgotten: bool = attrs.field(default=False, kw_only=True)
    """True if a session was forgotten: an unknown session may then be an old one."""
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

    def encode(self, below: int | None = None, bytes_max: int | None = None) -> bytes:
        """Encode.

        Args:
            below: leave out the batches at or past this offset.
            bytes_max: leave out the sessions that appended first, so that the rest fits; it says that some are forgotten.
        """
        parts = [_SESSION.pack(name, next_sequence, 0) for name, next_sequence in self._idle.items()]
        for name, known in self._active.items():
            batches = [batch for batch in known.batches if below is None or batch[2] < below]
            if batches:
                head = _SESSION.pack(name, known.next_sequence, len(batches))
                parts.append(head + b"".join(_BATCH.pack(*batch) for batch in batches))
        has_forgotten = self.has_forgotten
        if bytes_max is not None:
            sizes = accumulate(map(len, reversed(parts)), initial=_HEAD.size)
            count = sum(size <= bytes_max for size in sizes) - 1
            has_forgotten |= count < len(parts)
            parts = parts[len(parts) - count :]
        return _HEAD.pack(has_forgotten, len(parts)) + b"".join(parts)

    @classmethod
    def decode_untrusted(cls, encoded: bytes) -> SessionDigest:
        """Decode the output of `encode`.

        Raises:
            MalformedError: not a digest.
        """
        digest = cls()
        digest.merge_untrusted(encoded)
        return digest

    def take_batch(self, session: bytes, first_sequence: int, count: int, place: int) -> None:
        """Take in a batch at an offset behind all earlier ones."""
        known = self._active.get(session)
        if known is None:
            known = self._active[session] = _Known(self._idle.pop(session, 0))
            self._bound()
        else:
            self._active.move_to_end(session)
        known.next_sequence = max(known.next_sequence, first_sequence + count)
        known.batches.append((first_sequence, count, place))

    def merge_untrusted(self, encoded: bytes) -> None:
        """Take in the digest of a part of the log before all that was taken in here.

        Raises:
            MalformedError: not a digest. Nothing was done.
        """
        has_forgotten, sessions = _parse_untrusted(encoded)
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
