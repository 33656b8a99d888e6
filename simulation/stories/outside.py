"""Somebody else's service, on which loglets of kind weak-seal live: two servers outside of the cluster.

It never loses data, which is its owner's promise to us; but it may stand still, be cut off from nodes, or be slow. Its
faults are drawn and counted apart from those of the cluster, which does not own these machines.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from simulation.world.world import World
from virtuallog.api import Placed
from virtuallog.chain import SegmentId
from virtuallog.ports import Environment
from virtuallog.testing.actions import LogletAppend, LogletTrim
from virtuallog.testing.history import History
from virtuallog.testing.links import Link
from virtuallog.testing.process import Process
from virtuallog.testing.weak_seal import EntriesServer, SealServer, WeakSealLoglet
from virtuallog.testing.weak_seal_provider import WeakSealProvider
from virtuallog.types import GapKind, LogletOffset, NodeId, PlacedBatch

ENTRIES: Final = NodeId(901)
SEAL: Final = NodeId(902)
FAULTS: Final = ("service pause", "service cut off", "slow service")
"""Their names, as they are counted."""
SLOWNESS: Final = 50.0
"""Factor on every delay: a call takes 50 to 100 ms."""
_INTERVALS: Final = (0.7, 2.0, 5.0)


@attrs.define(eq=False)
class ServiceProvider(WeakSealProvider):
    """Tells the history what a copy of a segment was filled with: nobody ever appends to it."""

    _history: History
    _copies: dict[bytes, Sequence[Placed]]
    """By config; of all processes."""

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> WeakSealLoglet:
        for item in self._copies.pop(config, ()):
            for action in _made_by(segment, item):
                with suppress(_CopiedError), self._history.record("copier", action):
                    raise _CopiedError
        return WeakSealProvider.open(self, segment, config, environment)

    async def store_copy(self, environment: Environment, log: str, placed: Sequence[Placed]) -> bytes:
        config = await WeakSealProvider.store_copy(self, environment, log, placed)
        self._copies[config] = placed
        return config


def _made_by(segment: SegmentId, item: Placed) -> Iterator[LogletAppend | LogletTrim]:
    """What could have made a loglet hold this."""
    if isinstance(item, PlacedBatch):
        yield LogletAppend(segment, item.batch)
    elif item.kind is GapKind.TRIMMED:
        yield LogletTrim(segment, LogletOffset(item.stop))


class _CopiedError(Exception):
    """Nobody acknowledged it."""


@attrs.define(eq=False)
class Outside:
    """The service and what goes wrong with it. `stop` heals it."""

    world: World
    _copies: dict[bytes, Sequence[Placed]] = attrs.field(factory=dict, init=False)
    _servers: dict[NodeId, Process] = attrs.field(factory=dict, init=False)
    _nodes: Sequence[NodeId] = attrs.field(default=(), init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = self.world.random("outside")

    def provider(self) -> ServiceProvider:
        """For one process."""
        return ServiceProvider(ENTRIES, SEAL, self.world.history, self._copies)

    def start(self, nodes: Sequence[NodeId]) -> None:
        """It is there before the cluster of these nodes is."""
        self._nodes = nodes
        for node, handlers in ((ENTRIES, EntriesServer().handlers), (SEAL, SealServer().handlers)):
            self._servers[node] = Process(node)
            self.world.network.listen(self._servers[node], handlers)

    async def run(self) -> None:
        """Faults, for ever; in half of the runs there are none."""
        faulty, interval = self._random.random() < 0.5, self._random.choice(_INTERVALS)
        allowed = [name for name in FAULTS if self.world.options.allows_fault(name)]
        while faulty and allowed:
            await trio.sleep(self._random.expovariate(1.0 / interval))
            name, server = self._random.choice(FAULTS), self._random.choice((ENTRIES, SEAL))
            rest = min(3.0, self._random.expovariate(2.0))
            if name in allowed:
                self.world.fault(name, str(server))
                await _ACTS[name](self, server, rest)

    def stop(self) -> None:
        """After `run` was cancelled. The network is healed by whoever heals all of it."""
        for process in self._servers.values():
            process.resume()

    async def pause(self, server: NodeId, seconds: float) -> None:
        self._servers[server].pause()
        await trio.sleep(seconds)
        self._servers[server].resume()

    async def cut_off(self, server: NodeId, seconds: float) -> None:
        """From the nodes, not from clients."""
        links = self._links(server)
        for link in links:
            link.cut("service cut off: lost")
        await trio.sleep(seconds)
        for link in links:
            link.mend("service cut off: lost")

    async def slow(self, server: NodeId, seconds: float) -> None:
        """For the nodes."""
        links = self._links(server)
        for link in links:
            link.slowness = SLOWNESS
        await trio.sleep(seconds)
        for link in links:
            link.slowness = 1.0

    def _links(self, server: NodeId) -> list[Link]:
        link = self.world.network.link
        return [link(*pair) for node in self._nodes for pair in ((node, server), (server, node))]


_ACTS: Final[dict[str, Callable[[Outside, NodeId, float], Awaitable[None]]]] = {
    "service pause": Outside.pause,
    "service cut off": Outside.cut_off,
    "slow service": Outside.slow,
}
