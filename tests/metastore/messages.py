"""Short constructors of the messages and values that tests compare."""

from __future__ import annotations

from tests.metastore.world import THREE
from virtuallog.contract.types import NodeId
from virtuallog_metastore.messages import Accept, Ask, Ballot, Decision, Prepare, Proposal, Vote, genesis

GENESIS = genesis(THREE)


def ballot(round_: int, node: int = 1) -> Ballot:
    return Ballot(round=round_, node=node, boot=1, nonce=1000 * node + round_)


def proposal(value: bytes, attempt: int = 1, members: tuple[NodeId, ...] = THREE) -> Proposal:
    return Proposal(value=value, members=members, attempt=attempt, earlier=())


def decision(version: int, value: bytes = b"decided", members: tuple[NodeId, ...] = THREE) -> Decision:
    return Decision(version=version, proposal=proposal(value, members=members))


def vote(round_: int, value: bytes, node: int = 1) -> Vote:
    return Vote(ballot=ballot(round_, node), proposal=proposal(value))


def ask(slot: int) -> Ask:
    return Ask(slot=slot, after=after(slot))


def after(slot: int) -> int:
    """Return the attempt that decided the version before the slot, in these tests."""
    return GENESIS.proposal.attempt if slot == 1 else proposal(b"").attempt


def prepare(slot: int, round_: int, node: int = 1) -> Prepare:
    return Prepare(slot=slot, after=after(slot), ballot=ballot(round_, node))


def accept(slot: int, round_: int, value: bytes, node: int = 1) -> Accept:
    return Accept(slot=slot, after=after(slot), ballot=ballot(round_, node), proposal=proposal(value))
