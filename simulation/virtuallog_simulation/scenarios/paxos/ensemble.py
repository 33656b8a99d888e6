"""Parts of stories about one bare paxos loglet: its replicas on machines, clients that race, a
watch on every store.

A paxos loglet replaces its coordinator by itself: as long as a majority of its replicas lives,
appends go on. That is demanded at the end of each story (docs/internals/protocols/paxos.md, "Coordinator").
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog_loglets.paxos.config import decode_untrusted
from virtuallog_loglets.paxos.messages import PaxosSettle
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_simulation.checks.cluster.paxos_store_watch import PaxosWatch
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.world import World

CALM_SECONDS: Final = 60.0
APPEND_SECONDS: Final = 20.0
"""Seconds after the faults within which a replica must lead: several elections, each with its
pauses, one after the other."""
_AGITATOR: Final = NodeId(2002)
_FIRST_CLIENT: Final = 3000


@attrs.define(eq=False)
class PaxosEnsemble:
    """One loglet on the machines 1, 2, ..., which all have a replica of it."""

    world: World
    served: ServedLoglets
    watch: PaxosWatch
    race: LogletRace
    _clients: int = attrs.field(default=0, init=False)

    @classmethod
    def begin(cls, world: World, replicas: int) -> PaxosEnsemble:
        served = ServedLoglets(world, PaxosProvider)
        watch = PaxosWatch(world)
        watch.start()
        served.start(replicas)
        served.create(SEGMENT, settings={"replicas": str(replicas)})
        return cls(world, served, watch, LogletRace(world, partial(served.open, SEGMENT)))

    @property
    def nodes(self) -> Sequence[NodeId]:
        return list(self.served.machines)

    @property
    def minority(self) -> int:
        """Number of replicas that may be lost at once."""
        return (len(self.nodes) - 1) // 2

    def cut(self, node: NodeId, others: Iterable[NodeId]) -> None:
        """No message passes between these, until the network is healed."""
        link = self.world.network.link
        for other in others:
            link(node, other).blocked = link(other, node).blocked = True

    async def act(
        self,
        name: str,
        replica: NodeId,
        act: Callable[[Loglet], Awaitable[None]],
        seconds: float = 3.0,
        *,
        also: Sequence[NodeId] = (),
    ) -> None:
        """A client that reaches this replica, and those in `also`, does this as far as it gets within a few elections. A tail or a trim
        takes a quorum of them."""
        self._clients += 1
        node = NodeId(_FIRST_CLIENT + self._clients)
        pin(self, node, replica, *also)
        with trio.move_on_after(seconds):
            async with self.world.client(node) as environment:
                config = attrs.evolve(decode_untrusted(self.served.config(SEGMENT)), coordinator=replica)
                loglet = PaxosProvider().open(SEGMENT, config.encode(), environment)
                with suppress(VirtualLogError):
                    await act(RecordedLoglet(loglet, self.world.history, SEGMENT, f"{name} {node}"))

    async def stand(self, node: NodeId) -> None:
        """Let this replica stand for election; it has sent its requests on return."""
        async with self.world.client(_AGITATOR) as environment:
            environment.services.post(node, PaxosSettle(segment=SEGMENT, insist=True), lambda _: None, 1.0)
            await trio.sleep(0.002)

    async def agitate(self, source: random.Random, seconds: float, most: int) -> None:
        """Until cancelled, let up to `most` replicas stand for election at the same moment, with so
        many seconds in between."""
        async with self.world.client(_AGITATOR) as environment:
            while True:
                await trio.sleep(source.expovariate(1.0 / seconds))
                for node in source.sample(self.nodes, source.randint(1, most)):
                    environment.services.post(node, PaxosSettle(segment=SEGMENT, insist=True), lambda _: None, 1.0)

    async def finish(self) -> None:
        """Demand what must be possible now that a majority is well, then check everything."""
        if await self.race.demand_append(APPEND_SECONDS):
            await self.race.demand_seal(CALM_SECONDS)
        self.world.check(*LOGLET_CHECKS)
        self.watch.judge()


def pin(story: PaxosEnsemble, client: NodeId, *replicas: NodeId) -> None:
    """Make the client reach these replicas only; all others do not answer it."""
    story.cut(client, [node for node in story.nodes if node not in replicas])
