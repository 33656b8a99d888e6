"""Node that orders the appends to a segment now: in a native loglet its config names it, in others
a server knows."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Services
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import NodeId
from virtuallog.plugins import loglet_providers
from virtuallog_loglets.paxos import wire as paxos_wire
from virtuallog_loglets.paxos.messages import GetStanding
from virtuallog_loglets.raft import wire as raft_wire
from virtuallog_loglets.raft.messages import RaftGetStanding

ANSWER_SECONDS: Final = 2.0
ASKED: Final = (paxos_wire.REPLICA, raft_wire.REPLICA)
"""Interfaces that `services` must support."""


async def find_orderer(services: Services, segment: Segment) -> NodeId:
    """The node.

    Raises:
        UnavailableError: no server knows one.
    """
    provider = replicated(loglet_providers()[segment.kind])
    assert provider is not None, "measured loglets live on nodes"
    placement = provider.placement(segment.config)
    if placement.sequencers:
        return placement.sequencers[0].node
    for server in placement.servers:
        try:
            orderer = await _ask(services, server, segment)
        except UnavailableError:
            continue
        if orderer in placement.servers:
            return orderer
    raise UnavailableError(f"no server knows which one orders segment {segment.id}")


async def _ask(services: Services, server: NodeId, segment: Segment) -> NodeId:
    """The node that orders, as far as a server knows; not one of the servers if it knows none."""
    if segment.kind == "raft":
        return (await services.call(server, RaftGetStanding(segment=segment.id), ANSWER_SECONDS)).leader
    return (await services.call(server, GetStanding(segment=segment.id), ANSWER_SECONDS)).coordinator
