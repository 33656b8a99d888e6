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

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.tcp_network import StreamQuality
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_simulation.checks.database.replay import replay
from virtuallog_simulation.checks.database.replicas import REPLICA_CHECKS, StateWatch
from virtuallog_simulation.checks.database.results import DATABASE_CHECKS
from virtuallog_simulation.checks.database.sessions import session_checks
from virtuallog_simulation.checks.database.strong_reads import strong_read_checks
from virtuallog_simulation.checks.database.watches import WATCH_CHECKS
from virtuallog_simulation.scenarios.cluster import load as main
from virtuallog_simulation.scenarios.database.lag import demand_no_lag
from virtuallog_simulation.scenarios.database.servers import ZOOKEEPER, DatabaseServers, OptionalEngines
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database.connection import Dial
from virtuallog_simulation.workload.database.embedded_client import EmbeddedClientPace
from virtuallog_simulation.workload.database.session import DatabaseClient
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

NODES: Final = (NodeId(1), NodeId(2), NodeId(3))
FIRST_CLIENT: Final = 2000
COMPARED: Final = "zelos answers compared"


@attrs.define(eq=False)
class ThreeServers:
    """The cluster of one run. Made by `begin`, before anything runs."""

    world: World
    cluster: Cluster
    servers: DatabaseServers
    witness: Witness
    states: StateWatch
    numbers: Iterator[int] = attrs.field(factory=lambda: count(1))
    """Numbers of connections."""

    @classmethod
    def begin(
        cls,
        world: World,
        engines: OptionalEngines,
        tally: Callable[[str], None],
        *,
        manner: EmbeddedClientPace | None = None,
        settings: ZooKeeperSettings = ZOOKEEPER,
    ) -> ThreeServers:
        """Start the nodes. `tally` counts what programs beside the replicas do."""
        cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(main.native,)), main.SETTINGS)
        witness = Witness(world.history, world.violations)
        states = StateWatch(world.history, world.violations, world.counts)
        world.on_store_open, world.on_store_write = states.opened, states.wrote
        servers = DatabaseServers(
            world, witness, engines, StreamQuality(), tally, manner=manner or EmbeddedClientPace(), settings=settings
        )
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

    def client(self, number: int, node: NodeId, *, timeout_ms: int, only: NodeId | None = None) -> DatabaseClient:
        """A client in the client process `node`, of all servers or of one."""
        name = f"c{number}"
        dials = self.servers.dials(self.world.clients[node], NODES if only is None else [only])
        source = self.world.random(f"zelos client {number}")
        return DatabaseClient(name, self.world.history, source, dials, timeout_ms, lambda: next(self.numbers))

    def dial(self, node: NodeId, server: NodeId) -> Dial:
        """A way from the client process `node` to a server."""
        (dial,) = self.servers.dials(self.world.clients[node], [server])
        return dial

    async def demand_no_lag(self) -> None:
        """Demand that no server lags, in peace; see `lag.demand_no_lag`."""
        await demand_no_lag(self.world, self.cluster, self.servers)

    def judge(self, *, calm: bool = False) -> None:
        """Run the checks of a database over the history. `calm`: nothing has kept servers from telling what they heard."""
        drift = self.world.clock_errors.drift
        self.world.check(*DATABASE_CHECKS, *WATCH_CHECKS, *REPLICA_CHECKS)
        self.world.check(*session_checks(drift, calm=calm), *strong_read_checks(drift))
        self.world.counts[COMPARED] += replay(self.world.history).compared
