"""A shop, its server and clients, connected by streams in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing
from trio.abc import Stream

from tests.virtuallog.rpc.shop import IDENTITY, Shop, annex, interfaces
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.types import NodeId
from virtuallog.rpc.admission import ServerLimits
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import Identity, OpenNode
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices

SHOP = NodeId(1)


@attrs.frozen
class TrioClock:
    """`ports.Clock` on trio's clock, which `MockClock` can move."""

    def wall(self) -> float:
        return trio.current_time()

    def monotonic(self) -> float:
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def timeout(self, seconds: float) -> trio.CancelScope:
        return trio.move_on_after(seconds)


@attrs.define
class World:
    """A world whose `connect` gives memory streams to the server, unless a test replaces it."""

    nursery: trio.Nursery
    shop: Shop = attrs.field(factory=Shop)
    identity: Identity = IDENTITY
    expected: OpenNode = attrs.field(factory=OpenNode)
    address: str = "shop:1"
    limits: ServerLimits = attrs.field(factory=ServerLimits)
    server: RpcServer = attrs.field(init=False)
    make_pair: Callable[[], tuple[Stream, Stream]] = trio.testing.memory_stream_pair
    server_ends: list[Stream] = attrs.field(factory=list)
    """Server ends of all connections so far."""
    connect: Callable[[str], Awaitable[Stream]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = RpcServer(self.shop.handlers(), interfaces(), lambda: self.identity, TrioClock(), self.limits)
        self.connect = self.connect_to_server

    async def connect_to_server(self, address: str) -> Stream:
        assert address == self.address
        ours, theirs = self.make_pair()
        self.server_ends.append(theirs)
        self.nursery.start_soon(self.server.serve_stream, theirs)
        return ours

    async def _connect_somehow(self, address: str) -> Stream:
        return await self.connect(address)

    async def client(self, known: Sequence[Interface] | None = None) -> RpcServices:
        """Start a client of its own. It knows all interfaces, or the given ones."""
        services = RpcServices(
            (*interfaces(), *annex()) if known is None else known,
            lambda node: Peer((self.address,), self.expected),
            self._connect_somehow,
            TrioClock(),
            random.Random(7),
        )
        await self.nursery.start(services.run)
        return services


@asynccontextmanager
async def shop_world(limits: ServerLimits | None = None) -> AsyncIterator[World]:
    """Run a world; its tasks are cancelled at the end."""
    async with trio.open_nursery() as nursery:
        world = World(nursery, limits=limits or ServerLimits())
        nursery.start_soon(world.server.expire)
        yield world
        nursery.cancel_scope.cancel()
