"""Does to the machines of a run what its plan says, and heals the world when it is told to stop.

Whatever happens, the history stays possible: at most `LOST_MAX` machines ever lose durable data, so a majority of every
server set keeps what it has synced. Each act is counted when it takes effect, under the name of its class
(`World.counts`), and so is what comes of it: see the registry.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from virtuallog.testing.network import LinkQuality
from virtuallog.types import NodeId
from virtuallog_simulation.faults import disks
from virtuallog_simulation.faults.crash_points import CRASH_POINT, CrashPoints
from virtuallog_simulation.faults.fault_class import FaultClass
from virtuallog_simulation.faults.plan import FaultPlan
from virtuallog_simulation.faults.registry import CLASSES, LOSING
from virtuallog_simulation.faults.stage import Stage, Wounds
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

__all__ = ["LOSING", "LOST_MAX", "FaultPlan", "Nemesis"]

LOST_MAX: Final = 1
"""A loglet on three servers survives the loss of one."""
_FIRST_SECONDS: Final = 3.0
"""The first act of a class comes no later, as some runs are short."""


@attrs.define(eq=False)
class Nemesis:
    """See above. What the run is not allowed to have (`World.options`) is taken from the plan first."""

    world: World
    machines: Mapping[NodeId, Machine]
    """May be empty until `prepare`."""
    plan: FaultPlan
    wounds: Wounds = attrs.field(factory=lambda: Wounds(()), init=False)
    crash_points: CrashPoints = attrs.field(init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.plan = self.plan.narrowed(self.world.options.allows_fault)
        self._random = self.world.random("nemesis")
        self.crash_points = CrashPoints(self.world, self.machines)
        if CRASH_POINT in self.plan.active:
            self.crash_points.start()  # before the machines: some points lie in their very first start

    def prepare(self) -> None:
        """What holds for the whole run, from now on. The machines exist by now."""
        self.wounds = Wounds(self._random.sample(list(self.machines), min(LOST_MAX, len(self.machines))))
        for machine in self.machines.values():
            disks.calm(machine)
        for fault in self._active():
            if fault.prepare is not None:
                fault.prepare(self._stage(fault))
        self.crash_points.clients_die = True

    async def run(self) -> None:
        """Strike, for ever; after `prepare`."""
        async with trio.open_nursery() as nursery:
            for fault in self._active():
                if fault.act is not None:
                    nursery.start_soon(self._repeat, fault)
            await trio.sleep_forever()

    def stop(self, dead_max: int = LOST_MAX) -> list[NodeId]:
        """Heal what can be healed, after `run` was cancelled. Returns the nodes that stay dead, or do not serve all they
        should: with those that have lost data, not more than `dead_max`."""
        self.crash_points.stop()
        self.world.network.heal()
        self.world.network.set_quality(LinkQuality())
        for process in self.world.clients.values():
            process.resume()
        spare = dead_max - len(self.wounds.lost)
        dead: list[NodeId] = []
        for machine in self._random.sample(list(self.machines.values()), len(self.machines)):
            machine.resume()
            disks.calm(machine)
            if machine.running and machine.node not in self.wounds.refused:
                continue
            if machine.node not in self.wounds.lost and len(dead) < spare and self._random.random() < 0.5:
                dead.append(machine.node)
            else:
                _start_again(machine)
        self.world.history.fault(f"faults stop; dead for good: {dead}")
        return dead

    def _active(self) -> list[FaultClass]:
        return [fault for fault in CLASSES if fault.name in self.plan.active]

    def _stage(self, fault: FaultClass) -> Stage:
        source = self.world.random(f"fault {fault.name}")
        return Stage(fault.name, self.world, self.machines, source, self.wounds, self.plan.pace)

    async def _repeat(self, fault: FaultClass) -> None:
        assert fault.act is not None
        stage, mean = self._stage(fault), self.plan.active[fault.name]
        await trio.sleep(stage.random.random() * min(mean, self.plan.pace * fault.rarity * _FIRST_SECONDS))
        while True:
            await fault.act(stage)
            await trio.sleep(stage.random.expovariate(1.0 / mean))


def _start_again(machine: Machine) -> None:
    if machine.running:
        machine.crash(power=False)
    machine.start()
