"""A failure detector: the condition of each node, judged by probes.

    alive --a probe fails--> checked again soon --FAILURES in a row--> failed --an answer--> alive
                                   '-- an answer --> alive

    alive --a connection to it ends--> probed at once

Rules:
* A probe fails without an answer in time, by a refused connection, or by a wrong answer: of another data directory, or of a
  node that refuses one of its roles.
* A suspicion may be wrong. To act on it is safe, as a seal stops a living node all the same; it costs a reconfiguration.
* A detector that was itself paused has measured nothing: after a pause all counts begin again. On a machine that makes it wait
  for its turn more failures are needed.
* A node that keeps coming back was slow, not dead; from its second return on it needs more failures.

Probes are few. Some vigilant nodes probe the nodes of the sequencers in each round; all other nodes are probed in turn, now and
then. A failed node is asked in each round, as too few living nodes are a reason to do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from virtuallog.admin.control import Alive
from virtuallog.contract.register import NodeEntry
from virtuallog.contract.types import NodeId

ROUND_SECONDS: Final = 0.45
"""Time between two probes of a sequencer's node by a vigilant one."""
OTHERS_EVERY: Final = 4
"""Rounds between two probes of other nodes, one in turn. Nodes that are not vigilant have rounds of this length."""
RECHECK_SECONDS: Final = 0.15
"""Time from a failed probe to the next one. A refused connection fails at once: three in a row then take a third of a second."""
ANSWER_SECONDS: Final = 0.4
"""Timeout of a probe. A node answers in a millisecond, from memory; during a full garbage collection it takes some hundred.
Three probes without an answer take a second and a quarter.
"""
FAILURES: Final = 3
"""Failures in a row that make a node failed. One may be a lost connection, two a bad moment."""
FAILURES_MORE: Final = 2
"""Additional failures for each return beyond the first."""
FLAPS_MAX: Final = 4
"""Most returns that are counted for a node, so that a node that flapped for hours is trusted again in minutes."""
STEADY_SECONDS: Final = 30.0
"""Time without a suspicion after which one return is forgotten."""
PAUSE_SECONDS: Final = 1.0
"""Delay of a look that shows that this process stood still."""
LATE_SECONDS: Final = 0.2
"""Delay of a look that shows that this machine is busy. Others that share the machine may be as well."""
BUSY_SECONDS: Final = 5.0
"""Time for which the machine then counts as busy."""
FAILURES_BUSY: Final = 2
"""Additional failures while it is busy."""


@attrs.frozen(kw_only=True)
class Condition:
    """The condition of a node, as the detector sees it."""

    alive: bool
    failed_seconds: float = 0.0
    """Seconds since it was last well. 0 while it lives."""
    boot: int = 0
    """Boot number in its last answer. 0 before the first answer."""
    roles: frozenset[str] = frozenset()
    """Roles that it may be used for, and serves."""
    lost: bool = False
    """It answers, with another data directory than the cluster knows: its copies are gone."""


@attrs.define(kw_only=True)
class _Peer:
    entry: NodeEntry
    """The node in the register."""
    since: float
    """Time at which it was last well. Before the first answer, the time of the first probe."""
    steady_from: float
    heard: Alive | None = None
    failures: int = 0
    failed: bool = False
    returns: int = 0
    """Number of returns after a suspicion that are not yet forgotten."""
    due: float = 0.0
    """Time of the next check after a failure."""
    begun: float = 0.0
    """Time at which the last probe left."""
    waiting: bool = False
    """True while that probe has no answer."""
    disconnected: bool = False
    """True if a connection to it has ended since that probe."""
    looked: float = float("-inf")
    """Time of the last probe that the end of a connection has caused."""

    @property
    def is_checked(self) -> bool:
        """True if it is to be probed before its turn."""
        return not self.failed and (self.failures > 0 or self.disconnected)

    @property
    def lost(self) -> bool:
        return self.heard is not None and self.heard.store_id != self.entry.store_id


@attrs.define(eq=False)
class FailureDetector:
    """Chooses the nodes to probe, and takes the results."""

    node: NodeId
    """This node; it lives."""
    changes: int = attrs.field(default=0, init=False)
    """Counts changes that matter to a policy: a node that failed or came back, or whose answer differs."""
    _peers: dict[NodeId, _Peer] = attrs.field(factory=dict, init=False)
    _rounds: int = attrs.field(default=0, init=False)
    _turn: int = attrs.field(default=0, init=False)
    """Counts the probes of other nodes."""
    _busy_until: float = attrs.field(default=float("-inf"), init=False)

    # -- events ---------------------------------------------------------------------------------------------------

    def know(self, nodes: Mapping[NodeId, NodeEntry], now: float) -> None:
        """Set the nodes of the cluster. An entry that changed is another node, with a clean record."""
        for node in [node for node in self._peers if node not in nodes]:
            del self._peers[node]
        for node, entry in nodes.items():
            peer = self._peers.get(node)
            if node != self.node and (peer is None or peer.entry != entry):
                self._peers[node] = _Peer(entry=entry, since=now, steady_from=now)

    def woke(self, now: float, due: float) -> None:
        """Note that this look was planned for `due`, and may be late."""
        if now - due > PAUSE_SECONDS and now > self._busy_until:  # a process that always pauses must not wait for ever
            for peer in self._peers.values():
                peer.failures = 0
        if now - due > LATE_SECONDS:
            self._busy_until = now + BUSY_SECONDS

    def round(self, vigilant_of: Collection[NodeId], now: float) -> list[NodeId]:
        """The nodes to probe in this round.

        Args:
            vigilant_of: the nodes of the sequencers, if this one is vigilant.
            now: the time.
        """
        # A node that is checked already has looks at its own times: one more would shorten the time that a suspicion takes.
        chosen = [
            node for node, peer in self._peers.items() if (node in vigilant_of or peer.failed) and not peer.is_checked
        ]
        others = [node for node, peer in self._peers.items() if node not in chosen and not peer.is_checked]
        self._rounds += 1
        is_vigilant = any(node in self._peers for node in vigilant_of)
        if others and (not is_vigilant or self._rounds % OTHERS_EVERY == 0):
            self._turn += 1
            chosen.append(others[self._turn % len(others)])
        return self._begin(chosen, now)

    def rechecks(self, now: float) -> list[NodeId]:
        """The nodes to probe before their turn: after a failure, or a lost connection. A failed node is asked in the next round."""
        return self._begin([node for node, peer in self._peers.items() if peer.is_checked and peer.due <= now], now)

    def answered(self, node: NodeId, heard: Alive, now: float) -> None:
        """Note the answer to a probe."""
        peer = self._peers.get(node)
        if peer is None:
            return
        self.changes += peer.heard is None or (heard.boot, heard.roles) != (peer.heard.boot, peer.heard.roles)
        peer.waiting, peer.heard = False, heard
        if peer.lost or heard.node != node or not peer.entry.roles.issubset(heard.roles):
            self._fail(peer, now)
            return
        if peer.failed:
            self.changes += 1
            peer.failed, peer.steady_from = False, now
            peer.returns = min(peer.returns + 1, FLAPS_MAX)
        elif peer.returns and now - peer.steady_from > STEADY_SECONDS:
            peer.returns, peer.steady_from = peer.returns - 1, now
        peer.failures, peer.since = 0, now

    def failed(self, node: NodeId, now: float) -> None:
        """Note that a probe was not answered in time, or not at all."""
        peer = self._peers.get(node)
        if peer is not None:
            peer.waiting = False
            self._fail(peer, now)

    def disconnected(self, node: NodeId, now: float) -> None:
        """Note that a connection to the node has ended.

        No failure: it tells when to look, not what to find. A process that was killed is looked at when its host resets its
        connections, and not only in the next round. The time from the first failed probe to a suspicion stays the same.
        """
        peer = self._peers.get(node)
        if peer is not None and not peer.failures:
            peer.disconnected = True
            # Each probe opens a connection: a peer that accepts and closes must not be probed in a loop.
            peer.due = max(now, peer.looked + RECHECK_SECONDS)

    # -- what it sees -----------------------------------------------------------------------------------------------

    @property
    def next_recheck(self) -> float | None:
        """Time of the next call of `rechecks` that may return a node. None if there is none."""
        checked = [peer for peer in self._peers.values() if peer.is_checked and not peer.waiting]
        return min((peer.due for peer in checked), default=None)

    @property
    def suspects(self) -> Collection[NodeId]:
        """The nodes that count as failed."""
        return [node for node, peer in self._peers.items() if peer.failed]

    @property
    def newest_version(self) -> int:
        """The newest version of the chain in all answers."""
        return max((peer.heard.version for peer in self._peers.values() if peer.heard is not None), default=0)

    def conditions(self, now: float) -> Mapping[NodeId, Condition]:
        """The condition of every other node. One without an answer so far counts as alive."""
        return {node: _condition(peer, now) for node, peer in self._peers.items()}

    # -- counting -----------------------------------------------------------------------------------------------------

    def _begin(self, nodes: list[NodeId], now: float) -> list[NodeId]:
        """Begin one probe for each node that has none in progress: three failures are three looks."""
        begun = [node for node in nodes if not self._peers[node].waiting]
        for node in begun:
            peer = self._peers[node]
            if peer.disconnected:
                peer.disconnected, peer.looked = False, now
            peer.waiting, peer.begun = True, now
        return begun

    def _fail(self, peer: _Peer, now: float) -> None:
        peer.failures += 1
        needed = FAILURES + FAILURES_MORE * max(0, peer.returns - 1) + FAILURES_BUSY * (now < self._busy_until)
        if not peer.failed and peer.failures >= needed:
            self.changes += 1
            peer.failed = True
        peer.due = max(now, peer.begun + RECHECK_SECONDS)  # at once, if this one took its time


def _condition(peer: _Peer, now: float) -> Condition:
    heard = frozenset[str]() if peer.heard is None else frozenset(peer.heard.roles)
    return Condition(
        alive=not peer.failed,
        failed_seconds=now - peer.since if peer.failed else 0.0,
        boot=0 if peer.heard is None else peer.heard.boot,
        roles=peer.entry.roles & heard,
        lost=peer.lost,
    )
