"""What the demo does: three nodes, a workload that never pauses, and everything underneath it replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from server.cluster import LocalCluster
from server.workload.verdict import Verdict, judge_log
from server.workload.writers import Workload
from virtuallog.clock import SystemClock
from virtuallog.connect import ask_living, connect, open_services_to
from virtuallog.control import ReconfigExtend, Setting
from virtuallog.errors import UnavailableError
from virtuallog.plugins import loglet_providers
from virtuallog.ports import Services
from virtuallog.register import decode_untrusted
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLog

CLIENTS: Final = 2
WRITERS_PER_CLIENT: Final = 16
CHANGE_SECONDS: Final = 15.0
DRAIN_SECONDS: Final = 20.0
"""For the last appends, once everything has been mended."""
HOME: Final = "native"
"""The kind that the others are visited from."""


@attrs.frozen
class Event:
    """Something that was done to the log, for the picture."""

    at: float
    """Seconds since the start."""
    label: str
    is_fault: bool = False
    """Done to a node, not to the log."""


@attrs.frozen
class Outcome:
    """All that the demo has seen."""

    workload: Workload
    events: tuple[Event, ...]
    verdict: Verdict


@attrs.define(eq=False)
class Story:
    """`run` it once.

    Args:
        cluster: three nodes that answer.
        tell: called with each step as a line of text.
        phase_seconds: how long the workload runs undisturbed between two steps.
    """

    _cluster: LocalCluster
    _tell: Callable[[str], None]
    _phase_seconds: float
    workload: Workload = attrs.field(init=False)
    _clock: SystemClock = attrs.field(factory=SystemClock, init=False)
    _events: list[Event] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.workload = Workload(self._clock)

    async def run(self) -> Outcome:
        """Takes some ten phases.

        Raises:
            VirtualLogError: a step could not be done at all.
        """
        async with _clients(self._cluster) as logs, open_services_to(self._cluster.file) as services:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.workload.run, logs, WRITERS_PER_CLIENT)
                await self._swap_and_break(services)
                self.workload.stop()
                await self._drain(nursery)
            self._tell("reading everything back")
            verdict = await judge_log(self.workload.told, logs[0])
        return Outcome(self.workload, tuple(self._events), verdict)

    async def _swap_and_break(self, services: Services) -> None:
        await self._undisturbed()
        for kind, settings in tour():
            await self._swap(services, kind, settings)
            await self._undisturbed()
        await self._kill_and_recover(services, NodeId(3))
        await self._undisturbed()

    async def _kill_and_recover(self, services: Services, victim: NodeId) -> None:
        """The tour ends with the sequencer on the victim."""
        self._note(f"kill -9 node {victim}", is_fault=True)
        await self._cluster.kill(victim)
        await self._clock.sleep(self._phase_seconds / 2)
        await self._swap(services, HOME, {"sequencer": "1"})
        await self._undisturbed()
        self._note(f"node {victim} is back")
        await self._cluster.start(victim)

    async def _swap(self, services: Services, kind: str, settings: dict[str, str]) -> None:
        self._note(", ".join([f"swap to {kind}", *(f"{name} {value}" for name, value in settings.items())]))
        began = self.workload.elapsed
        request = ReconfigExtend(kind=kind, settings=tuple(Setting(*pair) for pair in settings.items()))
        changed = await ask_living(services, self._cluster.file, request, CHANGE_SECONDS)
        chain = decode_untrusted(changed.register).chain
        took = 1000 * (self.workload.elapsed - began)
        self._tell(f"    chain version {chain.version}: continues at position {chain.last.start}, after {took:.0f} ms")

    async def _undisturbed(self) -> None:
        before = self.workload.acknowledged
        await self._clock.sleep(self._phase_seconds)
        self._tell(f"    {(self.workload.acknowledged - before) / self._phase_seconds:,.0f} appends/s")

    async def _drain(self, nursery: trio.Nursery) -> None:
        with self._clock.timeout(DRAIN_SECONDS):
            while nursery.child_tasks:
                await self._clock.sleep(0.01)
            return
        raise UnavailableError("appends do not come to an end")

    def _note(self, label: str, *, is_fault: bool = False) -> None:
        at = self.workload.elapsed
        self._events.append(Event(at, label, is_fault))
        self._tell(f"{at:5.1f} s  {label}")


def tour() -> Iterator[tuple[str, dict[str, str]]]:
    """Through every kind that is installed, from one sequencer to another, to one on node 3."""
    yield HOME, {"sequencer": "2"}
    for kind in sorted(loglet_providers()):
        if kind != HOME:
            yield kind, {}
            yield HOME, {"sequencer": "1"}
    yield HOME, {"sequencer": "3"}


@asynccontextmanager
async def _clients(cluster: LocalCluster) -> AsyncIterator[list[VirtualLog]]:
    async with connect(cluster.file) as first, connect(cluster.file) as second:
        yield [first, second]
