"""Formatting of a new data directory: the rule for wiped disks.

A node that lost its disk looks exactly like one that starts for the first time, but must not vote: it has forgotten
promises that others rely on. So a directory is formatted only when *every* listed peer says that it is new as well.
There are two steps (Mesos' EMPTY and STARTING, see `virtuallog_server.storage.identity`): no node votes before all have left
the state in which a wiped disk finds itself. Hence a node without a file that meets a formatted peer has lost a disk, or was
added later. It stays out, unless the register of the cluster expects it (`virtuallog_server.node.join`).

`advance` is the rule; `Formatter` asks the peers until it lets the node in.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import attrs

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.ports import Clock, Services
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log
from virtuallog_server.node.join import join
from virtuallog_server.storage.identity import FormatPhase, Identity

ASK_PAUSE_SECONDS: Final = 0.02
"""First pause between two rounds of questions, in seconds, and the first one in each phase. Each further one is 1.3 times as long: a
first start waits a third longer than for its slowest node, and a wiped node, which asks for ever, does so rarely."""
ASK_PAUSE_SECONDS_MAX: Final = 3.0
"""Longest pause, in seconds, between two attempts to format a node, up to half more by chance."""


def phase_of(status: NodeStatus) -> FormatPhase | None:
    """The phase in a peer's status. None if this program does not know that phase."""
    return next((phase for phase in FormatPhase if phase.value == status.phase), None)


@attrs.frozen
class WaitForPeers:
    """The node cannot enter the next phase yet."""

    reason: str


def advance(own: FormatPhase, peers: Mapping[NodeId, FormatPhase | None]) -> FormatPhase | WaitForPeers:
    """The phase that a node may enter next.

    `JOINING` only leads further if the register expects the node, independent of the peers.

    Args:
        own: its phase now, not `FORMATTED`.
        peers: the phase of each other listed node. None for one that did not answer.
    """
    assert own is not FormatPhase.FORMATTED
    if own is FormatPhase.JOINING or (own is FormatPhase.UNFORMATTED and FormatPhase.FORMATTED in peers.values()):
        return FormatPhase.JOINING
    if silent := _nodes(peers, None):
        return WaitForPeers(f"no answer from {silent}; all nodes must answer at the first start")
    if own is FormatPhase.UNFORMATTED:
        return FormatPhase.FORMATTING
    if behind := _nodes(peers, FormatPhase.UNFORMATTED):
        return WaitForPeers(f"{behind} is not ready yet")
    return FormatPhase.FORMATTED


def _nodes(peers: Mapping[NodeId, FormatPhase | None], phase: FormatPhase | None) -> str:
    return ", ".join(f"node {node}" for node, found in sorted(peers.items()) if found is phase)


@attrs.define(eq=False)
class Formatter:
    """Brings a node's data directory from `UNFORMATTED` to `FORMATTED`, as soon as that is allowed."""

    identity: Identity
    _peers: Iterable[NodeId]
    _services: Services
    _clock: Clock
    _random: random.Random
    waiting: str = ""
    """Reason why the directory is not formatted yet, for the node's status."""

    async def run(self, metastore: MetaStore, found: Callable[[], Awaitable[None]]) -> None:
        """Return once the directory is formatted. That never happens if a disk was lost and no operator replaces the node. If
        cancelled, it starts over next time.

        Args:
            metastore: of the cluster, for a directory that joins one.
            found: founds the stores of a directory that is there from the beginning, before any node relies on it.

        Raises:
            StorageError: the disk cannot be written.
            MalformedError: the register of the cluster is of a later format.
        """
        pause = ASK_PAUSE_SECONDS
        while self.identity.phase is not FormatPhase.FORMATTED:
            reason = await self._advance(metastore, found)
            if not reason:
                pause = ASK_PAUSE_SECONDS
            else:
                if reason != self.waiting:
                    log.warning("not formatted", node=self.identity.node, reason=reason)
                self.waiting = reason
                await self._clock.sleep(pause * (0.5 + self._random.random()))
                pause = min(1.3 * pause, ASK_PAUSE_SECONDS_MAX)
        self.waiting = ""

    async def _advance(self, metastore: MetaStore, found: Callable[[], Awaitable[None]]) -> str:
        """Enter the next phase. Return the reason if it must wait, else ""."""
        match advance(self.identity.phase, await self._ask_peers()):
            case WaitForPeers(reason):
                return reason
            case FormatPhase.FORMATTING:
                await self.identity.start_formatting(self._random)
            case FormatPhase.JOINING:
                return await join(self.identity, metastore, self._random)
            case _:
                # In this order: a node that dies in between is still new at its next start. A formatted directory without a
                # store has lost it, as far as any node can tell, and the first register may name that directory by then.
                await found()
                await self.identity.finish_formatting()
        return ""

    async def _ask_peers(self) -> dict[NodeId, FormatPhase | None]:
        others = [peer for peer in self._peers if peer != self.identity.node]
        answers = await fetch_statuses(self._services, others)
        return {
            node: None if isinstance(answer, VirtualLogError) else phase_of(answer) for node, answer in answers.items()
        }
