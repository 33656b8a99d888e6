"""Fresh loglets on simulated machines, for the clauses of the contract."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.loglet_suite import Opener
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_simulation.faults.disks import calm
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

SLOW_WRITE_SECONDS: Final = (0.01, 0.1)
"""Some to many times as long as a call."""
CLIENTS: Final = 6
"""Client processes per loglet: as many as the greediest clause opens."""
FIRST_CLIENT: Final = 1000
OBSERVER: Final = NodeId(999)
"""The process of the clause itself."""


@attrs.define(eq=False)
class SimulatedFixture:
    """Implements `RestartingFixture`: each client is a process of its own, and what it asks and hears goes into the
    history of the world. About every other loglet has slow disks."""

    served: ServedLoglets
    nursery: trio.Nursery
    """Client processes live here."""
    contiguous: bool
    random: Random
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(OBSERVER)))
    _disks: Random = attrs.field(init=False)
    _segments: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)
    _clients: Iterator[int] = attrs.field(factory=lambda: itertools.count(FIRST_CLIENT), init=False)

    def __attrs_post_init__(self) -> None:
        self._disks = self.world.random("disks")

    @property
    def world(self) -> World:
        return self.served.world

    async def fresh(self) -> Opener:
        draw_disk_speeds(self.served.machines.values(), self._disks)
        segment = SegmentId(next(self._segments), self.random.getrandbits(63))
        self.served.create(segment)
        clients = itertools.cycle([await self._client() for _ in range(CLIENTS)])

        def open_one() -> RecordedLoglet:
            node, environment = next(clients)
            loglet = self.served.open(segment, environment)
            return RecordedLoglet(loglet, self.world.history, segment, f"client {node}")

        return open_one

    async def restart(self) -> None:
        self.world.fault("blackout")
        for machine in self.served.machines.values():
            machine.crash()
        await trio.lowlevel.checkpoint()
        for machine in self.served.machines.values():
            machine.start()

    async def _client(self) -> tuple[NodeId, Environment]:
        node = NodeId(next(self._clients))
        environment: Environment = await self.nursery.start(self._live, node)
        return node, environment

    async def _live(self, node: NodeId, task_status: trio.TaskStatus[Environment]) -> None:
        async with self.world.client(node) as environment:
            task_status.started(environment)
            await trio.sleep_forever()


def draw_disk_speeds(machines: Iterable[Machine], source: random.Random) -> bool:
    """Give all these machines slow disks, or all of them good ones. Returns True if they are slow.

    A good simulated disk takes half a millisecond at most, less than a message is under way: a
    server that answers from memory, ahead of the disk, would hardly ever be caught. On slow disks
    others can see what is written and not yet durable, and it can then be lost.
    """
    slow = source.random() < 0.5
    for machine in machines:
        calm(machine)
        if slow:
            machine.faults.write_seconds = SLOW_WRITE_SECONDS
    return slow
