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
from virtuallog_loglets.paxos import wire
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding

ANSWER_SECONDS: Final = 2.0
ASKED: Final = (wire.REPLICA,)
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
            standing = await services.call(server, GetStanding(segment=segment.id), ANSWER_SECONDS)
        except UnavailableError:
            continue
        if standing.coordinator != NOWHERE:
            return standing.coordinator
    raise UnavailableError(f"no server knows which one orders segment {segment.id}")
