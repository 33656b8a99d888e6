"""One simulated universe: time, network, randomness, and the record of what happens in it.

Everything random is drawn from sources that are named and derived from the seed, one per purpose, so that a change of
the workload does not change the faults of a seed, and the other way round.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

import attrs
import trio

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.crash_points import CrashPoint, hooked
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Check, Violation
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import CrashedError, Process, executing
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_simulation.world import transport
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.store_disk import StoreDisk
from virtuallog_simulation.world.transport import Calls, Transport

EPOCH_SECONDS = 1_700_000_000.0
"""Reading of a wall clock without error at true time 0."""


_CURRENT: Final[ContextVar[World]] = ContextVar("world")


def current_world() -> World:
    """World of this task, inherited from the task that started it; for objects that are made
    without a world argument."""
    return _CURRENT.get()


@attrs.frozen
class ClockErrors:
    """Bounds of the errors of clocks."""

    drift: float = 0.0
    """A clock runs at a rate between 1 - drift and 1 + drift."""
    wall_offset_seconds: float = 0.0
    """A wall clock is wrong by up to this much, either way."""


@attrs.define(eq=False)
class World:
    """Made by `open_world`."""

    seed: int
    nursery: trio.Nursery
    """Nursery of the world itself: tasks here outlive every process."""
    timeline: Timeline
    network: SimulatedNetwork
    transport: Transport = attrs.field(init=False)
    """Transport over that network: by calls, unless `draw_transport` says otherwise."""
    history: History
    options: Options = attrs.field(factory=Options)
    """Options that narrow the run."""
    counts: Counter[str] = attrs.field(factory=Counter)
    """Faults that took effect, the network's left out."""
    clock_errors: ClockErrors = attrs.field(factory=ClockErrors)
    prompt_writes: float = 0.0
    """`DiskFaults.prompt` of the machines that are made from now on."""
    clients: dict[NodeId, Process] = attrs.field(factory=dict)
    """Client processes that live now."""
    passes: Counter[str] = attrs.field(factory=Counter)
    """Passes of processes at each crash point."""
    on_crash_point: Callable[[Process, CrashPoint], None] = lambda process, point: None
    """Called each time; may let the process die there."""
    on_durable: Callable[[NodeId, str, str], None] | None = None
    """Called with what becomes durable: (node, disk, what). For the timeline of a failing seed."""
    on_stored: Callable[[NodeId, str, Mapping[bytes, bytes | None]], None] | None = None
    """Given what becomes durable in key-value stores: (node, store, pairs and deletions). For who looks inside."""
    on_lost: Callable[[NodeId, str], None] = lambda node, store: None
    """Called when a key-value store was emptied from outside."""
    on_store_open: Callable[[NodeId, StoreDisk], None] = lambda node, disk: None
    """Shown each store of a database when it is opened."""
    on_store_write: Callable[[NodeId, StoreDisk, Mapping[bytes, bytes | None]], None] = lambda node, disk, changes: None
    """Shown it after each write, with what was written."""
    demands: dict[str, float] = attrs.field(factory=dict)
    """Demand made once the faults were over -> simulated seconds until it was met; the longest, if
    made more than once."""
    violations: list[Violation] = attrs.field(factory=list)
    """Violations found by the story itself."""
    _clock_random: random.Random = attrs.field(factory=random.Random)

    def __attrs_post_init__(self) -> None:
        self.transport = Calls(self.network)

    def draw_transport(self, interfaces: Sequence[Interface], nodes: Iterable[NodeId]) -> None:
        """Said before anything starts by a story that can also run over byte streams, which a share of the seeds does.

        Args:
            interfaces: the wire form of all requests.
            nodes: all nodes that may listen.
        """
        self.transport = transport.draw(self.network, self.random, self.options.transport, interfaces, nodes)
        if not isinstance(self.transport, Calls):
            self.fault("rpc over streams")

    def random(self, purpose: str) -> random.Random:
        """A source of randomness of its own for this purpose."""
        return _source(self.seed, purpose)

    def now(self) -> float:
        """True time, in seconds since the world began."""
        return self.timeline.now()

    def fault(self, kind: str, detail: str = "") -> None:
        """A fault took effect: count it and note it in the history."""
        self.counts[kind] += 1
        self.history.fault(f"{kind} {detail}".rstrip())

    def demanded(self, what: str, seconds: float) -> None:
        """A demand was met, or given up, after so many simulated seconds."""
        self.demands[what] = max(seconds, self.demands.get(what, 0.0))

    def reached(self, point: CrashPoint) -> None:
        """Called when a process gets to a crash point. Dead processes do not get any further."""
        process = executing()
        if process is not None:
            process.check()
            self.passes[point.name] += 1
            self.on_crash_point(process, point)

    def disk_watch(self, node: NodeId, disk: str) -> Callable[[str], None]:
        """Callback for a disk to report what it has made durable."""

        def watch(what: str) -> None:
            if self.on_durable is not None:
                self.on_durable(node, disk, what)

        return watch

    def stored(self, node: NodeId, store: str, changes: Mapping[bytes, bytes | None]) -> None:
        """A key-value store has made this durable."""
        if self.on_stored is not None:
            self.on_stored(node, store, changes)

    def check(self, *checks: Check) -> None:
        """Run these checks over the history so far."""
        for check in checks:
            self.violations.extend(check(self.history))

    def clock(self, process: Process) -> SimulatedClock:
        """The clock of one life of a process, as wrong as `clock_errors` allows."""
        errors, draw = self.clock_errors, self._clock_random.uniform
        rate = 1.0 + draw(-errors.drift, errors.drift)
        offset = draw(-errors.wall_offset_seconds, errors.wall_offset_seconds)
        if errors.drift:
            self.counts["drifting clock"] += 1
        if errors.wall_offset_seconds:
            self.counts["wrong wall clock"] += 1
        return SimulatedClock(process, rate, EPOCH_SECONDS + offset)

    @asynccontextmanager
    async def client(self, node: NodeId, lifetime_seconds: float | None = None) -> AsyncIterator[Environment]:
        """The ports of a client process, which lives as long as the context, or dies after `lifetime_seconds`.

        Its death is abrupt (see `process.py`); the context then ends without an error. Errors that
        a port of another life raises are passed on.
        """
        process = self.clients[node] = Process(node)
        clock = self.clock(process)
        try:
            async with trio.open_nursery() as nursery:

                def die(power: bool = False) -> None:
                    if self.clients.get(node) is process:
                        del self.clients[node]
                    process.crash()
                    self.transport.end(process, power=power)
                    nursery.cancel_scope.cancel()

                process.end = die
                if lifetime_seconds is not None:
                    power = self.random(f"death {node}").random() < 0.5
                    self.timeline.schedule(lifetime_seconds, lambda: die(power))
                try:
                    with process.acting():
                        async with self.transport.attach(process, clock, self.random(f"rpc {node}")) as services:
                            yield Environment(
                                services=services,
                                clock=clock,
                                random=self.random(f"client {node}"),
                                nursery=nursery,
                            )
                finally:
                    die()
        except* CrashedError as crashed:
            others = crashed.subgroup(lambda error: isinstance(error, CrashedError) and error.process is not process)
            if others is not None:
                raise others from None


@asynccontextmanager
async def open_world(seed: int, options: Options | None = None) -> AsyncIterator[World]:
    """A world that ends, with all that runs in it, when the context does."""
    timeline = Timeline()
    network = SimulatedNetwork(timeline, _source(seed, "network"))
    async with trio.open_nursery() as nursery:
        world = World(
            seed,
            nursery,
            timeline,
            network,
            History(timeline.now),
            options or Options(),
            clock_random=_source(seed, "clocks"),
        )
        before = _CURRENT.set(world)
        nursery.start_soon(timeline.run)  # what it starts lives here, too
        try:
            with hooked(world.reached):
                yield world
        finally:
            _CURRENT.reset(before)
        nursery.cancel_scope.cancel()


def _source(seed: int, purpose: str) -> random.Random:
    # Seeding with a string hashes it with SHA-512: the same in every process, unlike hash().
    return random.Random(f"{seed} {purpose}")
