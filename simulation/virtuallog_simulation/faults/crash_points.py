"""Processes that die exactly at a crash point (`virtuallog/contract/crash_points.py`): power loss
or kill, between two lines.

In most runs some points are armed, separately for nodes and for clients; a point strikes a process
at a drawn pass. The draw for a point depends only on the seed and the name of the point, so a new
point does not change the others. Rare points are armed far more often, so that they get their
share.

Nodes die from the first moment on, also while the cluster is founded; clients only while the nemesis works.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

import attrs

from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint
from virtuallog.contract.types import NodeId
from virtuallog.plugins import presentations
from virtuallog.testing.sim.process import Process
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

CRASH_POINT: Final = "crash point"
"""The name of this class of faults."""
COUNTED: Final = "crash at "
"""Each death is counted as this and the name of the point."""


def _areas_of_kinds() -> dict[str, str]:
    return {kind: each.crash_area for kind, each in presentations().items() if each.crash_area}


AREAS: Final[Mapping[str, str]] = {
    "wal": "the write-ahead log of a LogServer",
    **_areas_of_kinds(),
    "metastore": "acceptors and proposers of the MetaStore",
    "chain": "changes of the chain, by clients and by the watchdog of a node",
    "appender": "sessions of clients",
    "node": "the start of a node, its identity, the founding of a cluster",
    "healing": "a node that does something about the failure of another one",
    "rebuild": "copies of closed segments that are made on other nodes",
    "joining": "a new data directory that takes a place in the cluster",
    "replacing": "a node that gives the place of a lost directory to another one",
    "draining": "a node that moves everything off another one",
    "revival": "an import of the register, when the MetaStore was lost",
}
"""Parts of the product that have crash points."""

_SHARE: Final = 0.6
"""Share of the runs with armed points."""
_ARMED: Final = 0.12
"""Share of the points that are armed in such a run."""
_RARE_ARMED: Final = 0.5
"""Most of these are not reached in a run. Not all of them: a point that lies before another one would hide it."""
_PASSES: Final = (0.5, 5.0, 80.0)
"""Mean number of passes before a point strikes: some are passed twice in a run, some thousands of times."""
_PASSES_RARE: Final = 0.5
_DEATHS_MAX: Final = 12
"""Most deaths in a run. With fewer, early points would take all, and late ones would never strike."""
_FOUNDING_DEATHS_MAX: Final = 5
"""Most deaths before the nemesis works: so many rests in a row may delay the founding of a cluster,
see `scenarios/cluster/load.py`."""
_REST_SECONDS: Final = (0.05, 0.5, 3.0)
"""The longest time until a node is started again."""


def table() -> str:
    """The points of the product, for docs/internals/faults.md."""
    rows = ["| area | a process dies when | rare |", "|---|---|---|"]
    for area in AREAS:
        of_area = sorted((point for point in CRASH_POINTS.values() if point.area == area), key=attrgetter("name"))
        rows += [f"| {area} | {point.name.partition(': ')[2]} | {'x' if point.rare else ''} |" for point in of_area]
    return "\n".join(rows)


@attrs.frozen
class CrashPointPlan:
    """Crash points at which processes die in one run."""

    nodes: Mapping[str, int]
    """Point -> at which pass of any node."""
    clients: Mapping[str, int]

    @classmethod
    def draw(cls, world: World, points: Iterable[CrashPoint]) -> CrashPointPlan:
        if world.random("crash points").random() >= _SHARE:
            return cls({}, {})
        nodes, clients = dict[str, int](), dict[str, int]()
        for point in points:
            source = world.random(f"crash point {point.name}")
            for passes in (nodes, clients):
                armed, at = source.random(), _draw_pass(source, point)
                if armed < (_RARE_ARMED if point.rare else _ARMED):
                    passes[point.name] = at
        return cls(nodes, clients)


def _draw_pass(source: random.Random, point: CrashPoint) -> int:
    mean = _PASSES_RARE if point.rare else source.choice(_PASSES)
    return 1 + int(source.expovariate(1.0 / mean))


@attrs.define(eq=False)
class CrashPoints:
    """Lets processes die as planned, from `start` to `stop`."""

    world: World
    machines: Mapping[NodeId, Machine]
    """Nodes; every other process is a client. May be empty until the first of them starts."""
    clients_die: bool = False
    _left: dict[tuple[str, bool], int] = attrs.field(factory=dict, init=False)
    """Passes until the armed points strike, by name, and whether it is clients that are counted."""
    _deaths: int = attrs.field(default=0, init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = self.world.random("deaths at crash points")

    def start(self, plan: CrashPointPlan | None = None) -> None:
        """Arm what is drawn, or what `plan` says. Does nothing in a run that is narrowed to other faults."""
        if self.world.options.allows_fault(CRASH_POINT):
            plan = plan or CrashPointPlan.draw(self.world, CRASH_POINTS.values())
            self._left = {(name, False): at for name, at in plan.nodes.items()}
            self._left |= {(name, True): at for name, at in plan.clients.items()}
            self.world.on_crash_point = self._reached

    def stop(self) -> None:
        """Stop all deaths and restarts; the caller heals the world."""
        self._left.clear()
        self._stopped = True

    def _reached(self, process: Process, point: CrashPoint) -> None:
        is_client = process.node not in self.machines
        key = point.name, is_client
        left = self._left.get(key)
        if left is None or (is_client and not self.clients_die):
            return
        if left > 1:
            self._left[key] = left - 1
            return
        del self._left[key]
        if self._deaths < (_DEATHS_MAX if self.clients_die else _FOUNDING_DEATHS_MAX):
            self._strike(process, point)

    def _strike(self, process: Process, point: CrashPoint) -> None:
        self._deaths += 1
        machine, power = self.machines.get(process.node), self._random.random() < 0.5
        if machine is None:
            self.world.fault(COUNTED + point.name, f"(client {process.node})")
        else:
            self.world.fault(COUNTED + point.name, f"(node {process.node}, {'power loss' if power else 'kill'})")
            rest = self._random.random() * self._random.choice(_REST_SECONDS)
            self.world.timeline.schedule(rest, lambda: self._restart(machine, process))
        process.die(power=power)

    def _restart(self, machine: Machine, dead: Process) -> None:
        if machine.process is dead and not self._stopped:
            self.world.fault("restart", str(machine.node))
            machine.start()
