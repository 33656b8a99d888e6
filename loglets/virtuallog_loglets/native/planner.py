"""Choice of servers and sequencer for a new NativeLoglet, and of the config of a moved one.

The rules are those of `virtuallog.contract.placement`. The sequencer is on the planner's own node
if that node can order, because that node is known to answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract import placement
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.config import NativeConfig, decode_untrusted

LOG_SERVER: Final = "log-server"
SEQUENCER: Final = "sequencer"

SETTINGS: Final = {
    "servers": "which nodes keep entries, such as 1,2,3: an odd number",
    "sequencer": "which node orders; by default the one that is asked",
    "replicas": f"how many nodes keep entries, if servers are not named; {placement.REPLICAS_DEFAULT} at first",
}
"""Settings that an operator may give, with help text."""


def plan(cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> NativeConfig:
    """See `LogletProvider.plan`."""
    placement.check_names("native", settings, SETTINGS)
    former = decode_untrusted(previous) if previous is not None else None
    servers = placement.choose_servers(cluster, settings, former.servers if former else (), LOG_SERVER)
    sequencer = _sequencer(cluster, settings)
    others = former.others if former else {}
    return NativeConfig(servers=servers, sequencer=sequencer.node, boot=sequencer.boot, others=others)


def move(segment: SegmentId, config: NativeConfig, servers: Sequence[NodeId]) -> NativeConfig:
    """See `ReplicatedProvider.move`."""
    chosen = placement.check_move(config.servers, servers)
    return attrs.evolve(config, servers=chosen, loglet=config.loglet or segment)


def _sequencer(cluster: Cluster, settings: Mapping[str, str]) -> Member:
    if "sequencer" in settings:
        node = placement.parse_node("sequencer", settings["sequencer"])
        return placement.living("sequencer", cluster, node, SEQUENCER)
    able = placement.able(cluster, SEQUENCER)
    if not able:
        raise InvalidSettingError("sequencer", f"no node with role {SEQUENCER} answers")
    return able[0]
