"""Durable state of a log server: the fold of its WAL's records.

Every change of durable state is a `Change`, a new wave or one of the classes below, and happens in
`DurableLogs.apply`: during replay, and, while the server runs, when a record has become durable. So
memory and disk cannot disagree: a server answers what it would know after a crash at that moment.

Each WAL segment begins with a `LogletSnapshot` of every loglet. So any prefix of segments whose
waves are no longer needed may be dropped. Durable formats: kinds 1 to 7 below, little-endian; they
never change once released. Kind 7 is written only in a cluster of programs that know it
(`virtuallog.contract.versions`), so that a node can go back to an older program.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog_loglets.native.core import segment_index
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.core.wave_index import WaveIndex
from virtuallog_loglets.tombstones import LiveLogletSet, Tombstones, VersionFloor, tombstones_after
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of

_WAVE, _SEALED, _TRIMMED, _KNOWN, _SNAPSHOT, _FLOOR, _LIVE = range(1, 8)
_SEGMENT: Final = struct.Struct("<QQ")
_OFFSET: Final = struct.Struct("<QQQ")
_STATE: Final = struct.Struct("<QQQQQB")
_VERSION: Final = struct.Struct("<Q")
_ORIGIN: Final = Address(0)


@attrs.frozen
class LogletSealed:
    """A seal: no store behind this record is accepted."""

    segment: SegmentId


@attrs.frozen
class LogletTrimmed:
    """A trim: offsets below `offset`, which was committed then, are no longer needed."""

    segment: SegmentId
    offset: int


@attrs.frozen
class KnownTailRaised:
    """Everything below `known_tail` is globally committed. Written only where a gap depends on it."""

    segment: SegmentId
    known_tail: int


@attrs.frozen
class LogletSnapshot:
    """Complete state of a loglet, except its waves."""

    segment: SegmentId
    tail: int
    known_tail: int
    trim: int
    sealed: bool


Change: TypeAlias = (
    Wave | LogletSealed | LogletTrimmed | KnownTailRaised | LogletSnapshot | VersionFloor | LiveLogletSet
)
"""A change of durable state. A wave stands for its storing; it takes effect if it follows what is there."""


def encode(change: Change) -> WalRecord:
    """Encode a change as a WAL record. The payload of a wave is the wave itself: nothing is copied."""
    match change:
        case Wave():
            return WalRecord(_WAVE, change.blob)
        case LogletSealed(segment):
            return WalRecord(_SEALED, _SEGMENT.pack(segment.version, segment.attempt))
        case LogletTrimmed(segment, offset):
            return WalRecord(_TRIMMED, _OFFSET.pack(segment.version, segment.attempt, offset))
        case KnownTailRaised(segment, known_tail):
            return WalRecord(_KNOWN, _OFFSET.pack(segment.version, segment.attempt, known_tail))
        case LogletSnapshot(segment, tail, known_tail, trim, sealed):
            packed = _STATE.pack(segment.version, segment.attempt, tail, known_tail, trim, sealed)
            return WalRecord(_SNAPSHOT, packed)
        case VersionFloor(version):
            return WalRecord(_FLOOR, _VERSION.pack(version))
        case LiveLogletSet(horizon, segments):
            packed = b"".join(_SEGMENT.pack(segment.version, segment.attempt) for segment in segments)
            return WalRecord(_LIVE, _VERSION.pack(horizon) + packed)


def decode_untrusted(record: WalRecord) -> Change:
    """Decode the change that a record holds.

    Raises:
        MalformedError: not a record of a log server, or one of a later version.
        CorruptionError: a wave that does not match its checksum.
    """
    payload = record.payload
    try:
        match record.kind:
            case 1:
                return waves.parse_untrusted(payload)
            case 2:
                return LogletSealed(SegmentId(*_SEGMENT.unpack(payload)))
            case 3:
                version, attempt, offset = _OFFSET.unpack(payload)
                return LogletTrimmed(SegmentId(version, attempt), offset)
            case 4:
                version, attempt, known_tail = _OFFSET.unpack(payload)
                return KnownTailRaised(SegmentId(version, attempt), known_tail)
            case 5:
                version, attempt, tail, known_tail, trim, sealed = _STATE.unpack(payload)
                return LogletSnapshot(SegmentId(version, attempt), tail, known_tail, trim, bool(sealed))
            case 6:
                return VersionFloor(*_VERSION.unpack(payload))
            case 7:
                horizon = _VERSION.unpack_from(payload)[0]
                pairs = _SEGMENT.iter_unpack(payload[_VERSION.size :])
                return LiveLogletSet(horizon, tuple(SegmentId(version, attempt) for version, attempt in pairs))
    except struct.error as error:
        raise MalformedError(f"a record of kind {record.kind} has {len(payload)} bytes") from error
    raise MalformedError(f"a record of kind {record.kind}, which this program does not know")


@attrs.define(eq=False)
class DurableLoglet:
    """Durable state of one loglet on one log server."""

    tail: int = 0
    """First unwritten offset here. It never drops, not even by a trim."""
    sealed: bool = False
    known_tail: int = 0
    """Known tail as last saved; the running server may know more."""
    trim: int = 0
    waves: WaveIndex = attrs.field(factory=WaveIndex)

    def follows(self, first: int) -> bool:
        """True if a wave at `first` may be stored: all before it is stored here or globally
        committed (local-commit rule)."""
        return first == self.tail or self.known_tail >= first

    def store(self, wave: Wave, address: Address) -> None:
        """Add a wave. One that does not follow is skipped: its predecessor's record failed, so it
        was never accepted."""
        self.known_tail = max(self.known_tail, wave.known_tail)
        if wave.first >= self.tail and wave.stop > self.trim and self.follows(wave.first):
            self.waves.add(wave, address)
            self.tail = wave.stop

    def extend(self, part: WaveIndex) -> None:
        """Add waves that were stored, each by `store`, in an earlier process."""
        self.waves.extend(part)
        self.tail = max(self.tail, part.stop)

    def learn(self, known_tail: int) -> None:
        self.known_tail = max(self.known_tail, known_tail)

    def trim_to(self, offset: int) -> None:
        """Drop what lies below `offset`. The tail stays: a trim says nothing about what was written here."""
        self.trim = max(self.trim, offset)
        self.learn(offset)
        self.waves.drop_below(self.trim)

    def restore(self, snapshot: LogletSnapshot) -> None:
        self.tail = max(self.tail, snapshot.tail)
        self.sealed = self.sealed or snapshot.sealed
        self.learn(snapshot.known_tail)
        self.trim_to(snapshot.trim)


@attrs.define(eq=False)
class DurableLogs:
    """Durable state of all loglets of one log server."""

    tombstones: Tombstones = attrs.field(factory=Tombstones)
    loglets: dict[SegmentId, DurableLoglet] = attrs.field(factory=dict)
    newest_address: Address = _ORIGIN

    @property
    def lowest_live_version(self) -> int:
        """Version below which all loglets are dropped."""
        return self.tombstones.floor

    def replay(self, address: Address, record: WalRecord) -> None:
        """Apply a record that the WAL recovers. Raises like `decode_untrusted`."""
        self.apply(decode_untrusted(record), address)

    def apply(self, change: Change, address: Address) -> None:
        """Apply a change whose record has become durable or was read back."""
        self.newest_address = max(self.newest_address, address)
        match change:
            case Wave():
                self.loglet(change.segment).store(change, address)
            case LogletSealed(segment):
                self.loglet(segment).sealed = True
            case LogletTrimmed(segment, offset):
                self.loglet(segment).trim_to(offset)
            case KnownTailRaised(segment, known_tail):
                self.loglet(segment).learn(known_tail)
            case LogletSnapshot(segment):
                self.loglet(segment).restore(change)
            case VersionFloor() | LiveLogletSet():
                self._drop(tombstones_after(self.tombstones, change))

    def snapshot(self) -> list[WalRecord]:
        """Records that a new WAL segment begins with. All they say is durable in earlier segments."""
        states = [
            encode(LogletSnapshot(segment, loglet.tail, loglet.known_tail, loglet.trim, loglet.sealed))
            for segment, loglet in self.loglets.items()
        ]
        tombstones = self.tombstones
        heads: list[Change] = [VersionFloor(tombstones.floor)]
        if tombstones.horizon:
            heads.append(LiveLogletSet(tombstones.horizon, tuple(sorted(tombstones.live))))
        return [*map(encode, heads), *states]

    def index(self, sequence: int) -> bytes:
        """Encode the index of a WAL segment (`wal.index_writer.Indexes`), without dropped loglets and
        trimmed waves."""
        first, stop = address_of(sequence, 0), address_of(sequence + 1, 0)
        parts = {segment: loglet.waves.part(first, stop) for segment, loglet in self.loglets.items()}
        return segment_index.encode({segment: part for segment, part in parts.items() if len(part)})

    def restore_untrusted(self, sequence: int, index: bytes) -> bool:
        """Restore the waves of a WAL segment from its index; False if it cannot be used
        (`wal.index_writer.Indexes`).

        The snapshot in the next segment says everything else.
        """
        try:
            parts = segment_index.decode_untrusted(index)
        except MalformedError:
            return False
        known = {segment: self.loglets.get(segment) or DurableLoglet() for segment in parts}
        if not all(part.follows(known[segment].waves) for segment, part in parts.items()):
            return False
        self.loglets.update(known)
        for segment, part in parts.items():
            known[segment].extend(part)
        return True

    def lowest_address_needed(self) -> Address:
        """Address before which the WAL may drop everything."""
        needed = [loglet.waves.lowest_address for loglet in self.loglets.values()]
        return min((address for address in needed if address is not None), default=self.newest_address)

    def loglet(self, segment: SegmentId) -> DurableLoglet:
        loglet = self.loglets.get(segment)
        if loglet is None:
            loglet = self.loglets[segment] = DurableLoglet()
        return loglet

    def _drop(self, tombstones: Tombstones) -> None:
        self.tombstones = tombstones
        for segment in [segment for segment in self.loglets if tombstones.is_dropped(segment)]:
            del self.loglets[segment]
