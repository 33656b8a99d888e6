"""The Services port over a simulated network: calls are delayed, lost, duplicated, reordered and cut off.

It works on calls, not on bytes: a request travels over the link from its sender to its target, the
reply over the link back (see `links.py`). Handlers are called as `ports.Handler` says:
synchronously, in order of arrival.

Every fault that takes effect is counted in `SimulatedNetwork.counts`, so that a run can prove what
it has tested.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import trio

from virtuallog.contract.errors import UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Handlers, ReplyT, Request, Services
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.links import Chances, LinkQuality, SimulatedLink
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.timeline import Timeline, Timer

__all__ = ["LinkQuality", "SimulatedNetwork", "SimulatedServices"]


@attrs.define(eq=False)
class _Call:
    """A call as its sender sees it: settled once, by the first reply or by its timeout."""

    process: Process
    target: NodeId
    request: Request[Any]
    done: Callable[[Any], None]
    timer: Timer | None = None
    settled: bool = False

    def settle(self, outcome: Any) -> None:
        if self.settled:
            return
        self.settled = True
        if self.timer is not None:
            self.timer.cancel()
        self.done(outcome)


@attrs.define(eq=False)
class SimulatedNetwork:
    """All links, and the processes that are reachable. Draws every delay and fault from one seeded source."""

    timeline: Timeline
    random: random.Random
    quality: LinkQuality = attrs.field(factory=LinkQuality)
    """Quality of links that have not been used yet."""
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    watch: Callable[[str, NodeId, NodeId, object], None] | None = None
    """Called for each request and reply that arrives, and for each fault: (event, from, to,
    message). None for no calls."""
    _links: dict[tuple[NodeId, NodeId], SimulatedLink] = attrs.field(factory=dict, init=False)
    _listening: dict[NodeId, tuple[Process, Handlers]] = attrs.field(factory=dict, init=False)
    _handlers_for: dict[NodeId, Callable[[NodeId], Handlers]] = attrs.field(factory=dict, init=False)
    """Handlers of each node for a caller on a given node."""
    _alone: list[tuple[NodeId, str]] = attrs.field(factory=list, init=False)
    """Nodes that are cut off from all others, with the causes."""
    _chances: Chances = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chances = Chances.of(self.random)

    def listen(
        self, process: Process, handlers: Handlers, handlers_for: Callable[[NodeId], Handlers] | None = None
    ) -> None:
        """Deliver calls for this node to `handlers`, for as long as the process lives.

        With `handlers_for`, calls of a node reach what it returns for that node.
        """
        self._listening[process.node] = process, handlers
        self._handlers_for[process.node] = handlers_for or (lambda _: handlers)

    def services(self, process: Process, clock: SimulatedClock) -> SimulatedServices:
        """Return the Services port of a process, node or client."""
        return SimulatedServices(self, process, clock)

    def link(self, source: NodeId, target: NodeId) -> SimulatedLink:
        """The direction from `source` to `target`."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = SimulatedLink(self.timeline, self._chances, self.quality)
            for node, cause in self._alone:
                if node in {source, target}:
                    link.cut(cause)
        return link

    def set_quality(self, quality: LinkQuality) -> None:
        """Set the quality of all links, from now on."""
        self.quality = quality
        for link in self._links.values():
            link.quality = quality

    def cut_off(self, node: NodeId, cause: str) -> None:
        """Cut a node off from all others, also from later ones, until `rejoin`."""
        self._alone.append((node, cause))
        for link in self._links_of(node):
            link.cut(cause)

    def rejoin(self, node: NodeId, cause: str) -> None:
        """Take back one `cut_off`."""
        if (node, cause) in self._alone:
            self._alone.remove((node, cause))
        for link in self._links_of(node):
            link.mend(cause)

    def heal(self) -> None:
        """Unblock, unclog and speed up all links."""
        self._alone.clear()
        for link in self._links.values():
            link.heal()

    def heal_node(self, node: NodeId) -> None:
        """Heal the links from and to one node."""
        for link in self._links_of(node):
            link.heal()

    def _links_of(self, node: NodeId) -> list[SimulatedLink]:
        return [link for pair, link in self._links.items() if node in pair]

    def note(self, what: str, source: NodeId, target: NodeId, message: object) -> None:
        """Count an event of a message, and report it to the watcher."""
        self.counts[what] += 1
        if self.watch is not None:
            self.watch(what, source, target, message)

    def carry_request(self, call: _Call) -> None:
        source, target = call.process.node, call.target
        self._carry(source, target, call.request, lambda: self._deliver(call))

    def _carry(self, source: NodeId, target: NodeId, message: object, arrive: Callable[[], None]) -> None:
        if source == target:  # never leaves the process: no fault, but no reentrancy either
            self.timeline.schedule(0.0, arrive)
        else:
            self.link(source, target).send(arrive, lambda what: self.note(what, source, target, message))

    def _deliver(self, call: _Call) -> None:
        """Deliver a request to the target, if it lives."""
        source, target = call.process.node, call.target
        process, _ = self._listening.get(target, (None, {}))
        if process is not None and process.alive:
            process.run(lambda: self._handle(process, self._handlers_for[target](source), call))
            return
        self.note("to the dead", source, target, call.request)
        if self.link(source, target).refuses():
            self._reply(target, call, UnavailableError(f"node {target} refused the connection"))

    def _handle(self, process: Process, handlers: Handlers, call: _Call) -> None:
        source, request, answered = call.process.node, call.request, False
        self.note("requests", source, process.node, request)

        def done(outcome: Any) -> None:
            nonlocal answered
            assert not answered, f"{type(request).__name__} was answered twice"
            answered = True
            if process.alive:
                process.run(lambda: self._reply(process.node, call, outcome))

        handler = handlers.get(type(request))
        if handler is None:
            done(UnsupportedError(f"node {process.node} does not serve {type(request).__name__}"))
        else:
            handler(request, done)

    def _reply(self, source: NodeId, call: _Call, outcome: Any) -> None:
        target = call.process.node

        def arrive() -> None:
            self.note("replies", source, target, outcome)
            call.process.run(lambda: call.settle(outcome))

        self._carry(source, target, outcome, arrive)


@attrs.define(eq=False)
class SimulatedServices:
    """`ports.Services` of one process."""

    _network: SimulatedNetwork
    _process: Process
    _clock: SimulatedClock

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        process, network = self._process, self._network
        process.check()
        call = _Call(process, node, request, done)
        call.timer = network.timeline.schedule(
            self._clock.true_seconds(timeout_seconds), lambda: process.run(lambda: self._expire(call))
        )
        process.run(lambda: network.carry_request(call))

    def _expire(self, call: _Call) -> None:
        if not call.settled:
            self._network.note("timed out", self._process.node, call.target, call.request)
            call.settle(UnavailableError(f"node {call.target} did not answer in time"))

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        settled, outcomes = trio.Event(), []

        def done(outcome: ReplyT | VirtualLogError) -> None:
            outcomes.append(outcome)
            settled.set()

        self.post(node, request, done, timeout_seconds)
        await settled.wait()
        self._process.check()
        (outcome,) = outcomes
        if isinstance(outcome, VirtualLogError):
            raise outcome
        return outcome


@attrs.frozen(eq=False)
class WatchedServices:
    """`ports.Services` of one process: calls that travel as bytes, counted and reported as
    simulated calls are.

    The network sees only the segments of such calls; this reports the calls themselves to its
    watcher.
    """

    _network: SimulatedNetwork
    _process: Process
    _services: Services

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        self._asked(node, request)

        def answered(outcome: Any) -> None:
            self._answered(node, outcome)
            done(outcome)

        self._services.post(node, request, answered, timeout_seconds)

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        self._asked(node, request)
        try:
            reply = await self._services.call(node, request, timeout_seconds)
        except VirtualLogError as error:
            self._answered(node, error)
            raise
        self._answered(node, reply)
        return reply

    def _asked(self, node: NodeId, request: object) -> None:
        self._process.check()
        self._network.note("requests", self._process.node, node, request)

    def _answered(self, node: NodeId, outcome: object) -> None:
        self._network.note("replies", node, self._process.node, outcome)
