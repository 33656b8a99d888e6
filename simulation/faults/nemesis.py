"""What goes wrong in a run: which classes of faults, how often and how badly, is drawn from the seed.

Most seeds have a few classes active, as bugs hide behind combinations that a run with everything at once drowns; some
have all, some have none. Whatever happens, the history stays possible: at most `LOST_MAX` machines ever lose durable
data (a wiped or failing disk), so a majority of every server set keeps what it has synced.

Each fault is counted when it takes effect (`World.counts`, `SimulatedNetwork.counts`, `Disk.fired`).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from simulation.faults.crash_points import CrashPoints
from simulation.world.machine import Machine
from simulation.world.world import ClockErrors, World
from virtuallog.testing.network import LinkQuality
from virtuallog.types import NodeId

LOST_MAX: Final = 1
"""A loglet on three servers survives the loss of one."""


@attrs.frozen(kw_only=True)
class FaultPlan:
    """The faults of one run."""

    network: LinkQuality
    clocks: ClockErrors
    write_seconds: tuple[float, float]
    """How long synced writes take."""
    intervals: dict[str, float]
    """Mean seconds between two faults of each class that is active."""

    @classmethod
    def draw(cls, source: random.Random, without: Sequence[str] = (), pace: float = 1.0) -> FaultPlan:
        """Draw all that is to be drawn.

        Args:
            source: of the run.
            without: classes that are never active.
            pace: below 1 for runs that are shorter than the usual half a minute.
        """
        share = source.choice((0.0, 0.3, 0.3, 0.5, 1.0))

        def maybe(value: float) -> float:
            return value if source.random() < share else 0.0

        return cls(
            network=LinkQuality(
                tail_probability=maybe(source.choice((0.01, 0.1, 0.3))),
                tail_seconds=source.choice((0.005, 0.05, 0.5)),
                loss=maybe(source.choice((0.002, 0.02, 0.1))),
                duplicate=maybe(source.choice((0.005, 0.05, 0.3))),
                reorder=maybe(source.choice((0.01, 0.1, 0.5))),
            ),
            clocks=ClockErrors(maybe(source.choice((0.001, 0.05, 0.3))), maybe(source.choice((0.1, 3600.0)))),
            write_seconds=(0.0, source.choice((0.0005, 0.005, 0.05))),
            intervals={
                name: pace * source.choice(_INTERVALS) * (5 if name in LOSING else 1)
                for name in _CLASSES
                if source.random() < share and name not in without
            },
        )


_INTERVALS: Final = (0.7, 2.0, 5.0)


@attrs.define(eq=False)
class Nemesis:
    """Does to some machines what its plan says, until told to stop."""

    world: World
    machines: Mapping[NodeId, Machine]
    """May be empty until `run`."""
    plan: FaultPlan
    lost: set[int] = attrs.field(factory=set, init=False)
    """Machines that have lost durable data."""
    crash_points: CrashPoints = attrs.field(init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = self.world.random("nemesis")
        self.crash_points = CrashPoints(self.world, self.machines)
        self.crash_points.start()

    def prepare(self) -> None:
        """Before the cluster starts: what holds for the whole run."""
        self.world.network.set_quality(self.plan.network)
        self.world.clock_errors = self.plan.clocks
        self.crash_points.clients_die = True

    async def run(self) -> None:
        """For ever; call it once the machines exist."""
        for machine in self._machines():
            machine.faults.write_seconds = machine.faults.change_seconds = self.plan.write_seconds
        async with trio.open_nursery() as nursery:
            for name in _CLASSES:
                if name in self.plan.intervals:
                    nursery.start_soon(self._repeat, name, self.plan.intervals[name])

    def stop(self, dead_max: int = LOST_MAX) -> list[NodeId]:
        """Heal what can be healed, after `run` was cancelled. Returns the nodes that stay dead: with those that have
        lost data, not more than `dead_max`."""
        world = self.world
        self.crash_points.stop()
        world.network.heal()
        world.network.set_quality(LinkQuality())
        spare = dead_max - len(self.lost)
        dead: list[NodeId] = []
        for machine in self._shuffled():
            machine.resume()
            self._calm(machine)
            if not machine.running and len(dead) < spare and self._random.random() < 0.5:
                dead.append(machine.node)
            elif not machine.running:
                machine.start()
        world.history.fault(f"faults stop; dead for good: {dead}")
        return dead

    async def _repeat(self, name: str, interval: float) -> None:
        while True:
            await trio.sleep(self._random.expovariate(1.0 / interval))
            await _CLASSES[name](self)

    # -- processes ----------------------------------------------------------------------------------------------

    async def crash(self) -> None:
        """Power is lost: what was not synced is lost or torn."""
        await self._down("crash", power=True)

    async def kill(self) -> None:
        """Kill -9: what was written stays."""
        await self._down("kill", power=False)

    async def _down(self, name: str, *, power: bool) -> None:
        machine = self._pick()
        if machine.running:
            self._note(name, machine)
            machine.crash(power=power)
            await self._rest()
            self._restart(machine)

    async def blackout(self) -> None:
        """Power is lost everywhere at once: nobody has what nobody has synced."""
        self.world.fault("blackout")
        down = [machine for machine in self._machines() if machine.running]
        for machine in down:
            machine.crash()
        for machine in down:
            await trio.sleep(self._random.random())
            self._restart(machine)

    async def pause(self) -> None:
        """The process stands still."""
        machine = self._pick()
        self._note("pause", machine)
        machine.pause()
        await self._rest()
        machine.resume()

    async def wipe(self) -> None:
        """The disks are replaced by empty ones: the node must stay out."""
        machine = self._pick()
        if not self._may_lose(machine):
            return
        if machine.running:
            machine.crash()
        self._note("wipe", machine)
        machine.wipe()
        await self._rest()
        self._restart(machine)

    async def fail_disk(self) -> None:
        """Writes and syncs fail: the node must stop using what they were for."""
        machine = self._pick()
        if not self._may_lose(machine):
            return
        self._note("failing disk", machine)
        machine.faults.write_error = machine.faults.sync_error = 0.2
        await self._rest()
        self._calm(machine)

    # -- network ------------------------------------------------------------------------------------------------

    async def isolate(self) -> None:
        """One machine is cut off from the other machines, but not from clients."""
        node = self._pick().node
        self._note("isolate", node)
        await self._cut([(node, other) for other in self._nodes()] + [(other, node) for other in self._nodes()])

    async def halve(self) -> None:
        """The machines fall into two groups."""
        shuffled = [machine.node for machine in self._shuffled()]
        half = shuffled[: self._random.randint(1, len(shuffled) - 1)]
        rest = [node for node in shuffled if node not in half]
        self._note("halves", f"{half} {rest}")
        await self._cut([pair for one in half for other in rest for pair in ((one, other), (other, one))])

    async def deafen(self) -> None:
        """One direction between two machines is cut: an asymmetric partition."""
        one, other = self._pair()
        self._note("one way", f"{one} -> {other}")
        await self._cut([(one, other)])

    async def clog(self) -> None:
        """What is sent over a link waits, then arrives in a burst."""
        one, other = self._pair()
        seconds = self._random.uniform(0.05, 2.0)
        self._note("clog", f"{one} -> {other} for {seconds:.2f} s")
        self.world.network.link(one, other).clogged_until = self.world.now() + seconds

    async def slow(self) -> None:
        """A machine's links become slow, in both directions."""
        node, network = self._pick().node, self.world.network
        factor = self._random.choice((5.0, 50.0))
        self._note("slow links", f"{node} by {factor:g}")
        links = [network.link(*pair) for other in self._nodes() for pair in ((node, other), (other, node))]
        for link in links:
            link.slowness = factor
        await self._rest()
        for link in links:
            link.slowness = 1.0

    async def _cut(self, pairs: list[tuple[NodeId, NodeId]]) -> None:
        links = [self.world.network.link(*pair) for pair in pairs]
        for link in links:
            link.blocked = True
        await self._rest()
        for link in links:
            link.blocked = False

    # -- clocks -------------------------------------------------------------------------------------------------

    async def jump(self) -> None:
        """A wall clock is set."""
        machine = self._pick()
        if machine.running:
            self._note("wall clock jump", machine)
            machine.clock.wall_offset_seconds += self._random.uniform(-3600.0, 3600.0)

    # -- helpers ------------------------------------------------------------------------------------------------

    def _machines(self) -> list[Machine]:
        return list(self.machines.values())

    def _nodes(self) -> list[NodeId]:
        return list(self.machines)

    def _shuffled(self) -> list[Machine]:
        machines = self._machines()
        self._random.shuffle(machines)
        return machines

    def _pick(self) -> Machine:
        return self._random.choice(self._machines())

    def _pair(self) -> tuple[NodeId, NodeId]:
        one, other = self._random.sample(self._nodes(), 2)
        return one, other

    def _may_lose(self, machine: Machine) -> bool:
        if machine.node in self.lost or len(self.lost) >= LOST_MAX:
            return False
        self.lost.add(machine.node)
        return True

    def _restart(self, machine: Machine) -> None:
        if not machine.running:
            self._note("restart", machine)
            machine.start()

    def _calm(self, machine: Machine) -> None:
        machine.faults.write_error = machine.faults.sync_error = 0.0

    def _note(self, kind: str, detail: object) -> None:
        shown = detail.node if isinstance(detail, Machine) else detail
        self.world.fault(kind, str(shown))

    async def _rest(self) -> None:
        await trio.sleep(min(10.0, self._random.expovariate(1.0 / self._random.choice((0.1, 1.0, 3.0)))))


_CLASSES: Final[dict[str, Callable[[Nemesis], Awaitable[None]]]] = {
    "crash": Nemesis.crash,
    "kill": Nemesis.kill,
    "blackout": Nemesis.blackout,
    "pause": Nemesis.pause,
    "wipe": Nemesis.wipe,
    "failing disk": Nemesis.fail_disk,
    "isolate": Nemesis.isolate,
    "halves": Nemesis.halve,
    "one way": Nemesis.deafen,
    "clog": Nemesis.clog,
    "slow links": Nemesis.slow,
    "wall clock jump": Nemesis.jump,
}
LOSING: Final = ("wipe", "failing disk")
"""Classes that lose durable data."""
