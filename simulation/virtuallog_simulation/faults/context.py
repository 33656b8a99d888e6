"""Context of a class of faults: the world, the machines, a source of randomness, and the machines
already hurt."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from virtuallog.contract.types import NodeId
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

_REST_SECONDS: Final = (0.1, 1.0, 3.0)
_REST_MAX: Final = 10.0
"""Longer than any timeout of the product, and short enough for other faults to come after it."""


@attrs.define(eq=False)
class Wounds:
    """Machines that are not what they were. Shared by all classes."""

    victims: Sequence[NodeId]
    """The only ones that may ever lose durable data: drawn beforehand, so that they do not depend on who strikes first."""
    lost: set[int] = attrs.field(factory=set, init=False)
    """Machines that have lost durable data."""
    refused: set[int] = attrs.field(factory=set, init=False)
    """Machines whose disk may have failed since they last started on a good one; they may have
    stopped serving."""


@attrs.frozen(eq=False)
class FaultContext:
    """World, machines and randomness of one class of faults. One for each class."""

    name: str
    """Name of the class."""
    world: World
    machines: Mapping[NodeId, Machine]
    random: random.Random
    """Only this class draws from it."""
    wounds: Wounds
    pace: float = 1.0
    """Below 1 in runs that are shorter than usual."""

    @property
    def nodes(self) -> list[NodeId]:
        return list(self.machines)

    @property
    def clients(self) -> list[NodeId]:
        """Client processes that live now."""
        return list(self.world.clients)

    def machine(self) -> Machine:
        """Any one, running or not."""
        return self.random.choice(list(self.machines.values()))

    def victim(self) -> Machine:
        """One that may lose its data; from now on it is known to have."""
        node = self.random.choice(self.wounds.victims)
        self.wounds.lost.add(node)
        return self.machines[node]

    def shuffled(self) -> list[NodeId]:
        nodes = self.nodes
        self.random.shuffle(nodes)
        return nodes

    def pair(self) -> tuple[NodeId, NodeId]:
        one, other, *_ = self.shuffled()
        return one, other

    def struck(self, detail: object = "") -> None:
        """An act of this class took effect: count it and tell the history."""
        self.world.fault(self.name, str(detail.node if isinstance(detail, Machine) else detail))

    def start(self, machine: Machine) -> None:
        """Start a machine that is down; nothing happens to one that is up."""
        if not machine.running:
            self.world.fault("restart", str(machine.node))
            machine.start()
            if not machine.faults.failing:
                self.wounds.refused.discard(machine.node)

    async def rest(self) -> None:
        """Wait as long as a fault of this class may last."""
        mean = self.random.choice(_REST_SECONDS)
        await self.sleep(min(_REST_MAX, self.random.expovariate(1.0 / mean)))

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(self.pace * seconds)
