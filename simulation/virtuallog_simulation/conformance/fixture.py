"""Fresh loglets on simulated machines, for the clauses of the contract."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Final

import attrs
import trio

from virtuallog.chain import SegmentId
from virtuallog.ports import Clock, Environment
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.loglet_suite import Opener
from virtuallog.testing.process import Process
from virtuallog.testing.recorded import RecordedLoglet
from virtuallog.types import NodeId
from virtuallog_simulation.conformance import disks
from virtuallog_simulation.stories.served import ServedLoglets
from virtuallog_simulation.world.world import World

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
        disks.draw(self.served.machines.values(), self._disks)
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
