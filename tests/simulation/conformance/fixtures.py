"""The loglets under test, each as a maker of fixtures: one line here and a loglet is held to the whole contract."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NoReturn

import trio

from tests.simulation.conformance.variants import VariantProvider, Zombies
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment, ReplyT, Request
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.types import NodeId
from virtuallog.testing.loglet_suite import LogletFixture, ProviderFixture
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.memory import MemoryProvider

SEED = 7

FixtureMaker = Callable[[], AbstractAsyncContextManager[LogletFixture]]


class NoServices:
    """The Services of a node that has no others. Implements `virtuallog.contract.ports.Services`."""

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        done(UnavailableError(f"there is no node {node}"))

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> NoReturn:
        raise UnavailableError(f"there is no node {node}")


@asynccontextmanager
async def alone(provider: LogletProvider) -> AsyncIterator[LogletFixture]:
    """A loglet that asks no other node for anything."""
    async with trio.open_nursery() as nursery:
        environment = Environment(
            services=NoServices(),
            clock=SimulatedClock(Process(NodeId(1))),
            random=random.Random(SEED),
            nursery=nursery,
        )
        yield ProviderFixture(provider, b"", environment)
        nursery.cancel_scope.cancel()


FIXTURES: dict[str, FixtureMaker] = {
    "memory": lambda: alone(MemoryProvider()),
    "memory-sparse": lambda: alone(MemoryProvider(align=16)),
    "memory-with-zombies": lambda: alone(VariantProvider(loglet_class=Zombies)),
}
