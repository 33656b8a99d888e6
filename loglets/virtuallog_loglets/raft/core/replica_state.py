"""State of one replica that outlives its process, and the encodings of its changes and of its base.

    StateSaved    loglet | term u64 | vote u64 | flags u8 (1: copy, 2: removed) | base
                  first of a replica, when it is removed, and at the head of each WAL segment
    TermChanged   loglet | term u64 | vote u64 (0: none)
    BaseSet       loglet | base
    TrimRaised    loglet | offset u64
    CommitKnown   loglet | index u64
    base          index u64 | term u64 | offset u64 | seal u64 (index of the SEAL, 0: none) | trim u64 | index of the members u64
                  | members, length u32 first | digest of the sessions of all below, length u32 first

The base of a StateSaved is the replica's commit point: records at and below it may be dropped with earlier segments once
they are trimmed. All is little-endian, and never changes once released. Kinds of records of the WAL: `wal_records.py`.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.session_digest import SessionDigest
from virtuallog_loglets.raft.core import membership
from virtuallog_loglets.raft.core.effects import (
    BaseSet,
    Change,
    CommitKnown,
    StateSaved,
    TermChanged,
    TrimRaised,
)
from virtuallog_loglets.raft.core.log import LogPoint, RaftLog
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.proposals import digest_record
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.messages import NO_NODE
from virtuallog_loglets.wal.core.record import Address

DIGEST_BYTES_MAX: Final = 1 << 20
"""Bytes of the sessions in a base: some thousand of them. Earlier ones are forgotten, and the base says so."""

_BASE: Final = struct.Struct("<QQQQQQ")
_LENGTH: Final = struct.Struct("<I")


@attrs.frozen(kw_only=True)
class LogBase:
    """Everything that a replica must know to begin its log behind `point`."""

    point: LogPoint
    seal: int
    """Index of the SEAL at or below the point; 0 if there is none."""
    trim: int
    members: Configuration
    digest: bytes

    def encode(self) -> bytes:
        members = self.members.encode()
        point = self.point
        head = _BASE.pack(point.index, point.term, point.offset, self.seal, self.trim, self.members.index)
        return b"".join((head, _LENGTH.pack(len(members)), members, _LENGTH.pack(len(self.digest)), self.digest))

    @classmethod
    def decode_untrusted(cls, blob: bytes) -> LogBase:
        """Decode a base.

        Raises:
            MalformedError: not a base.
        """
        try:
            index, term, offset, seal, trim, changed = _BASE.unpack_from(blob)
            at = _BASE.size
            parts: list[bytes] = []
            for _ in range(2):
                (length,) = _LENGTH.unpack_from(blob, at)
                at += _LENGTH.size
                parts.append(blob[at : at + length])
                at += length
        except struct.error as error:
            raise MalformedError("not the base of a Raft log") from error
        if at != len(blob) or max(seal, changed) > index or (index > 0) != (term > 0):
            raise MalformedError("not the base of a Raft log")
        SessionDigest.decode_untrusted(parts[1])
        members = membership.decode_untrusted(changed, parts[0])
        return cls(point=LogPoint(index, term, offset), seal=seal, trim=trim, members=members, digest=parts[1])


def point_before(first: RaftRecord) -> LogPoint:
    """Point at which a copy of a sealed loglet begins that has this record first. The term there is not known, nor needed."""
    return LogPoint(first.index - 1, min(first.term, first.index - 1), first.first)


@attrs.define(eq=False)
class ReplicaState:
    """Durable state of one replica, as a fold of its changes in the order of the WAL.

    A running replica is ahead of its disk by the writes in flight; after a replay the two are equal.
    """

    log: RaftLog
    term: int = 0
    vote: NodeId = NO_NODE
    commit: int = 0
    """Everything up to here is known to be committed."""
    trim: int = 0
    is_copy: bool = False
    """True if an administrator has copied the loglet here after it was sealed: this replica never votes."""
    is_removed: bool = False
    """True once this replica was removed from its log: a tombstone, with its term, vote and records, for ever."""
    digest: SessionDigest = attrs.field(factory=SessionDigest)
    """Sessions of everything up to `commit`."""

    @classmethod
    def begin(cls, members: Configuration, first_leader: NodeId = NO_NODE) -> ReplicaState:
        """State of a new replica.

        With a first leader every replica begins in term 1 and has voted for it: so that term needs no election.
        """
        return cls(RaftLog(members), int(first_leader != NO_NODE), first_leader)

    @classmethod
    def begin_copy(cls, members: Configuration, first: RaftRecord, trim: int) -> ReplicaState:
        """State of a replica that is to be a copy of a sealed loglet, from this record on.

        It knows no sessions of what was trimmed before.
        """
        point = point_before(first)
        digest = SessionDigest(has_forgotten=point.index > 0)
        return cls(RaftLog(members, point), first.term, NO_NODE, point.index, trim, is_copy=True, digest=digest)

    @classmethod
    def restore(cls, saved: StateSaved) -> ReplicaState:
        """State from the first change of a replica that is read back.

        Raises:
            MalformedError: it is not one.
        """
        base = LogBase.decode_untrusted(saved.base)
        state = cls(
            RaftLog(base.members, base.point), saved.term, saved.vote, base.point.index, base.trim, saved.is_copy
        )
        state.log.seal, state.digest = base.seal, SessionDigest.decode_untrusted(base.digest)
        state.is_removed = saved.is_removed
        return state

    def save(self, digest_bytes_max: int = DIGEST_BYTES_MAX) -> StateSaved:
        """All but the records, for the disk. What is committed and not durable here counts as not committed."""
        base = self.base_at(self._saved_point, digest_bytes_max)
        return StateSaved(self.term, self.vote, self.is_copy, base.encode(), self.is_removed)

    @property
    def lowest_unsaved(self) -> Address | None:
        """Address of the first durable record that `save` does not cover; None if there is none."""
        index = self._saved_point.index + 1
        return self.log.address(index) if index <= self.log.durable_index else None

    @property
    def is_sealed(self) -> bool:
        """True if a SEAL is known to be committed."""
        return 0 < self.log.seal <= self.commit

    @property
    def tail(self) -> int:
        """Offset of the first entry that is not known to be committed; the loglet's tail once it is sealed."""
        return self.log.offset_at(self.commit)

    # -- changes, live and in a replay ----------------------------------------------------------------------------

    def advance(self, commit: int) -> None:
        """Note that everything up to `commit`, which is in the log, is committed."""
        for index in range(self.commit + 1, commit + 1):
            record = self.log.kept(index)
            assert record is not None, "what is not committed is in memory"
            digest_record(self.digest, record)
        self.commit = max(self.commit, commit)
        self.log.release(self.commit)

    def set_base(self, base: LogBase) -> None:
        """Begin the log behind a base. Records behind it stay if the log has the record of the base."""
        point = base.point
        if point.index <= self.commit:
            return
        if self.log.matches(point.index, point.term):
            self.advance(point.index)
        else:
            self.log = RaftLog(base.members, point)
            self.log.seal = base.seal
            self.digest = SessionDigest.decode_untrusted(base.digest)
            self.commit = point.index
        self.trim = max(self.trim, base.trim)

    def trim_to(self, offset: int) -> None:
        """Note that entries below `offset` are not needed."""
        self.trim = max(self.trim, offset)

    def drop_trimmed(self, trim: int | None = None) -> bool:
        """Drop the records that lie wholly below the trim, if they are committed and durable; True if there were any.

        Args:
            trim: the trim as far as it is durable; None if all of it is.
        """
        log, trim = self.log, self.trim if trim is None else trim
        if log.first_at(log.base.index + 2) > trim:
            return False
        last = min(log.index_of(trim) - 1, self.commit, log.durable_index)
        if log.seal:
            last = min(last, log.seal - 1)  # a copy of the loglet is sealed by the record
        if last <= log.base.index:
            return False
        log.drop_below(last)
        return True

    def base_at(self, point: LogPoint, digest_bytes_max: int = DIGEST_BYTES_MAX) -> LogBase:
        """Everything that a replica must know to begin behind a committed point of this log."""
        digest = SessionDigest(has_forgotten=True) if self.is_sealed else self.digest
        return LogBase(
            point=point,
            seal=self.log.seal if self.log.seal <= point.index else 0,
            trim=self.trim,
            members=self.log.configuration_at(point.index),
            digest=digest.encode(point.offset, digest_bytes_max),
        )

    @property
    def _saved_point(self) -> LogPoint:
        index = min(self.commit, self.log.durable_index)
        term = self.log.term_at(index)
        assert term is not None
        return LogPoint(index, term, self.log.offset_at(index))

    def lowest_unsaved_by(self, saved: StateSaved) -> Address | None:
        """Address of the first record that this state does not cover; None if it covers all that is in the log."""
        index = max(LogBase.decode_untrusted(saved.base).point.index, self.log.base.index) + 1
        return self.log.address(index) if index <= self.log.last_index else None

    # -- replay ---------------------------------------------------------------------------------------------------

    def replay(self, change: Change, address: Address) -> None:
        """Apply a change that was read back.

        Raises:
            MalformedError, CorruptionError: it does not fit what was read before.
        """
        match change:
            case RaftRecord():
                self._replay_record(change, address)
            case TermChanged(term, vote) | StateSaved(term, vote, _, _):
                if term >= self.term:  # the head of a WAL segment may know of a later term than what follows it
                    self.term, self.vote = term, vote
                self.is_removed = self.is_removed or (isinstance(change, StateSaved) and change.is_removed)
            case BaseSet(encoded):
                self.set_base(LogBase.decode_untrusted(encoded))
            case TrimRaised(offset):
                self.trim_to(offset)
            case CommitKnown(index):
                self.advance(min(index, self.log.last_index))

    def _replay_record(self, record: RaftRecord, address: Address) -> None:
        log = self.log
        if record.index <= log.base.index:
            return
        if log.matches(record.index, record.term):
            return
        if record.index > log.last_index + 1 or record.index <= self.commit:
            raise MalformedError(f"record {record.index} behind {log.last_index}, of which {self.commit} are committed")
        log.truncate(record.index - 1)
        if record.first != log.next_offset or record.term < log.last_term:
            raise MalformedError(f"record {record.index} does not follow record {log.last_index}")
        log.append(record, address=address)
        self.advance(max(self.commit, min(record.commit, log.last_index)))
        self.drop_trimmed()
