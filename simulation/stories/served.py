"""Any kind of loglet on simulated machines: they serve its provider, and clients open as many loglets as asked for.

Every process has a provider object of its own, as in a real cluster: what a provider keeps in memory for its clients
is not shared here either. Instead of a register there is a table of the loglets that were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from server.config import ROLES
from simulation.world.cluster import ProviderMaker
from simulation.world.machine import Machine
from simulation.world.role import role
from simulation.world.world import World
from virtuallog.api import Cluster, Loglet, LogletProvider, Member
from virtuallog.chain import SegmentId
from virtuallog.errors import SealedError
from virtuallog.ports import Environment, Handlers, NodeEnvironment
from virtuallog.types import NodeId

PLANNER: Final = NodeId(1)


@attrs.define(eq=False)
class ServedLoglets:
    """See above. `start` begins the first life of every machine."""

    world: World
    make: ProviderMaker
    machines: dict[NodeId, Machine] = attrs.field(factory=dict, init=False)
    providers: dict[NodeId, LogletProvider] = attrs.field(factory=dict, init=False)
    """Of the present, or last, life of each machine: what checkers look into."""
    _configs: dict[SegmentId, bytes] = attrs.field(factory=dict, init=False)

    def start(self, nodes: int) -> None:
        for number in range(1, nodes + 1):
            node = NodeId(number)
            self.machines[node] = Machine(
                self.world, node, role(self.world, self._serve, self._segment_config, self._version)
            )
            self.machines[node].start()

    def create(
        self, segment: SegmentId, config: bytes | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Put a loglet into the table; planned, unless its config is given, for the machines that run just now.

        Raises:
            InvalidSettingError: the provider cannot plan it.
        """
        self._configs[segment] = config if config is not None else self.make().plan(self.cluster, settings or {}, None)

    def open(self, segment: SegmentId, environment: Environment) -> Loglet:
        """A client, in a process of its own."""
        return self.make().open(segment, self._configs[segment], environment)

    def config(self, segment: SegmentId) -> bytes:
        """As it stands in the table."""
        return self._configs[segment]

    @property
    def cluster(self) -> Cluster:
        """The machines as a planner sees them."""
        members = [
            Member(node=node, boot=machine.process.boot if machine.process else 0, roles=frozenset(ROLES),
                   alive=machine.running)
            for node, machine in self.machines.items()
        ]  # fmt: skip
        return Cluster(members=tuple(members), planner=PLANNER)

    async def _serve(self, environment: NodeEnvironment) -> Handlers:
        provider = self.providers[environment.node] = self.make()
        return await provider.serve(environment)

    async def _version(self) -> int:
        """What a register would have: whatever is in the table was asked for in a version up to this one."""
        return max((segment.version for segment in self._configs), default=0)

    async def _segment_config(self, segment: Any) -> tuple[str, bytes]:
        if segment not in self._configs:
            raise SealedError(f"segment {segment} is not in the chain", refused=True)
        return self.make().kind, self._configs[segment]
