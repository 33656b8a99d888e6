"""Rebuilt copies of closed segments: each has everything, independent of what the server had
before.

An original server may have holes, as an append needs a majority. A server that came later may not:
so a majority keeps everything, whichever servers leave (`ReplicatedProvider.replicate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virtuallog.contract.chain import Segment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.native.config import decode_untrusted
from virtuallog_simulation.checks.cluster.node_state import log_servers
from virtuallog_simulation.checks.history.facts import chains
from virtuallog_simulation.world.cluster import Cluster

LOOKED: Final = "looked: copies that were made"


def made_copies_are_whole(cluster: Cluster) -> Iterator[Violation]:
    """Rebuilt copies are whole, for native segments of the newest chain and servers that run."""
    servers = log_servers(cluster)
    for segment, newcomers in _newcomers(cluster):
        assert segment.stop is not None
        loglet, stop = decode_untrusted(segment.config).loglet or segment.id, segment.offset(segment.stop)
        for node in sorted(newcomers):
            if node not in servers or not cluster.machines[node].running:
                continue
            cluster.world.counts[LOOKED] += 1
            held = servers[node].durable.loglets.get(loglet)
            at = 0 if held is None else held.trim
            for first, entries, _ in sorted(held.waves) if held is not None else ():
                at = max(at, first + entries) if first <= at else at
            if at < stop:
                yield Violation(
                    "copies are whole", f"segment {segment.id} on node {node}: nothing at offset {at} of {stop}"
                )


def _newcomers(cluster: Cluster) -> Iterator[tuple[Segment, frozenset[NodeId]]]:
    """The closed native segments, each with the servers that a copy was made for."""
    found: dict[int, tuple[Segment, frozenset[NodeId], frozenset[NodeId]]] = {}
    newest: dict[int, tuple[Segment, frozenset[NodeId], frozenset[NodeId]]] = {}
    for known in chains(cluster.world.history).values():
        newest = {}
        for segment in known.chain.segments:
            if segment.kind == "native" and segment.stop is not None:
                config = decode_untrusted(segment.config)
                servers = frozenset(config.servers)
                before, former, made = found.get(segment.start, (segment, servers, frozenset()))
                if before.id != segment.id:
                    made = (made & servers) | (servers - former)
                newest[segment.start] = segment, servers, made
        found = newest
    return ((segment, made) for segment, _, made in newest.values())
