"""Short ways to say the messages and values that tests compare."""

from __future__ import annotations

from metastore.messages import Accept, Ballot, Decision, Prepare, Proposal, Vote, genesis
from tests.metastore.world import THREE
from virtuallog.types import NodeId

GENESIS = genesis(THREE)


def ballot(round_: int, node: int = 1) -> Ballot:
    return Ballot(round=round_, node=node, boot=1, nonce=1000 * node + round_)


def proposal(value: bytes, attempt: int = 1, members: tuple[NodeId, ...] = THREE) -> Proposal:
    return Proposal(value=value, members=members, attempt=attempt, earlier=())


def decision(version: int, value: bytes = b"decided", members: tuple[NodeId, ...] = THREE) -> Decision:
    return Decision(version=version, proposal=proposal(value, members=members))


def vote(round_: int, value: bytes, node: int = 1) -> Vote:
    return Vote(ballot=ballot(round_, node), proposal=proposal(value))


def prepare(slot: int, round_: int, node: int = 1) -> Prepare:
    return Prepare(slot=slot, ballot=ballot(round_, node))


def accept(slot: int, round_: int, value: bytes, node: int = 1) -> Accept:
    return Accept(slot=slot, ballot=ballot(round_, node), proposal=proposal(value))
