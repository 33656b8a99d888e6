"""Compares the acceptors of a MetaStore while they work: at random moments, and at those at which they are easiest to see.

When a majority has accepted and no one has been informed yet that this decides a version, the disks
show what must be decided. Some milliseconds later they do not show it any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint
from virtuallog.contract.errors import CorruptionError, VirtualLogError
from virtuallog.contract.ports import Changes, CutChanges, Span
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.process import Process
from virtuallog_metastore import records
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.drivers.acceptor_driver import STORE
from virtuallog_simulation.checks.state.acceptors import Acceptors, Seen
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.stop_reasons import ROT
from virtuallog_simulation.world.world import World

CHOSEN: Final = CRASH_POINTS["metastore: a majority has accepted, nobody knows that it is decided"]
_SHARE: Final = 0.25
"""Share of the choices after which the disks are compared."""
_TIMES: Final = 4
"""We look no more often, as each time takes about a millisecond."""
_MOMENTS: Final = 2
_SECONDS: Final = 6.0
"""The random moments are drawn from so many seconds: most runs have as many of load."""


@attrs.define(eq=False)
class AcceptorWatch:
    """Looks at the disks of these machines, and puts what it finds wrong into `World.violations`."""

    world: World
    machines: Mapping[NodeId, Machine]
    _seen: Seen = attrs.field(init=False)
    _random: random.Random = attrs.field(init=False)
    _left: int = attrs.field(default=_TIMES, init=False)

    def __attrs_post_init__(self) -> None:
        self._seen = Seen(self.world.counts)
        self._random = self.world.random("acceptor watch")

    def start(self) -> None:
        """Also compare while the run goes on."""
        for _ in range(_MOMENTS):
            self.world.timeline.schedule(self._random.uniform(0.0, _SECONDS), self.look)
        before = self.world.on_crash_point

        def reached(process: Process, point: CrashPoint) -> None:
            self._reached(point)
            before(process, point)

        self.world.on_crash_point = reached

    def look(self) -> None:
        """Compare what is durable now, with each other and with what was seen before."""
        self.world.violations.extend(self._seen.look(self._stored(), self.world.history))

    def _reached(self, point: CrashPoint) -> None:
        if point is CHOSEN and self._left and self._random.random() < _SHARE:
            self._left -= 1
            self.look()

    def _stored(self) -> Acceptors:
        try:
            return stored_acceptors(self.machines)
        except CorruptionError as error:  # not raised: the process at the crash point would take it for its own
            self.world.violations.append(Violation("acceptors agree", f"a disk that has not rotted: {error}"))
            return {}


def stored_acceptors(machines: Mapping[NodeId, Machine]) -> Acceptors:
    """Acceptor on the MetaStore disk of each machine.

    Raises:
        CorruptionError: one cannot be read, though nothing has happened to it.
    """
    return {node: _stored_acceptor(machine) for node, machine in machines.items()}


def _stored_acceptor(machine: Machine) -> Acceptor | None:
    disk = machine.key_values(STORE)
    if disk is None or not disk.pairs:
        return None
    restoring = records.restore(_Pairs(dict(disk.pairs)))
    try:
        restoring.send(None)  # a dictionary never waits, so it ends at once
    except StopIteration as stop:
        acceptor: Acceptor = stop.value
        return acceptor
    except CorruptionError:
        if machine.counts[ROT[1]]:
            return None
        raise
    raise AssertionError("reading a dictionary has waited for something")


@attrs.frozen
class _Pairs:
    """A `DurableMap` to read from."""

    _pairs: Mapping[bytes, bytes]
    has_room: bool = True

    async def get(self, key: bytes) -> bytes | None:
        return self._pairs.get(key)

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return sorted(pair for pair in self._pairs.items() if pair[0].startswith(prefix))

    async def scan_span(self, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
        raise AssertionError("an acceptor has two keys")

    async def write(self, changes: Changes, dropped: Sequence[Span] = ()) -> None:
        raise AssertionError("no state is written here")

    def write_soon(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        raise AssertionError("no state is written here")

    async def reclaim(self, span: Span) -> None:
        raise AssertionError("no state is dropped here")
