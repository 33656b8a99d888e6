"""The nemesis: applies a fault plan to the machines of a run, and heals the world when it stops.

The history stays possible under all faults: at most `LOST_MAX` machines ever lose durable data, so
a majority of every server set keeps what it has synced. Each act is counted when it takes effect,
under the name of its class (`World.counts`), and so are its consequences: see the registry.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.faults import disks
from virtuallog_simulation.faults.context import FaultContext, Wounds
from virtuallog_simulation.faults.crash_points import CRASH_POINT, CrashPoints
from virtuallog_simulation.faults.fault_class import FaultClass
from virtuallog_simulation.faults.registry import CLASSES, LOSING
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

__all__ = ["LOSING", "LOST_MAX", "FaultPlan", "Nemesis"]

LOST_MAX: Final = 1
"""A loglet on three servers survives the loss of one."""
_FIRST_SECONDS: Final = 3.0
"""The first act of a class comes no later, as some runs are short."""


@attrs.define(eq=False)
class Nemesis:
    """Applies a `FaultPlan`, after removing the classes that `World.options` excludes."""

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
        """Apply the faults that hold for the whole run. The machines must exist."""
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

    def _stage(self, fault: FaultClass) -> FaultContext:
        source = self.world.random(f"fault {fault.name}")
        return FaultContext(fault.name, self.world, self.machines, source, self.wounds, self.plan.pace)

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


_SHARES: Final = (0.0, 0.15, 0.3, 0.3, 0.3, 0.5, 1.0)
"""Shares of classes that are active in a run. One run in seven has no faults: what fails there
needs none."""
_INTERVALS: Final = (1.5, 4.0, 10.0)
"""Mean seconds between two acts of one class, for runs of some 20 simulated seconds."""


@attrs.frozen(kw_only=True)
class FaultPlan:
    """The classes of faults that strike in one run, and how often each does, drawn from the seed.

    Most runs have a few active classes: bugs hide behind combinations that a run with everything
    at once drowns. Some runs have all classes, some none. Whether a class is active, and how often
    it strikes, depends only on the run and on its name, so a class that is added or removed leaves
    the others as they were.
    """

    active: Mapping[str, float]
    """Class -> mean seconds between two of its acts (of no meaning for classes that hold for the whole run)."""
    pace: float = 1.0
    """Factor on every duration."""

    @classmethod
    def draw(cls, source: random.Random, without: Sequence[str] = (), pace: float = 1.0) -> FaultPlan:
        """Draw all that is to be drawn.

        Args:
            source: of the run; drawn from twice, whatever there is to choose from.
            without: classes that are never active.
            pace: below 1 for runs that are shorter than the usual half a minute.
        """
        share, run = source.choice(_SHARES), source.getrandbits(64)
        intervals: dict[str, float] = {}
        for fault in CLASSES:
            own = random.Random(f"{run} {fault.name}")
            dice, interval = own.random(), own.choice(_INTERVALS) * fault.rarity * pace
            active = share > 0.0 if fault.everywhere else dice < share
            if active and fault.name not in without:
                intervals[fault.name] = interval
        return cls(active=intervals, pace=pace)

    def narrowed(self, allows: Callable[[str], bool]) -> FaultPlan:
        """This plan without the classes that are not allowed."""
        return attrs.evolve(self, active={name: mean for name, mean in self.active.items() if allows(name)})
