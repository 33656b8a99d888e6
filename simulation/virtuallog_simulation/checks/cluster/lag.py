"""Servers of the open loglet that live and are behind, long after peace: nothing would bring them up to the others.

Valid for a cluster whose nodes all live and reach each other, and whose log has taken appends
since.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtuallog.contract.chain import Segment
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.native.config import decode_untrusted
from virtuallog_simulation.checks.cluster.node_state import log_servers
from virtuallog_simulation.world.cluster import Cluster

LOOKED = "looked: tails of live servers"


def live_servers_catch_up(cluster: Cluster, segment: Segment) -> Iterator[Violation]:
    """The local tails of all live servers of an open native loglet are the same."""
    if segment.kind != "native" or segment.stop is not None:
        return
    config, servers = decode_untrusted(segment.config), log_servers(cluster)
    states = {
        node: servers[node].state(config.loglet or segment.id)
        for node in config.servers
        if node in servers and cluster.machines[node].running
    }
    if any(state.sealed for state in states.values()):
        return  # it goes on elsewhere
    tails = {node: state.local_tail for node, state in states.items()}
    cluster.world.counts[LOOKED] += len(tails) > 1
    if len(set(tails.values())) > 1:
        yield Violation("no server lags for good", f"loglet {segment.id}: the local tails of live servers are {tails}")
