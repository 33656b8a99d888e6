"""Two processes and simulated TCP between them, for tests of streams and of the RPC over them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs
import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality, SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_network import (
    SimulatedConnection,
    SimulatedListener,
    SimulatedStream,
    SimulatedTcpNetwork,
    StreamQuality,
)
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.transport import address_of, node_at

A, B = NodeId(1), NodeId(2)


@attrs.define(eq=False)
class World:
    """Process A, which connects, and process B, which listens."""

    network: SimulatedNetwork
    streams: SimulatedTcpNetwork
    nursery: trio.Nursery
    a: Process = attrs.field(factory=lambda: Process(A))
    b: Process = attrs.field(factory=lambda: Process(B))

    def listener(self) -> SimulatedListener:
        return self.streams.listen(self.b, address_of(B))

    async def connected(self) -> tuple[SimulatedStream, SimulatedStream]:
        """Return A's end and B's end of a new connection."""
        listener = self.listener()
        ours = await self.streams.connect(self.a, address_of(B))
        return ours, await listener.accept()

    def block(self) -> None:
        """Block both directions."""
        self.network.link(A, B).blocked = self.network.link(B, A).blocked = True

    @property
    def connection(self) -> SimulatedConnection:
        """The only connection."""
        (only,) = self.streams.connections
        return only

    @property
    def counts(self) -> dict[str, int]:
        return self.network.counts


Story = Callable[[World], Awaitable[None]]


def simulated(
    quality: StreamQuality | None = None, links: LinkQuality | None = None
) -> Callable[[Story], Callable[[], None]]:
    """Run an async test in simulated time."""

    async def main(story: Story) -> None:
        network = SimulatedNetwork(Timeline(), random.Random(1), links or LinkQuality())
        streams = SimulatedTcpNetwork(network, random.Random(2), node_at, quality or StreamQuality())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.timeline.run)
            await story(World(network, streams, nursery))
            nursery.cancel_scope.cancel()

    def decorate(story: Story) -> Callable[[], None]:
        def test() -> None:
            scheduler.run(1, lambda: main(story))

        test.__name__, test.__doc__ = story.__name__, story.__doc__
        return test

    return decorate
