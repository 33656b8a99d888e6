"""External services, on which loglets live that are not copies on the cluster's own nodes.

    weak-seal   two servers, for entries and for seals
    zookeeper   an ensemble (`virtuallog.testing.sim.zookeeper`)
    archive     one place for files (`virtuallog.testing.sim.object_store`)

They never lose what they have acknowledged, which is their owners' promise to us; but they may stand still, be cut off from
nodes, be slow, break connections and refuse work, and what is asked of them may happen late. Their faults are drawn and counted
apart from those of the cluster, which does not own these machines; a service that a run does not use has none.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment, Handlers
from virtuallog.contract.types import GapKind, LogletOffset, NodeId, PlacedBatch
from virtuallog.testing.checker.actions import LogletAppend, LogletSeal, LogletTrim
from virtuallog.testing.checker.history import History
from virtuallog.testing.sim.links import SimulatedLink
from virtuallog.testing.sim.object_store import FilesServer, SimulatedFiles
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.zookeeper import SimulatedZooKeeper, ZooKeeperFaults
from virtuallog.testing.weak_seal import EntriesServer, SealServer, WeakSealLoglet
from virtuallog.testing.weak_seal_provider import KIND as WEAK_SEAL
from virtuallog.testing.weak_seal_provider import WeakSealProvider
from virtuallog_loglets.archive.provider import ArchiveProvider
from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider
from virtuallog_simulation.world.world import World

ENTRIES: Final = NodeId(901)
SEAL: Final = NodeId(902)
FILES: Final = NodeId(903)
NO_NODE: Final = NodeId(0)
"""Node number for faults of the ensemble, which is not one of the simulated servers."""
ZOOKEEPER: Final = "zookeeper"
ARCHIVE: Final = "archive"
SERVERS: Final = {WEAK_SEAL: (ENTRIES, SEAL), ARCHIVE: (FILES,)}
"""Servers of an external service, by the kind that lives on them."""
FAULTS: Final = ("service pause", "service cut off", "slow service")
"""Names under which faults of those servers are counted."""
FILES_FAULTS: Final = ("files refused", "files damaged")
ZOOKEEPER_FAULTS: Final = ("zookeeper gone", "zookeeper breaks", "zookeeper lags")
SLOWNESS: Final = 50.0
"""Factor on every delay: a call takes 50 to 100 ms."""

HOSTS: Final = "zookeeper.simulated:2181"
_INTERVALS: Final = (0.7, 2.0, 5.0)


@attrs.define(eq=False)
class ServiceProvider(WeakSealProvider):
    """Records in the history with what a copy of a segment was filled; clients never append to it."""

    _history: History
    _copies: dict[bytes, Sequence[Placed]]
    """Copies of all processes, by config."""
    _told: set[SegmentId]
    """The copies that the history knows of. It is opened by another id as well before the chain has it, to be looked at."""

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> WeakSealLoglet:
        if segment not in self._told and config in self._copies:
            self._told.add(segment)
            made = [action for item in self._copies[config] for action in _made_by(segment, item)]
            for action in [*made, LogletSeal(segment)]:
                with suppress(_CopiedError), self._history.record("copier", action):
                    raise _CopiedError
        return WeakSealProvider.open(self, segment, config, environment)

    async def store_copy(self, environment: Environment, log: str, placed: Sequence[Placed]) -> bytes:
        config = await WeakSealProvider.store_copy(self, environment, log, placed)
        self._copies[config] = placed
        return config


def _made_by(segment: SegmentId, item: Placed) -> Iterator[LogletAppend | LogletTrim]:
    """Actions that can have made a loglet hold these entries."""
    if isinstance(item, PlacedBatch):
        yield LogletAppend(segment, item.batch)
    elif item.kind is GapKind.TRIMMED:
        yield LogletTrim(segment, LogletOffset(item.stop))


class _CopiedError(Exception):
    """Stands for the missing acknowledgement of copied entries."""


@attrs.define(eq=False)
class ExternalServices:
    """The services and what goes wrong with them. `stop` heals them."""

    world: World
    zookeeper: SimulatedZooKeeper = attrs.field(init=False)
    files: FilesServer = attrs.field(init=False)
    _copies: dict[bytes, Sequence[Placed]] = attrs.field(factory=dict, init=False)
    _told: set[SegmentId] = attrs.field(factory=set, init=False)
    _servers: dict[NodeId, Process] = attrs.field(factory=dict, init=False)
    _nodes: Sequence[NodeId] = attrs.field(default=(), init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        world = self.world
        self._random = world.random("outside")
        self.zookeeper = SimulatedZooKeeper(world.timeline, world.random("zookeeper"))
        self.zookeeper.counts = world.counts
        self.files = FilesServer(world.network, world.random("files"))

    # -- kinds of loglets, for one process ----------------------------------------------------------------------------

    def provider(self) -> ServiceProvider:
        """Provider of kind weak-seal."""
        return ServiceProvider(ENTRIES, SEAL, self.world.history, self._copies, self._told)

    def zookeeper_provider(self) -> ZooKeeperProvider:
        return ZooKeeperProvider(lambda _, environment: self.zookeeper.connect(environment.clock), HOSTS)

    def archive_provider(self) -> ArchiveProvider:
        return ArchiveProvider(partial(SimulatedFiles, self.world.network, FILES))

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, nodes: Sequence[NodeId]) -> None:
        """Start the service, before the cluster of these nodes starts."""
        self._nodes = nodes
        served: dict[NodeId, Handlers] = {
            ENTRIES: EntriesServer().handlers, SEAL: SealServer().handlers, FILES: self.files.handlers
        }  # fmt: skip
        for node, handlers in served.items():
            self._servers[node] = Process(node)
            self.world.network.listen(self._servers[node], handlers)

    async def run(self, kinds: Collection[str]) -> None:
        """Faults of what these kinds of loglets live on, for ever; in half of the runs there are none."""
        faulty, interval = self._random.random() < 0.5, self._random.choice(_INTERVALS)
        choices = [(name, server) for kind in sorted(kinds) for name, server in _choices(kind)]
        while faulty and choices:
            await trio.sleep(self._random.expovariate(1.0 / interval))
            name, server = self._random.choice(choices)
            rest = min(3.0, self._random.expovariate(2.0))
            if self.world.options.allows_fault(name):
                self.world.fault(name, str(server))
                await _ACTS[name](self, server, rest)

    def stop(self) -> None:
        """Clean up after `run` was cancelled. The caller heals the network."""
        self.zookeeper.faults = ZooKeeperFaults()
        self.files.refusing = self.files.torn = self.files.damaging = 0.0
        for process in self._servers.values():
            process.resume()

    # -- faults -------------------------------------------------------------------------------------------------------

    async def pause(self, server: NodeId, seconds: float) -> None:
        self._servers[server].pause()
        await trio.sleep(seconds)
        self._servers[server].resume()

    async def cut_off(self, server: NodeId, seconds: float) -> None:
        """Cut the service off from the nodes, not from clients."""
        links = self._links(server)
        for link in links:
            link.cut("service cut off: lost")
        await trio.sleep(seconds)
        for link in links:
            link.mend("service cut off: lost")

    async def slow(self, server: NodeId, seconds: float) -> None:
        """Slow the service down for the nodes."""
        links = self._links(server)
        for link in links:
            link.slowness = SLOWNESS
        await trio.sleep(seconds)
        for link in links:
            link.slowness = 1.0

    async def refuse(self, server: NodeId, seconds: float) -> None:
        """Every other request for files, and files are not made in one step."""
        self.files.refusing = self.files.torn = self._random.choice((0.1, 0.5))
        await trio.sleep(seconds)
        self.files.refusing = self.files.torn = 0.0

    async def damage(self, server: NodeId, seconds: float) -> None:
        """Damage files on their way to the service, not on its disks: a reader of the file sees it."""
        self.files.damaging = 0.5
        await trio.sleep(seconds)
        self.files.damaging = 0.0

    async def gone(self, server: NodeId, seconds: float) -> None:
        """Make the ensemble unreachable."""
        await self._troubled(ZooKeeperFaults(reachable=False), seconds)

    async def break_off(self, server: NodeId, seconds: float) -> None:
        """Connections break, and what was on its way happens, perhaps late."""
        await self._troubled(ZooKeeperFaults(breaks=self._random.choice((0.02, 0.3)), late=0.5), seconds)

    async def lag(self, server: NodeId, seconds: float) -> None:
        """Servers of the ensemble answer reads with what was."""
        await self._troubled(ZooKeeperFaults(breaks=0.02, lag_seconds=self._random.choice((0.05, 1.0))), seconds)

    async def _troubled(self, faults: ZooKeeperFaults, seconds: float) -> None:
        self.zookeeper.faults = faults
        await trio.sleep(seconds)
        self.zookeeper.faults = ZooKeeperFaults()

    def _links(self, server: NodeId) -> list[SimulatedLink]:
        link = self.world.network.link
        return [link(*pair) for node in self._nodes for pair in ((node, server), (server, node))]


def _choices(kind: str) -> Iterator[tuple[str, NodeId]]:
    if kind == ZOOKEEPER:
        yield from ((name, NO_NODE) for name in ZOOKEEPER_FAULTS)
    for server in SERVERS.get(kind, ()):
        yield from ((name, server) for name in FAULTS)
        if server == FILES:
            yield from ((name, server) for name in FILES_FAULTS)


_ACTS: Final[dict[str, Callable[[ExternalServices, NodeId, float], Awaitable[None]]]] = {
    "service pause": ExternalServices.pause,
    "service cut off": ExternalServices.cut_off,
    "slow service": ExternalServices.slow,
    "files refused": ExternalServices.refuse,
    "files damaged": ExternalServices.damage,
    "zookeeper gone": ExternalServices.gone,
    "zookeeper breaks": ExternalServices.break_off,
    "zookeeper lags": ExternalServices.lag,
}
