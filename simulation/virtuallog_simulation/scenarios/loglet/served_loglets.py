"""Any kind of loglet on simulated machines: they serve its provider, and clients open as many loglets as asked for.

Every process has provider objects of its own, as in a real cluster: what a provider keeps in memory for its clients
is not shared here either. Instead of a register there is a table of the loglets that were made. Loglets of a composite kind
stand in it alone; machines find the parts by what the kind says that they keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.ports import Environment, Handler, Handlers, NodeEnvironment, Request
from virtuallog.contract.provider import LogletProvider, SupportsRetention, compose
from virtuallog.contract.types import NodeId
from virtuallog_server.config.node_config import ROLES
from virtuallog_simulation.world.cluster import ProviderMaker
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.observed_provider import all_observed
from virtuallog_simulation.world.role import role
from virtuallog_simulation.world.world import World

PLANNER: Final = NodeId(1)


@attrs.define(eq=False)
class ServedLoglets:
    """Loglets served by simulated machines. `start` begins the first life of every machine."""

    world: World
    make: ProviderMaker
    below: Sequence[ProviderMaker] = ()
    """Kinds that loglets of a composite kind may consist of."""
    machines: dict[NodeId, Machine] = attrs.field(factory=dict, init=False)
    providers: dict[NodeId, LogletProvider] = attrs.field(factory=dict, init=False)
    """Provider of the present, or last, life of each machine, for checkers to inspect."""
    served: dict[NodeId, Mapping[str, LogletProvider]] = attrs.field(factory=dict, init=False)
    """All kinds of that life."""
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
        self._configs[segment] = config if config is not None else self.plan(settings or {})

    def plan(self, settings: Mapping[str, str]) -> bytes:
        """The config of a loglet for the machines that run just now.

        Raises:
            InvalidSettingError: the provider cannot plan it.
        """
        made = self._make_all()
        compose(made)
        return made[self.make().kind].plan(self.cluster, settings, None)

    def open(self, segment: SegmentId, environment: Environment, who: str = "client") -> Loglet:
        """A client, in a process of its own. What it asks of the parts of a loglet goes into the history as `who`'s."""
        made = self._make_all()
        all_observed(made, self.world.history, who)
        return made[self.make().kind].open(segment, self._configs[segment], environment)

    def config(self, segment: SegmentId) -> bytes:
        """Config of a loglet in the table."""
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

    def _make_all(self) -> Mapping[str, LogletProvider]:
        return {provider.kind: provider for provider in (make() for make in (self.make, *self.below))}

    async def _serve(self, environment: NodeEnvironment) -> Handlers:
        made = self.served[environment.node] = self._make_all()
        compose(made)
        self.providers[environment.node] = next(iter(made.values()))
        handlers: dict[type[Request[Any]], Handler] = {}
        for provider in made.values():
            handlers.update(await provider.serve(environment))
        return handlers

    async def _version(self) -> int:
        """Version that a register would have: every loglet in the table was asked for in a version
        up to this one."""
        return max((segment.version for segment in self._configs), default=0)

    async def _segment_config(self, segment: Any) -> tuple[str, bytes]:
        provider = self.make()
        if segment in self._configs:
            return provider.kind, self._configs[segment]
        if isinstance(provider, SupportsRetention):
            for one, config in self._configs.items():
                kept = provider.loglets(one, config)
                if segment in kept:
                    return kept[segment]
        raise SealedError(f"segment {segment} is not in the chain", refused=True)
