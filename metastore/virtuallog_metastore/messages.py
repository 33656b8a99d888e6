"""Messages between clients of the register and its acceptors, and their values.

    register    version 0 (empty) ----> version 1 ----> ... ----> version k        newest decided
    slot                                slot 1                     slot k      slot k+1    being
    decided

One independent single-slot Paxos, a *slot*, decides each version (Delos, OSDI'20, section 4.1;
Paxos Made Simple, section 2). The decision of version k names the members that decide slot k+1.
metastore.capnp holds the same structs.
"""

from __future__ import annotations

from typing import Final

import attrs
import crc32c

from virtuallog.contract.ports import Question, Request
from virtuallog.contract.types import NodeId

VALUE_BYTES_MAX: Final = 1 << 20
"""Limit of a value in bytes. A register is some kilobytes; an acceptor holds at most two values, a
message carries one."""

EARLIER_MAX: Final = 256
"""Number of winners that a decision remembers (2 KiB).

A put in doubt is repeated within seconds. Even a cluster that changes its chain every second needs
four minutes for this many.
"""

MEMBERS_MAX: Final = 32
"""Limit of members. More would be a mistake: each adds a message to every round."""


@attrs.frozen(order=True, kw_only=True)
class Ballot:
    """Order of the attempts to decide one slot. Every phase 1 has a ballot that is used nowhere
    else, ever.

    A node's ballots differ from those of its earlier lives by `boot`, which is durable. All ballots
    differ by the random `nonce`, drawn anew for every phase 1, also within one process.
    """

    round: int
    node: int
    """The proposing node; 0 for a client that is no node."""
    boot: int
    """Process start of that node; 0 for a client."""
    nonce: int
    """Random 63-bit number."""


BALLOT_ZERO: Final = Ballot(round=0, node=0, boot=0, nonce=0)
"""Below every ballot in use: nothing promised."""


@attrs.frozen(kw_only=True)
class Proposal:
    """The value proposed for a slot."""

    value: bytes = attrs.field(repr=False)
    members: tuple[NodeId, ...]
    """Members that decide the next version: sorted, each once."""
    attempt: int
    """Random 63-bit number of the `put`. Tells winners from losers; equal bytes do not."""
    earlier: tuple[int, ...] = attrs.field(repr=False)
    """Attempts that decided the versions before this one, newest last: at most `EARLIER_MAX`."""


@attrs.frozen(kw_only=True)
class Decision:
    """The outcome of a slot: true for ever, from any source. Version 0 is the empty register of a
    new cluster."""

    version: int
    proposal: Proposal

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Members that decide the next version."""
        return self.proposal.members

    def winner(self, version: int) -> int | None:
        """Return the attempt that decided `version`; None if that is too long ago, or still to come."""
        winners = (*self.proposal.earlier, self.proposal.attempt)
        index = version - self.version + len(winners) - 1
        return winners[index] if version >= 1 and 0 <= index < len(winners) else None

    def next(self, value: bytes, members: tuple[NodeId, ...] | None, attempt: int) -> Proposal:
        """Make a proposal for the version after this one. With `members` None they stay the same."""
        earlier = (*self.proposal.earlier, self.proposal.attempt) if self.version >= 1 else ()
        return Proposal(
            value=value,
            members=self.members if members is None else members,
            attempt=attempt,
            earlier=earlier[-EARLIER_MAX:],
        )


def genesis(members: tuple[NodeId, ...]) -> Decision:
    """Make version 0: decided by configuration, not by votes.

    Its attempt is a checksum of the members. So nodes with different configurations take no part in
    each other's slot 1.
    """
    attempt = crc32c.crc32c(",".join(map(str, members)).encode())
    return Decision(version=0, proposal=Proposal(value=b"", members=members, attempt=attempt, earlier=()))


@attrs.frozen(kw_only=True)
class Vote:
    """A proposal that an acceptor accepted, and the ballot it came with."""

    ballot: Ballot
    proposal: Proposal


@attrs.frozen(kw_only=True)
class Standing:
    """State of an acceptor in the slot it was asked about."""

    known: int
    """Newest decided version it knows; -1 if none, not even the first members.

    It votes only in slot known + 1. So an answer with `known` below slot - 1 gives no information
    about the slot: teach the acceptor (`Learn`) and ask again.
    """
    decision: Decision | None
    """Newest decision, if it is the slot's or a later one: a pointer forward for clients that are
    behind. Else None."""
    promised: Ballot
    """It accepts nothing below this ballot. Equal to the ballot of a `Prepare`: promised."""
    accepted: Vote | None
    """The last proposal it accepted in this slot; None if it accepted none."""


@attrs.frozen(kw_only=True)
class Receipt:
    """Answer to `Accept`: a `Standing` without the bytes that the proposer has anyway."""

    known: int
    decision: Decision | None
    promised: Ballot
    """Equal to the ballot of the `Accept`: accepted, durably. Above: refused."""


@attrs.frozen(kw_only=True)
class Learned:
    """Answer to `Learn`."""

    known: int
    """Newest version that this acceptor durably knows."""


@attrs.frozen(kw_only=True)
class Ask(Question[Standing]):
    """A read-only request: promises nothing and disturbs no client. Slot 0 asks for any decision
    the acceptor knows."""

    slot: int
    after: int
    """Attempt that decided the version before the slot, as far as the client knows.

    An acceptor of the slot that knows another one refuses: one of the two has a false history.
    """


@attrs.frozen(kw_only=True)
class Prepare(Request[Standing]):
    """Phase 1: promise not to accept below `ballot`, and report what was accepted."""

    slot: int
    after: int
    ballot: Ballot


@attrs.frozen(kw_only=True)
class Accept(Request[Receipt]):
    """Phase 2: accept `proposal`, unless a higher ballot was promised."""

    slot: int
    after: int
    ballot: Ballot
    proposal: Proposal


@attrs.frozen
class Learn(Question[Learned]):
    """Phase 3: report a decision. Safe to send to any acceptor, at any time, any number of times."""

    decision: Decision
