"""What clients of the register and its acceptors say to each other, and the values they say it about.

    register    version 0 (empty) ----> version 1 ----> ... ----> version k        newest decided
    slot                                slot 1                     slot k      slot k+1    being decided

One independent single-slot Paxos, a *slot*, decides each version (Delos, OSDI'20, section 4.1; Paxos Made Simple,
section 2). The decision of version k names the members that decide slot k+1. metastore.capnp holds the same structs.
"""

from __future__ import annotations

from typing import Final

import attrs
import crc32c

from virtuallog.contract.ports import Question, Request
from virtuallog.contract.types import NodeId

VALUE_BYTES_MAX: Final = 1 << 20
"""Largest value. A register is some kilobytes; an acceptor holds at most two values, a message carries one."""

EARLIER_MAX: Final = 256
"""How many winners a decision remembers (2 KiB). A put in doubt is repeated within seconds, and even a cluster that
changes its chain every second needs four minutes for this many."""

MEMBERS_MAX: Final = 32
"""More members than this is a mistake: each adds a message to every round."""


@attrs.frozen(order=True, kw_only=True)
class Ballot:
    """Orders the attempts to decide one slot. Every phase 1 has a ballot that nobody ever used or will use again.

    A node's ballots differ from those of its earlier lives by `boot`, which is durable, and all ballots differ by the
    random `nonce`, drawn anew for every phase 1, also within one process.
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
    """What a slot decides."""

    value: bytes = attrs.field(repr=False)
    members: tuple[NodeId, ...]
    """Who decides the next version: sorted, each once."""
    attempt: int
    """Random 63-bit number of the `put`. It tells winners from losers; equal bytes do not."""
    earlier: tuple[int, ...] = attrs.field(repr=False)
    """Attempts that decided the versions before this one, newest last: at most `EARLIER_MAX`."""


@attrs.frozen(kw_only=True)
class Decision:
    """The outcome of a slot: true for ever, whoever repeats it. Version 0 is the empty register of a new cluster."""

    version: int
    proposal: Proposal

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Who decides the next version."""
        return self.proposal.members

    def winner(self, version: int) -> int | None:
        """The attempt that decided `version`; None if that is too long ago (or still to come)."""
        winners = (*self.proposal.earlier, self.proposal.attempt)
        index = version - self.version + len(winners) - 1
        return winners[index] if version >= 1 and 0 <= index < len(winners) else None

    def next(self, value: bytes, members: tuple[NodeId, ...] | None, attempt: int) -> Proposal:
        """A proposal for the version after this one; None keeps the members."""
        earlier = (*self.proposal.earlier, self.proposal.attempt) if self.version >= 1 else ()
        return Proposal(
            value=value,
            members=self.members if members is None else members,
            attempt=attempt,
            earlier=earlier[-EARLIER_MAX:],
        )


def genesis(members: tuple[NodeId, ...]) -> Decision:
    """Version 0: decided by configuration, not by votes. Its attempt is a checksum of the members, so that nodes whose
    configurations differ take no part in each other's slot 1."""
    attempt = crc32c.crc32c(",".join(map(str, members)).encode())
    return Decision(version=0, proposal=Proposal(value=b"", members=members, attempt=attempt, earlier=()))


@attrs.frozen(kw_only=True)
class Vote:
    """A proposal that an acceptor accepted, and the ballot it came with."""

    ballot: Ballot
    proposal: Proposal


@attrs.frozen(kw_only=True)
class Standing:
    """Where an acceptor stands in the slot it was asked about."""

    known: int
    """Newest decided version it knows; -1: none, not even who the first members are. It votes in slot known + 1 only,
    so an answer with `known` below slot - 1 says nothing about the slot: teach it (`Learn`) and ask again."""
    decision: Decision | None
    """That newest decision, if it is the slot's or a later one: a pointer forward for whoever is behind."""
    promised: Ballot
    """It accepts nothing below this; equal to the ballot of a `Prepare`: promised."""
    accepted: Vote | None
    """The last proposal it accepted in this slot."""


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
    """Read-only: promises nothing and disturbs nobody. Slot 0 asks for whatever decision the acceptor knows."""

    slot: int
    after: int
    """The attempt that decided the version before the slot, as far as the client knows. An acceptor of the slot that
    knows another one refuses: one of the two has a false history."""


@attrs.frozen(kw_only=True)
class Prepare(Request[Standing]):
    """Phase 1: promise not to accept below `ballot`, and tell what was accepted."""

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
    """Phase 3: this was decided. Safe to send to anybody, at any time, any number of times."""

    decision: Decision
