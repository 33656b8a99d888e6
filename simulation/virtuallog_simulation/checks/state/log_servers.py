"""Looks into the LogServers themselves: invariant I7. What no client can see is checked here.

Actual comparisons are counted, as a look that sees nothing finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import LogletTail
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation, proof
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_loglets.native.messages import NativeState
from virtuallog_loglets.tombstones import Tombstones

_UNKNOWN = 1 << 62
"""Tail of a server that cannot be inspected: it may have anything."""
SEVERAL_SERVERS: Final = "looked: offsets on several servers"
KNOWN_TAILS: Final = "looked: known tails"
AFTER_A_RESTART: Final = "looked: waves after a restart"
LOOKED: Final = (SEVERAL_SERVERS, KNOWN_TAILS, AFTER_A_RESTART)


def servers_agree(
    servers: Mapping[NodeId, LogServer],
    configs: Mapping[SegmentId, NativeConfig],
    looked: Counter[str] | None = None,
) -> Iterator[Violation]:
    """One wave per offset on all servers, and no server takes for committed what is not.

    Args:
        servers: the last state of every LogServer that ran; of a crashed one what it had acknowledged to itself.
        configs: of the loglets to look at.
        looked: counts what was compared.
    """
    looked = Counter() if looked is None else looked
    for segment, config in configs.items():
        members = {node: servers[node] for node in config.servers if node in servers}
        yield from _one_wave_per_offset(segment, members, looked)
        states = {node: one.state(segment) for node, one in members.items()}
        yield from _known_is_committed(segment, config, states, looked)


def committed_below_the_stop(
    history: History, segment: SegmentId, config: NativeConfig, servers: Mapping[NodeId, LogServer]
) -> Iterator[Violation]:
    """Entries on a majority of sealed servers lie below a tail that a client has received. So
    repair completes what is below the tail that its check returns, and nothing past it.

    Valid for a loglet whose sequencer is dead, when every check and repair has ended.
    """
    tails = [tail for tail in history.operations(LogletTail) if tail.returned and tail.action.segment == segment]
    told = max((tail.result.tail for tail in tails), default=0)
    states = [server.state(segment) for node, server in servers.items() if node in config.servers]
    committed = committed_tail([state.local_tail for state in states if state.sealed], len(config.servers))
    if committed > told:
        message = f"loglet {segment}: a majority has everything up to {committed}, the highest tail told is {told}"
        yield Violation("committed below the stop", message, proof(*tails))


def _one_wave_per_offset(
    segment: SegmentId, servers: Mapping[NodeId, LogServer], looked: Counter[str]
) -> Iterator[Violation]:
    owners: dict[int, tuple[tuple[int, int, int], NodeId]] = {}
    for node, server in servers.items():
        durable = server.durable.loglets.get(segment)
        for wave in durable.waves if durable is not None else ():
            first, entries, _ = wave
            for offset in range(first, first + entries):
                known, other = owners.setdefault(offset, (wave, node))
                looked[SEVERAL_SERVERS] += other != node
                if known != wave:
                    message = f"loglet {segment}: nodes {other} and {node} have different waves at offset {offset}"
                    yield Violation("one wave per offset", message)


def _known_is_committed(
    segment: SegmentId, config: NativeConfig, states: Mapping[NodeId, NativeState], looked: Counter[str]
) -> Iterator[Violation]:
    moved = config.loglet is not None
    tails = [_held(states[node], moved=moved) if node in states else _UNKNOWN for node in config.servers]
    committed = sorted(tails, reverse=True)[config.majority - 1]
    for node, state in states.items():
        looked[KNOWN_TAILS] += state.known_tail > 0 and committed < _UNKNOWN
        # Copies end with their segment. What was committed beyond, by a repair that no append waited for, is not copied, and known still.
        if state.known_tail > (max(tails) if moved else committed):
            message = f"loglet {segment}: node {node} knows tail {state.known_tail}, committed is {committed}"
            yield Violation("known is committed", message)
        if state.trim > state.known_tail:
            message = f"loglet {segment}: node {node} has trimmed {state.trim}, known is {state.known_tail}"
            yield Violation("trimmed is known", message)


def _held(state: NativeState, *, moved: bool) -> int:
    """Up to where a server had everything. What was trimmed before the loglet was moved there has not been copied, and was
    committed: only closed loglets are moved."""
    return max(state.local_tail, state.trim) if moved else state.local_tail


@attrs.frozen
class HeldLoglet:
    """State that a LogServer holds of one loglet."""

    tail: int
    sealed: bool
    trim: int
    waves: frozenset[tuple[int, int, int]]

    @classmethod
    def by(cls, logs: DurableLogs) -> Mapping[SegmentId, HeldLoglet]:
        """Complete state at this moment."""
        return {
            segment: cls(loglet.tail, loglet.sealed, loglet.trim, frozenset(loglet.waves))
            for segment, loglet in logs.loglets.items()
        }


def restart_forgets_nothing(
    node: NodeId,
    served: Mapping[SegmentId, HeldLoglet],
    recovered: DurableLogs,
    looked: Counter[str] | None = None,
    tombstones: Tombstones | None = None,
) -> Iterator[Violation]:
    """Entries that a server has served, or has reported as durable, would be served after a loss of
    power.

    Args:
        node: which server.
        served: what it held for durable.
        recovered: what its WAL says when it is replayed from what was synced, at that same moment.
        looked: counts what was compared.
        liveness: what it held for dropped.
    """
    looked, after = Counter() if looked is None else looked, HeldLoglet.by(recovered)
    if tombstones is not None and not _drops_all(recovered.tombstones, tombstones):
        message = f"node {node} has dropped by {tombstones}, after a restart by {recovered.tombstones}"
        yield Violation("restart forgets nothing", message)
    for segment, held in served.items():
        if recovered.tombstones.is_dropped(segment):
            continue  # dropped meanwhile
        kept = after.get(segment, HeldLoglet(0, False, 0, frozenset()))
        looked[AFTER_A_RESTART] += len(held.waves)
        lost = {wave for wave in held.waves - kept.waves if wave[0] + wave[1] > kept.trim}
        if lost or kept.tail < held.tail or kept.sealed < held.sealed or kept.trim < held.trim:
            told = f"tail {held.tail}, trim {held.trim}, {'' if held.sealed else 'not '}sealed"
            message = (
                f"loglet {segment} on node {node}: {told}, after a restart {kept.tail}, {kept.trim}, {kept.sealed}"
            )
            yield Violation("restart forgets nothing", f"{message}, without {sorted(lost)}")


def _drops_all(after: Tombstones, before: Tombstones) -> bool:
    """True if all that `before` drops is dropped by `after`, which may be newer."""
    if after.floor < before.floor or after.horizon < before.horizon:
        return False
    return after.horizon > before.horizon or after.live <= before.live
