"""Effects of the replica core. Drivers carry them out in list order."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.messages import (
    AppendRecords,
    LeaderReply,
    RaftStanding,
    RecordsAppended,
    RequestVote,
    StandNow,
    TransferAnswer,
    VoteAnswer,
)
from virtuallog_loglets.wal.core.record import Address

Ticket: TypeAlias = Any
"""Opaque handle of the driver that identifies the receiver of an answer."""


# not frozen, like the others that are made for every batch: frozen classes take twice as long to make
@attrs.define
class RaftSend:
    """Send `request` to `peer`; then call `vote_answered` or `records_answered` with the number."""

    peer: NodeId
    request: RequestVote | AppendRecords | StandNow
    number: int
    stored: tuple[Address, ...] = ()
    """Addresses of consecutive records to put into `request.records`, as many as fit. If the first cannot be read, send
    nothing and say that there was no answer."""


@attrs.frozen
class TermChanged:
    """Durable: the replica's term, and its vote in that term (NO_NODE if it has none)."""

    term: int
    vote: NodeId


@attrs.frozen
class StateSaved:
    """Durable: the whole state of a replica but for its records. The first change of each, and one at the head of each WAL
    segment."""

    term: int
    vote: NodeId
    is_copy: bool
    base: bytes
    """State at the replica's commit point."""
    is_removed: bool = False


@attrs.frozen
class BaseSet:
    """Durable: the log begins behind this point, which a leader has sent; nothing before it is here."""

    encoded: bytes


@attrs.frozen
class TrimRaised:
    """Durable: entries below `offset` are not needed any more."""

    offset: int


@attrs.frozen
class CommitKnown:
    """Durable: everything up to `index` is committed. Written once a SEAL is, so that a restart knows it without a leader."""

    index: int


Change: TypeAlias = RaftRecord | StateSaved | TermChanged | BaseSet | TrimRaised | CommitKnown
"""Change of a replica's durable state. A record drops those at its index and behind, if they are of another term."""


@attrs.define(eq=False)
class RaftPersist:
    """Append the changes to the WAL behind all earlier ones, then call `persisted` (or `failed`) with this."""

    segment: SegmentId
    number: int
    changes: tuple[Change, ...]
    after: list[RaftEffect]
    """Effects that rest on these changes, and on all before them."""
    essential: bool
    """True if it may use the last room of a full disk."""

    @property
    def has_records(self) -> bool:
        """True if records are among the changes. If such a write is refused, those of records behind it must be, too."""
        return any(isinstance(change, RaftRecord) for change in self.changes)


@attrs.define
class RaftAnswer:
    """Send this answer to the requester. What it says is durable."""

    ticket: Ticket
    outcome: VoteAnswer | RecordsAppended | TransferAnswer | LeaderReply | RaftStanding | VirtualLogError | None
    """None stands for what the replica knows by then (`RaftReplica.standing`)."""


@attrs.frozen
class RaftFail:
    """End this role. It may begin anew from the disk if the error is a refusal of that; after any other the disk cannot be trusted."""

    error: VirtualLogError


RaftEffect: TypeAlias = RaftSend | RaftPersist | RaftAnswer | RaftFail
