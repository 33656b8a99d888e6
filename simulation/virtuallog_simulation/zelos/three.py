"""Three servers of a database on native loglets, for stories that stage who reaches whom.

No nemesis works here. A story cuts links, pauses processes and changes clocks by itself. The witness and the watch over the stores
are those of the scenario `zelos`, and so are the checks that `judge` runs at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

import attrs

from virtuallog.testing.byte_streams import StreamQuality
from virtuallog.types import NodeId
from virtuallog_server.zookeeper.settings import ZooKeeperSettings
from virtuallog_simulation.checks.zelos import ZELOS_CHECKS
from virtuallog_simulation.checks.zelos_facts import replay
from virtuallog_simulation.checks.zelos_inside import inside_checks
from virtuallog_simulation.checks.zelos_replicas import REPLICA_CHECKS, StateWatch
from virtuallog_simulation.checks.zelos_sessions import session_checks
from virtuallog_simulation.checks.zelos_watches import WATCH_CHECKS
from virtuallog_simulation.stories import cluster as main
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World
from virtuallog_simulation.zelos.inside import Manner
from virtuallog_simulation.zelos.lag import demand_no_lag
from virtuallog_simulation.zelos.servers import ZOOKEEPER, Engines, Servers
from virtuallog_simulation.zelos.session import Client
from virtuallog_simulation.zelos.witness import Witness

NODES: Final = (NodeId(1), NodeId(2), NodeId(3))
FIRST_CLIENT: Final = 2000
COMPARED: Final = "zelos answers compared"


@attrs.define(eq=False)
class ThreeServers:
    """The cluster of one run. Made by `begin`, before anything runs."""

    world: World
    cluster: Cluster
    servers: Servers
    witness: Witness
    states: StateWatch
    numbers: Iterator[int] = attrs.field(factory=lambda: count(1))
    """Of connections."""

    @classmethod
    def begin(
        cls,
        world: World,
        engines: Engines,
        tally: Callable[[str], None],
        *,
        manner: Manner | None = None,
        settings: ZooKeeperSettings = ZOOKEEPER,
    ) -> ThreeServers:
        """Start the nodes. `tally` counts what programs beside the replicas do."""
        cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(main.native,)), main.SETTINGS)
        witness = Witness(world.history, world.violations)
        states = StateWatch(world.history, world.violations, world.counts)
        world.on_store_open, world.on_store_write = states.opened, states.wrote
        servers = Servers(world, witness, engines, StreamQuality(), tally, manner=manner or Manner(), settings=settings)
        servers.start(cluster)
        cluster.start()
        return cls(world, cluster, servers, witness, states)

    def machine(self, node: NodeId) -> Machine:
        """The machine of a server."""
        return self.cluster.machines[node]

    @contextmanager
    def isolated(self, node: NodeId) -> Iterator[None]:
        """Cut a server off from the other two; clients still reach it."""
        links = [
            self.world.network.link(*pair) for each in NODES if each != node for pair in ((node, each), (each, node))
        ]
        for link in links:
            link.cut("staged")
        try:
            yield
        finally:
            for link in links:
                link.mend("staged")

    def client(self, number: int, node: NodeId, *, timeout_ms: int, only: NodeId | None = None) -> Client:
        """A client in the client process `node`, of all servers or of one."""
        name = f"c{number}"
        dials = self.servers.dials(self.world.clients[node], NODES if only is None else [only])
        source = self.world.random(f"zelos client {number}")
        return Client(name, self.world.history, source, dials, timeout_ms, lambda: next(self.numbers))

    async def demand_no_lag(self) -> None:
        """In peace: see there."""
        await demand_no_lag(self.world, self.cluster, self.servers)

    def judge(self, *, calm: bool = False) -> None:
        """Run the checks of a database over the history. `calm`: nothing has kept servers from telling what they heard."""
        drift = self.world.clock_errors.drift
        self.world.check(*ZELOS_CHECKS, *WATCH_CHECKS, *REPLICA_CHECKS)
        self.world.check(*session_checks(drift, calm=calm), *inside_checks(drift))
        self.world.counts[COMPARED] += replay(self.world.history).compared
