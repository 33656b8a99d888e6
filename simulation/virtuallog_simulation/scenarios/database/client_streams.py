"""Byte streams between clients of the database and its servers, beside the transport among the
nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from virtuallog.contract.ports import Handlers, Services
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.security.permissions import AppendPermission, allow
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_network import SimulatedConnection, SimulatedTcpNetwork
from virtuallog_simulation.world.transport import Transport

FIRST_PORT: Final = 2181


def address_of(node: NodeId) -> str:
    """Address at which the server on this machine listens to clients."""
    return f"127.0.0.1:{FIRST_PORT + node}"


def node_at(address: str) -> NodeId:
    """The machine that has this address."""
    return NodeId(int(address.rpartition(":")[2]) - FIRST_PORT)


@attrs.frozen
class ClientStreams:
    """A `Transport`, and streams of clients that break when it does."""

    _transport: Transport
    streams: SimulatedTcpNetwork

    def attach(
        self, process: Process, clock: SimulatedClock, source: random.Random
    ) -> AbstractAsyncContextManager[Services]:
        return self._transport.attach(process, clock, source)

    def listen(
        self,
        process: Process,
        handlers: Handlers,
        identity: Callable[[], Identity] | None = None,
        guard: AppendPermission = allow,
    ) -> None:
        self._transport.listen(process, handlers, identity, guard)

    def learn(self, node: NodeId, register: Register) -> None:
        self._transport.learn(node, register)

    def expect(self, node: NodeId, cluster: bytes) -> None:
        self._transport.expect(node, cluster)

    async def who_is_at(self, node: NodeId, addresses: tuple[str, ...]) -> Identity:
        return await self._transport.who_is_at(node, addresses)

    def watch_connections(self, process: Process, on_broken: Callable[[NodeId], None]) -> None:
        self._transport.watch_connections(process, on_broken)

    def end(self, process: Process, *, power: bool) -> None:
        self._transport.end(process, power=power)
        self.streams.end(process, power=power)

    def start(self, node: NodeId) -> None:
        self._transport.start(node)
        self.streams.start(node)

    def carries(self, provider: LogletProvider) -> bool:
        return self._transport.carries(provider)

    @property
    def connections(self) -> Sequence[SimulatedConnection]:
        return [*self._transport.connections, *self.streams.connections]
