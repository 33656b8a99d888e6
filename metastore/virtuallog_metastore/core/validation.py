"""Validation of messages: limits that acceptors and clients hold.

An oversize value, once accepted, could never be repaired by others. So every acceptor and every
client refuses it.
"""

from __future__ import annotations

from virtuallog.contract.errors import MalformedError, TooLargeError
from virtuallog.contract.types import POSITION_MAX
from virtuallog_metastore.core.acceptor import Message
from virtuallog_metastore.messages import (
    BALLOT_ZERO,
    EARLIER_MAX,
    MEMBERS_MAX,
    VALUE_BYTES_MAX,
    Accept,
    Ballot,
    Learn,
    Prepare,
    Proposal,
)


def check_untrusted(message: Message) -> None:
    """Check that an acceptor may process this message.

    Raises:
        MalformedError: fields out of range.
        TooLargeError: the value is over the limit.
    """
    match message:
        case Prepare():
            _check_slot(message.slot, lowest=1)
            _check_ballot(message.ballot)
        case Accept():
            _check_slot(message.slot, lowest=1)
            _check_ballot(message.ballot)
            check_proposal(message.proposal)
        case Learn():
            _check_slot(message.decision.version, lowest=0)
            check_proposal(message.decision.proposal)
        case _:
            _check_slot(message.slot, lowest=0)


def check_proposal(proposal: Proposal) -> None:
    """Check that a value may stand in the register.

    Raises:
        MalformedError: no members, unsorted or too many members, too many earlier winners.
        TooLargeError: the value is over the limit.
    """
    if len(proposal.value) > VALUE_BYTES_MAX:
        raise TooLargeError(what="bytes in the register", size=len(proposal.value), limit=VALUE_BYTES_MAX)
    members = proposal.members
    if not 1 <= len(members) <= MEMBERS_MAX or list(members) != sorted(set(members)):
        raise MalformedError(f"not a list of 1 to {MEMBERS_MAX} members, sorted, each once: {members}"[:200])
    if len(proposal.earlier) > EARLIER_MAX:
        raise MalformedError(f"{len(proposal.earlier)} earlier winners, where {EARLIER_MAX} is the limit")
    if not 0 <= proposal.attempt <= POSITION_MAX:
        raise MalformedError(f"not a 63-bit attempt: {proposal.attempt}")


def _check_slot(slot: int, lowest: int) -> None:
    if not lowest <= slot <= POSITION_MAX:
        raise MalformedError(f"no such slot: {slot}")


def _check_ballot(ballot: Ballot) -> None:
    if ballot <= BALLOT_ZERO or ballot.round > POSITION_MAX:
        raise MalformedError(f"not a ballot to vote for: {ballot}")
