"""Records of a node's write-ahead log: changes of all its Raft replicas, and which loglets have been dropped.

    kind 1   a record of a Raft log (records.py)         kind 4   BaseSet          kind 7   loglets of versions below u64 are dropped
    kind 2   StateSaved                                  kind 5   TrimRaised          kind 8   of the versions up to u64, all but these
    kind 3   TermChanged                                 kind 6   CommitKnown               loglets are dropped

Kinds 2 to 6 begin with the loglet: version u64, attempt u64. Little-endian; never changed once released.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.core.effects import BaseSet, Change, CommitKnown, StateSaved, TermChanged, TrimRaised
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.core.replica_state import DIGEST_BYTES_MAX, ReplicaState
from virtuallog_loglets.tombstones import LiveLogletSet, Tombstones, VersionFloor, tombstones_after
from virtuallog_loglets.wal.core.record import Address, WalRecord, sequence_of

_RECORD, _SAVED, _TERM, _BASE, _TRIMMED, _COMMIT, _FLOOR, _LIVE = range(1, 9)
_SEGMENT: Final = struct.Struct("<QQ")
_TWO: Final = struct.Struct("<QQ")
_STATE: Final = struct.Struct("<QQB")
_ONE: Final = struct.Struct("<Q")
_COPY: Final = 1
_REMOVED: Final = 2
_ORIGIN: Final = Address(0)

Dropping: TypeAlias = VersionFloor | LiveLogletSet


def encode(segment: SegmentId, change: Change) -> WalRecord:
    """Encode a change of a replica. The payload of a record is its blob: nothing is copied."""
    prefix = _SEGMENT.pack(segment.version, segment.attempt)
    match change:
        case RaftRecord():
            return WalRecord(_RECORD, change.blob)
        case StateSaved(term, vote, is_copy, base, is_removed):
            flags = _COPY * is_copy | _REMOVED * is_removed
            return WalRecord(_SAVED, prefix + _STATE.pack(term, vote, flags) + base)
        case TermChanged(term, vote):
            return WalRecord(_TERM, prefix + _TWO.pack(term, vote))
        case BaseSet(base):
            return WalRecord(_BASE, prefix + base)
        case TrimRaised(number):
            return WalRecord(_TRIMMED, prefix + _ONE.pack(number))
        case CommitKnown(number):
            return WalRecord(_COMMIT, prefix + _ONE.pack(number))


def encode_dropping(change: Dropping) -> WalRecord:
    """Encode what drops loglets."""
    match change:
        case VersionFloor(version):
            return WalRecord(_FLOOR, _ONE.pack(version))
        case LiveLogletSet(horizon, segments):
            packed = b"".join(_SEGMENT.pack(segment.version, segment.attempt) for segment in segments)
            return WalRecord(_LIVE, _ONE.pack(horizon) + packed)


def decode_untrusted(record: WalRecord) -> tuple[SegmentId, Change] | Dropping:
    """Decode what a record holds.

    Raises:
        MalformedError: not a record of Raft replicas, or one of a later version.
        CorruptionError: a record that does not match its checksum.
    """
    payload = record.payload
    try:
        match record.kind:
            case 1:
                found = records.parse_untrusted(payload)
                return found.segment, found
            case 7:
                return VersionFloor(*_ONE.unpack(payload))
            case 8:
                pairs = _SEGMENT.iter_unpack(payload[_ONE.size :])
                return LiveLogletSet(_ONE.unpack_from(payload)[0], tuple(SegmentId(*pair) for pair in pairs))
        segment, rest = SegmentId(*_SEGMENT.unpack_from(payload)), payload[_SEGMENT.size :]
        return segment, _decode_change(record.kind, rest)
    except struct.error as error:
        raise MalformedError(f"a record of kind {record.kind} has {len(payload)} bytes") from error


def _decode_change(kind: int, rest: bytes) -> Change:
    match kind:
        case 2:
            term, vote, flags = _STATE.unpack_from(rest)
            if flags & ~(_COPY | _REMOVED):
                raise MalformedError(f"flags {flags:#x} of a replica, some of which this program does not know")
            state = rest[_STATE.size :]
            return StateSaved(term, NodeId(vote), bool(flags & _COPY), state, bool(flags & _REMOVED))
        case 3:
            term, vote = _TWO.unpack(rest)
            return TermChanged(term, NodeId(vote))
        case 4:
            return BaseSet(rest)
        case 5:
            return TrimRaised(*_ONE.unpack(rest))
        case 6:
            return CommitKnown(*_ONE.unpack(rest))
    raise MalformedError(f"a record of kind {kind}, which this program does not know")


@attrs.define(eq=False)
class DurableReplicas:
    """Replicas of one node, as its write-ahead log has them.

    Each WAL segment begins with the state of every replica. A replay that begins there needs, of what lies before, only the
    records which that state does not cover: those that were not committed then. So a segment may only be the first one if
    no such record lies in an earlier one.
    """

    tombstones: Tombstones = attrs.field(factory=Tombstones)
    states: dict[SegmentId, ReplicaState] = attrs.field(factory=dict)
    newest_address: Address = _ORIGIN
    """Address of the last durable record."""
    _needs: dict[int, Address] = attrs.field(factory=dict, init=False)
    """Lowest address that a WAL segment needs of earlier ones, by its sequence number."""

    # -- replay ---------------------------------------------------------------------------------------------------

    def replay(self, address: Address, record: WalRecord) -> None:
        """Apply a record that the WAL recovers. Raises like `decode_untrusted`."""
        self.newest_address = max(self.newest_address, address)
        found = decode_untrusted(record)
        if isinstance(found, VersionFloor | LiveLogletSet):
            self.drop(found)
            return
        segment, change = found
        if self.tombstones.is_dropped(segment):
            return  # a replica goes on until the drop is durable, so its changes may lie behind it
        state = self.states.get(segment)
        if state is not None:
            state.replay(change, address)
            if isinstance(change, StateSaved):
                self._note_need(sequence_of(address), state.lowest_unsaved_by(change))
        elif isinstance(change, StateSaved):
            self.states[segment] = ReplicaState.restore(change)
        else:
            raise MalformedError(f"a change of loglet {segment}, whose state is not known")

    def drop(self, change: Dropping) -> list[SegmentId]:
        """Drop loglets; returns those that were here."""
        self.tombstones = tombstones_after(self.tombstones, change)
        dropped = [segment for segment in self.states if self.tombstones.is_dropped(segment)]
        for segment in dropped:
            del self.states[segment]
        return dropped

    # -- segments of the WAL --------------------------------------------------------------------------------------

    def snapshot(self, bytes_max: int) -> list[WalRecord]:
        """Records that a new WAL segment begins with; all that they say is durable by then.

        Args:
            bytes_max: most bytes that they may take.
        """
        heads = [encode_dropping(VersionFloor(self.tombstones.floor))]
        if self.tombstones.horizon:
            live = tuple(sorted(self.tombstones.live))
            heads.append(encode_dropping(LiveLogletSet(self.tombstones.horizon, live)))
        open_logs = sum(not state.is_sealed for state in self.states.values())
        digest_bytes = min(DIGEST_BYTES_MAX, bytes_max // (2 * max(open_logs, 1)))
        sequence = sequence_of(self.newest_address) + 1
        for segment, state in self.states.items():
            heads.append(encode(segment, state.save(digest_bytes)))
            self._note_need(sequence, state.lowest_unsaved)
        return heads

    def _note_need(self, sequence: int, address: Address | None) -> None:
        if address is not None:
            self._needs[sequence] = min(address, self._needs.get(sequence, address))

    @property
    def lowest_address_needed(self) -> Address:
        """Address before which the WAL may drop everything."""
        needed = [state.log.lowest_address for state in self.states.values()]
        lowest = min((address for address in needed if address is not None), default=self.newest_address)
        while (earlier := self._needs.get(sequence_of(lowest), lowest)) < lowest:
            lowest = earlier
        self._needs = {sequence: need for sequence, need in self._needs.items() if sequence >= sequence_of(lowest)}
        return lowest
