"""What the parts of a replicated log say to each other: proposers (coordinators, fills), replicas, readers, clients.

The log is that of Apache Mesos: numbered positions, one value each, decided by Paxos. Position 0 never holds data of a user.
`proposal` is a number that at most one proposer owns for a position: a replica promises a number only once. Every answer of a
replica says which incarnation of its store speaks (docs/internals/protocols/paxos.md, "Incarnations").
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Question, Request
from virtuallog.contract.types import POSITION_MAX, NodeId
from virtuallog_loglets.paxos.offsets import PLACE_MAX

NOWHERE: Final = -1
"""A position, offset or proposal that there is none of."""
NO_NODE: Final = NodeId(NOWHERE)
"""No node."""
PROPOSAL_MAX: Final = 1 << 62
"""What can be stored, and counted up from. Replicas take no leaps towards it: `RAISE_MAX` in replica.py."""

# Of answers, whose numbers go into the next request: an answer with others cannot be read. Requests: checking.py.
_NUMBER: Final = attrs.validators.and_(attrs.validators.ge(NOWHERE), attrs.validators.le(PROPOSAL_MAX))
_PLACE: Final = attrs.validators.and_(attrs.validators.ge(NOWHERE), attrs.validators.le(PLACE_MAX + 1))
_OFFSET: Final = attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(POSITION_MAX))


class Status(enum.IntEnum):
    """Of a replica. Only a voting one promises and accepts; a position may be learned in any status."""

    EMPTY = 0
    """Knows nothing, and cannot say whether a former store knew something."""
    STARTING = 1
    """Has seen that all others are empty or starting, too."""
    RECOVERING = 2
    """Catches up with what a quorum of voting replicas has."""
    VOTING = 3


class Verdict(enum.IntEnum):
    """The three outcomes of a promise or a write. Ignored is no refusal: the same number may be tried again later."""

    ACCEPT = 0
    REJECT = 1
    IGNORED = 2


@attrs.frozen(kw_only=True)
class Incarnation:
    """The newest store of a node that somebody has heard of, for one log."""

    node: NodeId
    incarnation: int


Incarnations: TypeAlias = tuple[Incarnation, ...]


@attrs.frozen(kw_only=True)
class PaxosRecord:
    """One position, as a replica keeps it."""

    position: int
    promised: int
    performed: int = NOWHERE
    """The proposal with which `value` was accepted."""
    value: bytes = b""
    """See values.py; empty if nothing was accepted here."""
    learned: bool = False
    """`value` is decided."""


@attrs.frozen(kw_only=True)
class Standing:
    """A replica at one moment. All of it is durable, but for `learned`, which is merely true."""

    status: Status
    incarnation: int
    promised: int = attrs.field(validator=_NUMBER)
    """The implicit promise."""
    begin: int = attrs.field(validator=_PLACE)
    """First position that is not truncated."""
    learned: int = attrs.field(validator=_PLACE)
    """First position, from `begin` on, that is not known to be decided here."""
    end: int = attrs.field(validator=_PLACE)
    """Highest position promised or written here; 0 in an empty log."""
    uniform_from: int
    """From here through `end` every position was accepted with the proposal `uniform`, and none is missing or known to be decided;
    end + 1 if there is no such position."""
    uniform: int
    seal: int = attrs.field(default=NOWHERE, validator=_PLACE)
    """Position of the SEAL if it is learned, with everything below: the log is closed, there, for good."""
    seal_seen: int = attrs.field(default=NOWHERE, validator=_PLACE)
    """Lowest position at which a SEAL is accepted here, decided or not."""
    trim: int = attrs.field(default=0, validator=_OFFSET)
    """Offset in the loglet below which readers see nothing any more."""
    coordinator: NodeId = NO_NODE
    """Who leads, as far as is known here: who was promised the highest number, or says that he was."""
    incarnations: Incarnations = ()
    """As in other answers: whoever infers from what several accepted that it is decided counts no older store."""
    full: bool = False
    """The disk is nearly full: no more data are accepted here. Told in the answer to `GetStanding` only."""


# -- to replicas ------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Promised:
    verdict: Verdict
    proposal: int = attrs.field(validator=_NUMBER)
    """ACCEPT: the number promised. REJECT: the one that is in the way. IGNORED: the number asked for."""
    end: int = attrs.field(validator=_PLACE)
    """Of an implicit promise: the replica's `end`."""
    records: tuple[PaxosRecord, ...]
    """Of an explicit promise: what was there before it, for each position asked for that had anything accepted or learned.
    A truncated position counts as a learned NOP with a tombstone."""
    incarnation: int
    incarnations: Incarnations
    coordinator: NodeId = NO_NODE
    """REJECT: who was promised the number in the way, if that is known."""


@attrs.frozen(kw_only=True)
class Promise(Request[Promised]):
    """Proposer to replica: promise `proposal`. Without positions (`first` NOWHERE): for every position that has no record of its
    own, the implicit promise. With: for each position from `first` up to and without `stop`, the explicit one."""

    segment: SegmentId
    proposal: int
    coordinator: NodeId
    first: int = NOWHERE
    stop: int = NOWHERE


@attrs.frozen(kw_only=True)
class Decided:
    """All positions from `first` up to and without `stop` are decided, each with `proposal`: whoever has accepted something there
    with this number or a higher one has accepted the decision."""

    proposal: int
    first: int
    stop: int


NOTHING_DECIDED: Final = Decided(proposal=NOWHERE, first=0, stop=0)


@attrs.frozen(kw_only=True)
class PaxosWritten:
    verdict: Verdict
    proposal: int = attrs.field(validator=_NUMBER)
    end: int = attrs.field(validator=_PLACE)
    records: tuple[PaxosRecord, ...]
    """ACCEPT: the decision, for each position of the request that is learned. These were not accepted with the number of the
    request, whatever their value is. Else nothing."""
    incarnation: int
    incarnations: Incarnations
    coordinator: NodeId = NO_NODE


@attrs.frozen(kw_only=True)
class PaxosWrite(Request[PaxosWritten]):
    """Proposer to replica: accept `values` at consecutive positions from `first` on, all or none. Durable before the answer."""

    segment: SegmentId
    proposal: int
    coordinator: NodeId
    first: int
    values: tuple[bytes, ...]
    decided: Decided = NOTHING_DECIDED


@attrs.frozen(kw_only=True)
class Learn(Request[Standing]):
    """Anybody who knows to replica: these positions are decided. Taken in any status. `records` are learned ones."""

    segment: SegmentId
    decided: Decided = NOTHING_DECIDED
    records: tuple[PaxosRecord, ...] = ()
    coordinator: NodeId = NO_NODE
    rebuilds: bool = False
    """From whoever copies a closed log to this node, which the chain does not name, or names with a later data directory: a
    replica is made here, if there is none. It learns, and never votes: it is of use once it has learned everything up to the
    SEAL. A `Learn` of nothing is answered as well."""


@attrs.frozen(kw_only=True)
class PaxosRecovered:
    status: Status
    promised: int = attrs.field(validator=_NUMBER)
    begin: int = attrs.field(validator=_PLACE)
    end: int = attrs.field(validator=_PLACE)
    incarnation: int
    incarnations: Incarnations
    """Includes the asker's, which is durable here from now on."""
    trim: int = attrs.field(default=0, validator=_OFFSET)


@attrs.frozen(kw_only=True)
class PaxosRecover(Request[PaxosRecovered]):
    """A replica that does not vote (or catches up without leading) to all: how far are you? The answer of a voting replica counts."""

    segment: SegmentId
    node: NodeId
    incarnation: int
    """Of the asker; NOWHERE: it has forgotten nothing and only wants to catch up."""


@attrs.frozen(kw_only=True)
class GetStanding(Question[Standing]):
    segment: SegmentId


@attrs.frozen(kw_only=True)
class WaitLearned(Question[Standing]):
    """Answered once `learned` is above `past`, or the log is sealed, or some seconds have gone by."""

    segment: SegmentId
    past: int


@attrs.frozen(kw_only=True)
class PaxosRecords:
    records: tuple[PaxosRecord, ...]
    """Ascending, learned ones only, without a hole from the first to the last."""
    standing: Standing


@attrs.frozen(kw_only=True)
class ReadRecords(Question[PaxosRecords]):
    """Learned records from `first` on, below `stop`: at least one if `first` is learned here, then as many as fit in about
    `max_bytes`. None at all: truncated (`first` below `standing.begin`), or not learned here."""

    segment: SegmentId
    first: int
    stop: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class TrimSealed(Request[Standing]):
    """Of a sealed log, where nothing can be appended any more: drop what lies below the loglet offset `offset`."""

    segment: SegmentId
    offset: int


# -- to coordinators --------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class CoordinatorReply:
    """What became of a request to a coordinator: done, or `elsewhere`: nothing was done, this node does not lead."""

    place: int
    """Append: loglet offset of the first entry. Truncate: the effective trim point. Seal: the offset where the loglet ends.
    Settle: first loglet offset that is not written. NOWHERE: ask elsewhere."""
    coordinator: NodeId
    """Who may lead, as far as this node knows."""


@attrs.frozen(kw_only=True)
class PaxosAppend(Request[CoordinatorReply]):
    """Client to coordinator: order and decide one batch. Errors are those of `Loglet.append`."""

    segment: SegmentId
    batch: bytes
    opens: bool
    expected_tail: int = NOWHERE
    insist: bool = False
    """Nobody who was said to lead has answered: stand for election rather than say who might."""


@attrs.frozen(kw_only=True)
class PaxosSeal(Request[CoordinatorReply]):
    """Client to coordinator: fill everything and decide SEAL behind it. Idempotent."""

    segment: SegmentId
    insist: bool = False


@attrs.frozen(kw_only=True)
class PaxosTruncate(Request[CoordinatorReply]):
    """Client to coordinator: decide that readers see nothing below the loglet offset `offset`. On a sealed log: SealedError."""

    segment: SegmentId
    offset: int
    insist: bool = False


@attrs.frozen(kw_only=True)
class PaxosSettle(Request[CoordinatorReply]):
    """Client to coordinator: decide every position up to the highest that a quorum knows of, and tell the replicas."""

    segment: SegmentId
    past: int = NOWHERE
    """A position that the client has seen at some replica: decide everything through it. NOWHERE: none."""
    insist: bool = False
