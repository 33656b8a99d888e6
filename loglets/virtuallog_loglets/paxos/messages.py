"""Messages of a replicated log, between proposers (coordinators, fills), replicas, readers and clients.

The log is that of Apache Mesos: numbered positions, one value each, decided by Paxos. Position 0 never holds user data.
`proposal` is a number that at most one proposer owns for a position: a replica promises a number only once.
Every answer of a replica carries the incarnation of its store (docs/internals/protocols/paxos.md, "Incarnations").
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Question, Request
from virtuallog.contract.types import POSITION_MAX, NodeId
from virtuallog_loglets.paxos.offsets import PLACE_MAX

NOWHERE: Final = -1
"""Stands for no position, no offset or no proposal."""
NO_NODE: Final = NodeId(NOWHERE)
"""No node."""
PROPOSAL_MAX: Final = 1 << 62
"""Highest proposal that can be stored. Replicas refuse leaps towards it: `RAISE_MAX` in core/replica.py."""


# Validators for numbers in answers, since these go into the next request: an answer outside them cannot be read.
# Requests are checked in core/validation.py.
def _between(low: int, high: int) -> Callable[[Any, Any, int], None]:
    """Validator of one call, where `attrs.validators` would take five: they run for each answer."""

    def validate(_: Any, attribute: Any, value: int) -> None:
        if not low <= value <= high:
            raise ValueError(f"'{attribute.name}' must be from {low} to {high}: {value}")

    return validate


_NUMBER: Final = _between(NOWHERE, PROPOSAL_MAX)
_PLACE: Final = _between(NOWHERE, PLACE_MAX + 1)
_OFFSET: Final = _between(0, POSITION_MAX)


class Status(enum.IntEnum):
    """Status of a replica. Only a voting replica promises and accepts; a replica learns in any status."""

    EMPTY = 0
    """Knows nothing, and cannot tell whether a former store of its node knew something."""
    STARTING = 1
    """Has seen that all other replicas are EMPTY or STARTING."""
    RECOVERING = 2
    """Catches up with a quorum of voting replicas."""
    VOTING = 3
    """Promises and accepts."""


class Verdict(enum.IntEnum):
    """The three outcomes of a promise or a write.

    IGNORED is no refusal: the same number may be tried again later.
    """

    ACCEPT = 0
    REJECT = 1
    IGNORED = 2


@attrs.frozen(kw_only=True)
class Incarnation:
    """The newest store of a node that the sender has heard of, for one log."""

    node: NodeId
    incarnation: int


Incarnations: TypeAlias = tuple[Incarnation, ...]


@attrs.frozen(kw_only=True)
class PaxosRecord:
    """The record that a replica keeps for one position."""

    position: int
    promised: int
    """Highest proposal promised at this position."""
    performed: int = NOWHERE
    """Proposal with which `value` was accepted; NOWHERE if none was."""
    value: bytes = b""
    """Accepted value, encoded as in core/values.py; empty if none was accepted."""
    learned: bool = False
    """`value` is decided."""


@attrs.frozen(kw_only=True)
class Standing:
    """The state of a replica at one moment. All of it is durable except `learned`, which is merely true."""

    status: Status
    incarnation: int
    promised: int = attrs.field(validator=_NUMBER)
    """The implicit promise: the proposal promised for all positions without a record."""
    begin: int = attrs.field(validator=_PLACE)
    """First position that is not truncated."""
    learned: int = attrs.field(validator=_PLACE)
    """First position, from `begin` on, that is not known to be decided here."""
    end: int = attrs.field(validator=_PLACE)
    """Highest position promised or written here; 0 in an empty log."""
    uniform_from: int
    """First position from which all through `end` were accepted with the proposal `uniform`. None of them is missing or
    known to be decided. It is end + 1 if there is no such position."""
    uniform: int
    """Proposal of the positions from `uniform_from` on; NOWHERE if there are none."""
    seal: int = attrs.field(default=NOWHERE, validator=_PLACE)
    """Position of the SEAL, if the SEAL and everything below are learned: the log is closed there for good.
    NOWHERE otherwise."""
    seal_seen: int = attrs.field(default=NOWHERE, validator=_PLACE)
    """Lowest position at which a SEAL is accepted here, decided or not."""
    trim: int = attrs.field(default=0, validator=_OFFSET)
    """Loglet offset below which readers see nothing any more."""
    coordinator: NodeId = NO_NODE
    """Leader as far as this replica knows: the node that was promised the highest number, or that claims so."""
    incarnations: Incarnations = ()
    """Newest stores of other nodes, as in all answers. A check that counts acceptances must not
    count older stores."""
    full: bool = False
    """True if the disk is nearly full and accepts no more data. Set in the answer to `GetStanding` only."""


# -- to replicas ------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Promised:
    """Answer of a replica to `Promise`."""

    verdict: Verdict
    proposal: int = attrs.field(validator=_NUMBER)
    """ACCEPT: the number promised. REJECT: the higher number that was promised. IGNORED: the number asked for."""
    end: int = attrs.field(validator=_PLACE)
    """Highest position of the replica; used after an implicit promise."""
    records: tuple[PaxosRecord, ...]
    """Explicit promise: the earlier record of each requested position that has an accepted or learned value.
    A truncated position appears as a learned NOP with a tombstone."""
    incarnation: int
    incarnations: Incarnations
    coordinator: NodeId = NO_NODE
    """REJECT: the node that was promised the higher number, if known."""


@attrs.frozen(kw_only=True)
class Promise(Request[Promised]):
    """Proposer to replica: promise `proposal`.

    Without positions (`first` NOWHERE) it asks for the implicit promise, which holds for every position without a record.
    With positions it asks for the explicit promise of each position in [first, stop).
    """

    segment: SegmentId
    proposal: int
    coordinator: NodeId
    first: int = NOWHERE
    stop: int = NOWHERE


@attrs.frozen(kw_only=True)
class Decided:
    """Statement that all positions in [first, stop) are decided, each with `proposal`.

    A replica that accepted a value there with this number or a higher one has accepted the decision.
    """

    proposal: int
    first: int
    stop: int


NOTHING_DECIDED: Final = Decided(proposal=NOWHERE, first=0, stop=0)


@attrs.frozen(kw_only=True)
class PaxosWritten:
    """Answer of a replica to `PaxosWrite`."""

    verdict: Verdict
    proposal: int = attrs.field(validator=_NUMBER)
    end: int = attrs.field(validator=_PLACE)
    records: tuple[PaxosRecord, ...]
    """ACCEPT: the decision of each requested position that is already learned. These were not accepted with the number of
    the request, even if the value is the same. Otherwise empty."""
    incarnation: int
    incarnations: Incarnations
    coordinator: NodeId = NO_NODE
    has_waiters: bool = False
    """True if a `WaitLearned` is parked here: a leader that has nothing more to write announces the decision at once."""


@attrs.frozen(kw_only=True)
class PaxosWrite(Request[PaxosWritten]):
    """Proposer to replica: accept `values` at consecutive positions from `first` on, all or none.

    Accepted values are durable before the answer.
    """

    segment: SegmentId
    proposal: int
    coordinator: NodeId
    first: int
    values: tuple[bytes, ...]
    decided: Decided = NOTHING_DECIDED


@attrs.frozen(kw_only=True)
class Learn(Request[Standing]):
    """Any node that knows, to replica: these positions are decided.

    Taken in any status; `records` are learned ones.
    """

    segment: SegmentId
    decided: Decided = NOTHING_DECIDED
    records: tuple[PaxosRecord, ...] = ()
    coordinator: NodeId = NO_NODE
    rebuilds: bool = False
    """True from a node that copies a closed log here. A replica is made if there is none: the chain does not name this
    node, or names it with a later data directory. That replica learns and never votes; it is of use once it has learned
    everything up to the SEAL. An empty `Learn` is answered as well."""


@attrs.frozen(kw_only=True)
class PaxosRecovered:
    """Answer of a replica to `PaxosRecover`."""

    status: Status
    promised: int = attrs.field(validator=_NUMBER)
    begin: int = attrs.field(validator=_PLACE)
    end: int = attrs.field(validator=_PLACE)
    incarnation: int
    incarnations: Incarnations
    """Newest stores known here. Includes the caller's, which is durable here from now on."""
    trim: int = attrs.field(default=0, validator=_OFFSET)


@attrs.frozen(kw_only=True)
class PaxosRecover(Request[PaxosRecovered]):
    """Request for the extent of the log, to all replicas, from one that does not vote or that catches up without leading.

    Only answers of voting replicas count.
    """

    segment: SegmentId
    node: NodeId
    incarnation: int
    """Incarnation of the caller's store; NOWHERE if it has forgotten nothing and only catches up."""


@attrs.frozen(kw_only=True)
class GetStanding(Question[Standing]):
    """Request for the state of a replica."""

    segment: SegmentId


@attrs.frozen(kw_only=True)
class WaitLearned(Question[Standing]):
    """Long poll: answered once `learned` is above `past`, or the log is sealed, or some seconds have passed."""

    segment: SegmentId
    past: int


@attrs.frozen(kw_only=True)
class PaxosRecords:
    """Answer of a replica to `ReadRecords`."""

    records: tuple[PaxosRecord, ...]
    """Learned records, ascending, without a hole."""
    standing: Standing


@attrs.frozen(kw_only=True)
class ReadRecords(Question[PaxosRecords]):
    """Request for learned records in [first, stop).

    The answer has at least one record if `first` is learned, then as many as fit in about `max_bytes`. It has none if
    `first` is truncated (below `standing.begin`) or not learned here.
    """

    segment: SegmentId
    first: int
    stop: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class TrimSealed(Request[Standing]):
    """Request to drop everything below the loglet offset `offset` of a sealed log, which takes no TRUNCATE any more."""

    segment: SegmentId
    offset: int


# -- to coordinators --------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class CoordinatorReply:
    """Answer of a coordinator: the request is done, or nothing was done as this node does not lead (*elsewhere*)."""

    place: int
    """Append: loglet offset of the first entry. Truncate: the effective trim point. Seal: the offset where the loglet ends.
    Settle: first loglet offset that is not written. NOWHERE: ask another node."""
    coordinator: NodeId
    """Node that may lead, as far as this node knows."""

    @property
    def leader(self) -> NodeId:
        """The name that all kinds have for it (`virtuallog.client.leader_client.LeaderAnswer`)."""
        return self.coordinator


@attrs.frozen(kw_only=True)
class PaxosAppend(Request[CoordinatorReply]):
    """Client to coordinator: order and decide one batch. Errors are those of `Loglet.append`."""

    segment: SegmentId
    batch: bytes
    opens: bool
    expected_tail: int = NOWHERE
    insist: bool = False
    """True if no node that was said to lead has answered: the node stands for election instead of naming a leader."""


@attrs.frozen(kw_only=True)
class PaxosSeal(Request[CoordinatorReply]):
    """Client to coordinator: fill everything and decide SEAL behind it. Idempotent."""

    segment: SegmentId
    insist: bool = False


@attrs.frozen(kw_only=True)
class PaxosTruncate(Request[CoordinatorReply]):
    """Client to coordinator: decide that readers see nothing below the loglet offset `offset`.

    On a sealed log the answer is SealedError.
    """

    segment: SegmentId
    offset: int
    insist: bool = False


@attrs.frozen(kw_only=True)
class PaxosSettle(Request[CoordinatorReply]):
    """Client to coordinator: decide every position up to the highest that a quorum knows of, and tell the replicas."""

    segment: SegmentId
    past: int = NOWHERE
    """Position that the client has seen at some replica: everything through it is to be decided. NOWHERE if none."""
    insist: bool = False
