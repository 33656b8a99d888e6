"""Failure-driven reconfiguration on one node: probe the others, ask the policy (core/healing_policy.py), carry out its decision.

    probes --> detector --> policy --> decision --stands long enough for our rank--> extend | rebuild

Delos, OSDI'20, sections 3.3 and 4.2.1: the loglet detects, a policy chooses, the VirtualLog executes. Every node runs this.
To prevent that all do the same, the first in rank acts at once, and each further one a moment later, when the chain has
changed already. Two that act at once are harmless: the conditional put elects one.

A node that is cut off, with a minority, does nothing: its policy sees no majority, a plan needs one too, and so does a seal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from virtuallog.admin.control import Alive, GetStatus, NodeStatus, Probe
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    MalformedError,
    RetryableError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import Pace, replicated
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.core.node_table import lost_copies
from virtuallog.runtime import log
from virtuallog_server.healing.core.backoff import ActionBackoff, RepairHistory
from virtuallog_server.healing.core.failure_detector import (
    ANSWER_SECONDS,
    OTHERS_EVERY,
    ROUND_SECONDS,
    Condition,
    FailureDetector,
)
from virtuallog_server.healing.core.healing_policy import Decision, Extend, Nothing, PlacedSegment, Policy, Rebuild
from virtuallog_server.healing.metrics import DONE, FAILED, HealingMetrics
from virtuallog_server.healing.rebuild import rebuild

RANK_SECONDS: Final = 0.3
"""Additional wait of each further node in rank before it extends: several times the duration of an extension."""
RANK_REBUILD_SECONDS: Final = 60.0
"""The same for a rebuild, which takes long; two would move the data twice."""
URGENT_COOLDOWN_SECONDS: Final = (0.5, 0.5)
"""Cooldown after an extension that appends waited for: first and longest. A second one so soon finds the first one's successor
dead already.
"""
PRECAUTIONARY_COOLDOWN_SECONDS: Final = (15.0, 300.0)
"""Cooldown after one that nothing waited for. The spare may be worse than the replaced node, and the log must not move for ever."""

_DECIDED = CrashPoint("healing: a failed node is to be replaced, nothing is done", rare=True)


@attrs.define(eq=False)
class Healer:
    """The healer of one node. It runs beside the watchdog, which finishes changes that others began."""

    node: NodeId
    _log: VirtualLog
    _policy: Policy
    _pace: Pace
    _ourselves: Callable[[], Alive]
    """This node's answer to a probe."""
    _level: Callable[[], int]
    """The version of the protocol that all nodes of the cluster can read."""
    detector: FailureDetector = attrs.field(init=False)
    _urgent: ActionBackoff = attrs.field(
        factory=lambda: ActionBackoff(calm_seconds=URGENT_COOLDOWN_SECONDS), init=False
    )
    _precautionary: ActionBackoff = attrs.field(
        factory=lambda: ActionBackoff(calm_seconds=PRECAUTIONARY_COOLDOWN_SECONDS), init=False
    )
    _rebuilding: ActionBackoff = attrs.field(factory=lambda: ActionBackoff(calm_seconds=(0.0, 0.0)), init=False)
    _register: Register | None = attrs.field(default=None, init=False)
    _segments: Sequence[PlacedSegment] = attrs.field(factory=tuple, init=False)
    """The segments of that register that can be healed."""
    _decision: Decision = attrs.field(factory=Nothing, init=False)
    _since: float = attrs.field(default=0.0, init=False)
    """Time at which the policy first decided so."""
    _turn: float = attrs.field(default=float("inf"), init=False)
    """Time at which this node's rank lets it act on the decision."""
    _consulted: int = attrs.field(default=-1, init=False)
    """The detector's count of changes when the policy was asked last."""
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)
    _meter: HealingMetrics = attrs.field(factory=HealingMetrics, init=False)
    _setbacks: RepairHistory = attrs.field(factory=RepairHistory, init=False)

    def __attrs_post_init__(self) -> None:
        self.detector = FailureDetector(self.node)

    @property
    def _view(self) -> ChainCache:
        return self._log.view

    @property
    def _environment(self) -> Environment:
        return self._log.view.environment

    def report(self) -> tuple[str, ...]:
        """Problems of other nodes, and the actions of this one, for the status."""
        decision = self._decision
        if isinstance(decision, Nothing):
            return (decision.reason,) if decision.reason else ()
        lane, seconds = self._lane(decision), self._environment.clock.monotonic() - self._since
        what = "extending the chain" if isinstance(decision, Extend) else f"rebuilding segment {decision.segment}"
        state = f"{what} since {seconds:.0f} s" if lane.acting else f"seen since {seconds:.0f} s"
        return (f"{decision.reason}: {state}" + (f"; failed before: {lane.problem}" if lane.problem else ""),)

    def disconnected(self, node: NodeId) -> None:
        """Take note that a connection to a node has ended: it is probed at once, not in its turn."""
        self.detector.disconnected(node, self._environment.clock.monotonic())
        self._news.set()

    def metrics(self) -> list[MetricFamily]:
        """Metrics of the healer (`virtuallog.contract.metrics.MetricsSource`)."""
        return self._meter.metrics(len(self.detector.suspects))

    async def run(self) -> None:
        """Probe and heal, for ever. If cancelled, it leaves a change that any node may finish, or a copy that any node may continue."""
        clock = self._environment.clock
        next_round = due = clock.monotonic()
        async with trio.open_nursery() as nursery:
            while True:
                now = clock.monotonic()
                self.detector.woke(now, due)
                self._learn(now)
                if now >= next_round:
                    await self._begin_round(now)
                    next_round = now + self._round_seconds() * self._environment.random.uniform(0.8, 1.2)
                for node in self.detector.rechecks(now):
                    self._probe(node)
                self._consider(now, nursery)
                due = min(next_round, self._turn, self.detector.next_recheck or next_round)
                self._news = trio.Event()
                with clock.timeout(max(due - clock.monotonic(), 0.0)):
                    await self._news.wait()

    # -- probes -------------------------------------------------------------------------------------------------------

    async def _begin_round(self, now: float) -> None:
        register = self._view.cached
        if register is None:
            return
        if self.detector.newest_version > register.version:
            try:
                await self._view.refresh()
            except RetryableError as error:
                log.debug("healing", error=str(error))
            self._learn(now)
        for node in self.detector.round(self._sequencers if self._is_vigilant else (), now):
            self._probe(node)

    def _learn(self, now: float) -> None:
        register = self._view.cached
        if register is not None and register is not self._register:
            self._register, self._segments = register, placed_segments(self._view, register)
            self.detector.know(register.nodes, now)
            self._consulted = -1

    @property
    def _is_vigilant(self) -> bool:
        """True if this node probes the nodes of sequencers in each round.

        If other nodes order appends, half of the living nodes are vigilant, the first ones in rank. So there is always one among a
        majority that has lost a sequencer, and a cluster of many nodes does not overload one node with probes.
        """
        nodes = () if self._register is None else self._register.nodes
        return bool(self._sequencers - {self.node}) and self._rank() <= len(nodes) // 2

    def _round_seconds(self) -> float:
        return ROUND_SECONDS if self._is_vigilant else ROUND_SECONDS * OTHERS_EVERY

    @property
    def _sequencers(self) -> frozenset[NodeId]:
        """The nodes that order appends to the open segment, if it needs certain ones for that."""
        if not self._segments or self._segments[-1].segment.stop is not None:
            return frozenset()
        return self._segments[-1].placement.orders

    def _probe(self, node: NodeId) -> None:
        clock, services, detector = self._environment.clock, self._environment.services, self.detector

        def done(outcome: Alive | VirtualLogError) -> None:
            if isinstance(outcome, UnsupportedError):  # it lives, and its program is older than probes
                services.post(node, GetStatus(), lambda status: done(_alive_untold(status)), ANSWER_SECONDS)
            elif isinstance(outcome, VirtualLogError):
                detector.failed(node, clock.monotonic())
                self._news.set()
            else:
                detector.answered(node, outcome, clock.monotonic())

        services.post(node, Probe(), done, ANSWER_SECONDS)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _consider(self, now: float, nursery: trio.Nursery) -> None:
        quiet = isinstance(self._decision, Nothing) and not self.detector.suspects
        if quiet and self.detector.changes == self._consulted:
            return  # nothing has changed, nothing is to be done, and no patience is running out
        self._consulted, self._turn = self.detector.changes, float("inf")
        nodes = {**self.detector.conditions(now), self.node: self._own()}
        decision = self._policy.decide(nodes, self._setbacks.mark(self._segments))
        if decision != self._decision:
            self._adopt(decision, now)
        if isinstance(decision, Nothing):
            return
        lane, turn = self._lane(decision), self._since + self._rank() * _rank_seconds(decision)
        if now < turn:
            self._turn = turn
        elif lane.is_free(now):
            lane.begin()
            _DECIDED.reached()
            nursery.start_soon(self._act, decision, lane)

    def _own(self) -> Condition:
        alive, entry = self._ourselves(), self._register.nodes.get(self.node) if self._register is not None else None
        return Condition(
            alive=True,
            boot=alive.boot,
            roles=entry.roles & frozenset(alive.roles) if entry is not None else frozenset(),
        )

    def _lane(self, decision: Extend | Rebuild) -> ActionBackoff:
        if isinstance(decision, Rebuild):
            return self._rebuilding
        return self._urgent if decision.urgent else self._precautionary

    def _adopt(self, decision: Decision, now: float) -> None:
        self._decision, self._since = decision, now
        if isinstance(decision, Nothing) and not decision.reason:
            for lane in (self._urgent, self._precautionary, self._rebuilding):
                lane.all_is_well()
        log.info("healing", decides=type(decision).__name__.lower(), reason=decision.reason or "all is well")

    def _rank(self) -> int:
        """Number of nodes before this one: nodes of sequencers, as an extension keeps the sequencers there, and those with lower ids."""
        suspects, first = self.detector.suspects, self._sequencers
        living = [node for node in (() if self._register is None else self._register.nodes) if node not in suspects]
        return sum((node not in first, node) < (self.node not in first, self.node) for node in living)

    # -- actions ------------------------------------------------------------------------------------------------------

    async def _act(self, decision: Extend | Rebuild, lane: ActionBackoff) -> None:
        clock, what = self._environment.clock, type(decision).__name__.lower()
        started = clock.monotonic()
        log.warning("healing", does=what, segment=str(decision.segment), reason=decision.reason)
        try:
            await self._carry_out(decision)
        except VirtualLogError as error:
            log.warning("healing failed", what=what, reason=decision.reason, error=str(error))
            lane.failed(f"{type(error).__name__}: {error}", clock.monotonic())
            self._setbacks.failed(decision, error, self._segments)
            self._meter.ended(what, FAILED, clock.monotonic() - started)
        else:
            lane.succeeded(clock.monotonic())
            self._setbacks.succeeded()
            self._meter.ended(what, DONE, clock.monotonic() - started)
        self._consulted = -1
        self._news.set()

    async def _carry_out(self, decision: Extend | Rebuild) -> None:
        match decision:
            case Extend(segment=segment):
                await self._log.successors.after(segment, failed=True)
            case Rebuild(segment=segment, servers=servers):
                if (await self._view.refresh()).chain.find(segment) is not None:  # else another node has moved it
                    await rebuild(self._log, segment, servers, self._pace, self._level)


def _alive_untold(status: NodeStatus | VirtualLogError) -> Alive | VirtualLogError:
    """The answer to a probe, derived from a status: for a node that is older than probes. One that refuses this as well has failed."""
    if isinstance(status, UnsupportedError):
        return UnavailableError(str(status))
    if isinstance(status, VirtualLogError):
        return status
    return Alive(node=status.node, store_id=status.store_id, boot=status.boot, roles=status.roles, version=0)


def placed_segments(view: ChainCache, register: Register) -> Sequence[PlacedSegment]:
    """The segments of the chain that can be healed, with their places."""
    placed: list[PlacedSegment] = []
    for segment in register.chain.segments:
        provider = replicated(view.providers.get(segment.kind))
        if provider is not None:
            try:
                placement = provider.placement(segment.config)
                lost = lost_copies(register, segment, placement.servers)
                placed.append(PlacedSegment(segment, placement, lost))
            except MalformedError as error:
                log.warning("config of a segment", segment=str(segment.id), error=str(error))
    return placed


def _rank_seconds(decision: Extend | Rebuild) -> float:
    return RANK_SECONDS if isinstance(decision, Extend) else RANK_REBUILD_SECONDS
