"""Messages of a Raft log between replicas, and between clients and replicas.

Terms, indexes and offsets are those of the loglet `segment`. docs/internals/protocols/raft.md has the table of what is
durable before each answer.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Question, Request
from virtuallog.contract.types import NodeId

NO_EXPECTATION: Final = -1
"""`RaftAppend.expected_tail` of an unconditional append."""
NOWHERE: Final = -1
"""`LeaderReply.place` of a replica that does not lead and has done nothing."""
NO_NODE: Final = NodeId(0)
"""No leader is known. Nodes are numbered from 1."""
NO_MEMBER: Final = 0
"""`ChangeLogMember.kind` of a removal."""

# -- between replicas -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class VoteAnswer:
    """Answer of a voter. All that it says is durable."""

    granted: bool
    term: int
    """The term of the request if it was granted, else the voter's own."""
    retired: int = 0
    """Index of the committed record whose members leave the candidate out; 0 if there is none. A candidate that has no later
    members was removed, and could not be told before."""


@attrs.frozen(kw_only=True)
class RequestVote(Request[VoteAnswer]):
    """Candidate to voter: vote for me in `term`, or, with `pre`, would you?"""

    segment: SegmentId
    term: int
    candidate: NodeId
    last_index: int
    last_term: int
    pre: bool = False
    """True for a question that stores nothing, on either side."""
    forced: bool = False
    """True if a voter that hears from a leader may vote all the same: the leadership is transferred, or the leader is
    stuck and the log has to be sealed."""


# not frozen: made for every store, and frozen classes take twice as long to make
@attrs.define(kw_only=True)
class RecordsAppended:
    """Answer of a replica that was sent records. All that it says is durable."""

    term: int
    """Own term. If it is not that of the request, nothing else counts."""
    accepted: bool
    index: int
    """If accepted: the index up to which its log is equal to the leader's. Else: the last index of its log that may be
    equal; `hint_term` is the term there."""
    hint_term: int = 0
    waiting: bool = False
    """True if a client waits here for the next commit."""
    full: bool = False
    """True if its disk has no room for what it refused last."""


@attrs.define(kw_only=True)
class AppendRecords(Request[RecordsAppended]):
    """Leader to replica: here are the records behind `previous_index`; without records, I still lead."""

    segment: SegmentId
    term: int
    leader: NodeId
    previous_index: int
    previous_term: int
    commit: int
    records: tuple[bytes, ...] = ()
    base: bytes = b""
    """State at `previous_index`, for a replica that is behind the leader's base: it begins its log there."""


@attrs.frozen(kw_only=True)
class TransferAnswer:
    """Answer of the replica that was to stand."""

    term: int


@attrs.frozen(kw_only=True)
class StandNow(Request[TransferAnswer]):
    """Leader to replica: you have all that I have; stand for election at once."""

    segment: SegmentId
    term: int
    leader: NodeId


# -- clients and replicas ---------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class RaftStanding:
    """Knowledge of one replica about its log. `tail`, `sealed` and `trim` hold for the loglet."""

    tail: int
    """Offset of the first entry that this replica does not know to be committed."""
    sealed: bool
    """True if a SEAL is known to be committed: then `tail` is the loglet's, for ever."""
    trim: int
    """Everything below may be gone."""
    leader: NodeId = NO_NODE
    term: int = 0
    role: str = ""
    """LEADER, FOLLOWER, CANDIDATE, LEARNER or NON_PARTICIPANT."""
    state: str = ""
    """BOOTSTRAPPING, CONFIGURING or RUNNING."""
    last_index: int = 0
    commit_index: int = 0
    full: bool = False
    """True if its disk has no room for the next segment of the write-ahead log."""


@attrs.define(kw_only=True)
class LeaderReply:
    """Answer of a leader, or of a replica that names one."""

    place: int
    """Offset of a batch's first entry, or the tail. NOWHERE if this replica does not lead."""
    sealed: bool = False
    leader: NodeId = NO_NODE
    """The leader, as far as this replica knows."""


@attrs.frozen(kw_only=True)
class RaftAppend(Request[LeaderReply]):
    """Client to leader: order and commit one batch. Errors are those of `Loglet.append`."""

    segment: SegmentId
    batch: bytes
    opens: bool
    expected_tail: int = NO_EXPECTATION


@attrs.frozen(kw_only=True)
class RaftCheckTail(Request[LeaderReply]):
    """Client to leader: the tail, after a majority has confirmed that it leads."""

    segment: SegmentId


@attrs.frozen(kw_only=True)
class RaftSeal(Request[LeaderReply]):
    """Client to leader: have a SEAL committed. Any replica that knows one to be committed answers as well."""

    segment: SegmentId
    stand: bool = False
    """True to a replica that does not lead: stand for election, whether or not a leader lives, and seal."""


@attrs.frozen(kw_only=True)
class RaftGetStanding(Question[RaftStanding]):
    """Client to replica: what do you know?"""

    segment: SegmentId


@attrs.frozen(kw_only=True)
class RaftWaitTail(Question[RaftStanding]):
    """Client to replica: answer once the tail is past `past`, the loglet is sealed, or some seconds have gone by."""

    segment: SegmentId
    past: int


@attrs.frozen(kw_only=True)
class RaftRecords:
    """Consecutive committed records. If there are any, the first contains the requested offset."""

    records: tuple[bytes, ...]
    standing: RaftStanding


@attrs.frozen(kw_only=True)
class ReadRaftRecords(Question[RaftRecords]):
    """Client to replica: records from the one that holds `start`, while they begin below `stop`, and are committed."""

    segment: SegmentId
    start: int
    stop: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class RaftTrim(Request[RaftStanding]):
    """Client to replica: nothing below `offset`, which is committed, is needed any more."""

    segment: SegmentId
    offset: int


@attrs.frozen(kw_only=True)
class CopyRecords(Request[RaftStanding]):
    """Administrator to a replica that is new in the set of a sealed loglet: take these committed records.

    They follow what it has, or begin its copy. Once the SEAL is among them, it speaks for the loglet. A copy never votes.
    """

    segment: SegmentId
    records: tuple[bytes, ...]
    trim: int


# -- members of a log that is used by itself ---------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class LogMemberEntry:
    """One member, as the log's configuration has it."""

    store: NodeId
    kind: int
    """A `membership.MemberKind`."""
    address: str
    """host:port"""


@attrs.frozen(kw_only=True)
class LogMembership:
    """Members of a log, as one replica has them in its own records, and the standing of that replica."""

    store: NodeId
    """The replica that answers."""
    index: int
    """Index of the record with the members; 0 for those that the log was founded with."""
    members: tuple[LogMemberEntry, ...]
    """Empty if the replica has joined no log yet."""
    removed: bool
    """True if the replica was removed from its log, for good."""
    standing: RaftStanding


@attrs.frozen(kw_only=True)
class GetLogMembership(Question[LogMembership]):
    """Operator or newcomer to replica: which members do you know?"""

    segment: SegmentId


@attrs.frozen(kw_only=True)
class ChangeLogMember(Request[LeaderReply]):
    """Operator to leader: add one member, or remove it."""

    segment: SegmentId
    store: NodeId
    kind: int
    """A `membership.MemberKind` to add it as, or NO_MEMBER to remove it."""
    seen: int
    """Index of the members that the operator has seen: no other change is undone."""
    address: str = ""


@attrs.frozen(kw_only=True)
class TransferLogLeadership(Request[LeaderReply]):
    """Operator to leader: have another voter lead."""

    segment: SegmentId
    target: NodeId


@attrs.frozen(kw_only=True)
class RetireReplica(Request[RaftStanding]):
    """Leader to a replica that the members of the committed record at `index` leave out: you were removed, for good."""

    segment: SegmentId
    index: int
