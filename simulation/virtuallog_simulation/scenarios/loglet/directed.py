"""Parts of directed stories about one bare NativeLoglet: servers, clients that reach some of them,
a last look.

Such a story stages which processes reach each other, so that a seed gets into one particular
danger; only times and choices are drawn. It costs some milliseconds, and finds what thousands of
random runs may miss.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import RetryableError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import LogletAppend
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeStore
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.scenarios.loglet.race import SEGMENT
from virtuallog_simulation.scenarios.loglet.race_clients import read_range
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.cluster import ProviderMaker
from virtuallog_simulation.world.world import World

Act: TypeAlias = Callable[[Loglet], Awaitable[object]]


@attrs.define(eq=False)
class DirectedLoglet:
    """One loglet on the machines 1, 2, ..., and clients with numbers from 1001 on."""

    world: World
    config: NativeConfig
    served: ServedLoglets
    _clients: int = attrs.field(default=1000, init=False)

    @classmethod
    def begin(cls, world: World, *, servers: int, sequencer: int, make: ProviderMaker = provider) -> DirectedLoglet:
        """The sequencer may be on a machine of its own: then it must be the one after the servers."""
        nodes = tuple(NodeId(number) for number in range(1, servers + 1))
        config = NativeConfig(servers=nodes, sequencer=NodeId(sequencer), boot=1)
        served = ServedLoglets(world, make)
        served.create(SEGMENT, config.encode())
        served.start(max(servers, sequencer))
        return cls(world, config, served)

    def number(self) -> NodeId:
        """Number of a new client."""
        self._clients += 1
        return NodeId(self._clients)

    async def act(self, name: str, reaches: Iterable[NodeId], act: Act, node: NodeId | None = None) -> bool:
        """A client that can talk to these machines only does this; whether it could."""
        node = node or self.number()
        self.cut(node, [server for server in self.served.machines if server not in set(reaches)])
        async with self.world.client(node) as environment:
            loglet = RecordedLoglet(
                self.served.open(SEGMENT, environment), self.world.history, SEGMENT, f"{name} {node}"
            )
            with suppress(VirtualLogError):
                await act(loglet)
                return True
        return False

    def cut(self, node: NodeId, others: Iterable[NodeId]) -> None:
        """No message passes between these, until `heal`."""
        for other in others:
            if other != node:
                self.world.network.link(node, other).blocked = self.world.network.link(other, node).blocked = True

    def heal(self, node: NodeId) -> None:
        self.world.network.heal_node(node)

    async def read_everywhere(self) -> None:
        """All servers must agree: for each one, a client that asks a majority for the stop reads from that one alone."""
        for server in self.config.servers:
            reader = self.number()
            read = partial(self._read_at, server, reader)
            await self.act(f"reader at {server}", self.config.servers, read, reader)

    async def _read_at(self, server: NodeId, reader: NodeId, loglet: Loglet) -> None:
        await loglet.seal()
        stop = (await loglet.check_tail()).tail
        self.cut(reader, [other for other in self.config.servers if other != server])
        await read_range(loglet, 0, stop)

    @property
    def log_servers(self) -> Mapping[NodeId, LogServer]:
        """The LogServers of the present, or last, life of each machine."""
        services = {
            node: made.log_server for node, made in self.served.providers.items() if isinstance(made, NativeProvider)
        }
        return {node: service.core for node, service in sorted(services.items()) if service is not None}


async def seal(loglet: Loglet) -> None:
    """Act as a reconfigurer: seal, then read the stop."""
    await loglet.seal()
    await loglet.check_tail()


def batch(session: int, sequence: int = 0, entries: int = 1) -> Batch:
    return Batch.build(SessionId(bytes([session]) * 16), sequence, [b"%d.%d" % (session, sequence)] * entries)


def wave(first: int, batches: Sequence[Batch], known_tail: int = 0) -> Wave:
    """One that the sequencer of the loglet might have sent."""
    return waves.build(segment=SEGMENT, first=first, known_tail=known_tail, time_ms=0, batches=batches)


def half_offered(world: World, offered: Sequence[Batch]) -> None:
    """Batch whose outcome its caller never learned."""
    for one in offered:
        with suppress(UnavailableError), world.history.record("another client", LogletAppend(SEGMENT, one)):
            raise UnavailableError("the sequencer died")


async def store(world: World, server: NodeId, wave: Wave) -> None:
    """Send a store as the sequencer does before it dies. Retries until the server, which may only
    just have been started, has it."""
    async with world.client(NodeId(1000)) as environment:
        while True:
            try:
                await environment.services.call(server, NativeStore(segment=SEGMENT, wave=wave.blob, known_tail=0), 1.0)
            except RetryableError:
                continue
            return
