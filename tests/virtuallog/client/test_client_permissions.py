"""A client that may not change the chain: it waits for nodes, or asks one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import SETTINGS, World, active_loglet, no_nodes, world
from virtuallog.admin.control import FindTrimPoint, Trimmed
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import ForbiddenError, UnavailableError, VirtualLogError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment, Request, Services
from virtuallog.contract.register import NodeEntry
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process


@attrs.define
class Answering(Services):
    """Services that answer calls themselves."""

    answer: Callable[[NodeId, Request[Any]], Any]
    asked: list[NodeId] = attrs.field(factory=list)

    def post(self, node: NodeId, request: Any, done: Any, timeout_seconds: float) -> None:
        raise AssertionError("no posts expected")

    async def call(self, node: NodeId, request: Any, timeout_seconds: float) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(node)
        found = self.answer(node, request)
        if isinstance(found, VirtualLogError):
            raise found
        return found


def limited(w: World, services: Services | None = None) -> VirtualLog:
    """A client that knows that it may not change the chain."""
    environment = Environment(
        services=services or Answering(lambda *_: UnavailableError("no node")),
        clock=SimulatedClock(Process(NodeId(99))),
        random=random.Random(99),
        nursery=w.nursery,
    )
    settings = attrs.evolve(SETTINGS, chain=attrs.evolve(SETTINGS.chain, may_change=False))
    return VirtualLog(w.metastore, w.providers, environment, planner=no_nodes, settings=settings)


async def test_it_waits_for_a_node_to_finish_a_half_done_change(autojump_clock: MockClock) -> None:
    """A reconfigurer died after its seal. The watchdog of a node goes on; the append of the client lands behind it."""
    async with world() as w:
        log, node = limited(w), w.client()
        await log.append(b"before")
        await active_loglet(node, w).seal()
        w.nursery.start_soon(node.watchdog.run)

        assert await log.append(b"after") == 1
        assert (log.chain_writer.meter.roll_forwards.value, node.chain_writer.meter.roll_forwards.value) == (0, 1)


async def test_it_does_not_wait_for_ever(autojump_clock: MockClock) -> None:
    """If no node finishes the change, the client raises UnavailableError, and has changed nothing."""
    async with world() as w:
        log = limited(w)
        await log.append(b"before")
        await active_loglet(log, w).seal()

        with pytest.raises(UnavailableError, match="no node has found a successor"):
            await log.check_tail()
        assert w.register.version == 1


async def test_one_that_learns_by_a_refusal_waits_as_well(autojump_clock: MockClock) -> None:
    """A client that does not know its role is refused when it rolls forward, and then waits for a node."""

    async def refuse(_: object) -> Cluster:
        raise ForbiddenError("Seal", "virtuallog://test/client/app", "admin")

    async with world() as w:
        node = w.client()
        environment = node.view.environment
        log = VirtualLog(w.metastore, w.providers, environment, planner=refuse, settings=SETTINGS)
        await log.append(b"before")
        await active_loglet(node, w).seal()
        w.nursery.start_soon(log.append, b"after")
        await trio.sleep(3)
        assert not log.successors.may_change
        assert w.register.version == 1

        w.nursery.start_soon(node.watchdog.run)
        await trio.sleep(5)
        assert w.register.version == 2
        assert (await log.check_tail()).tail == 2


async def test_it_asks_nodes_where_the_log_begins(autojump_clock: MockClock) -> None:
    """A dead node is skipped; if no node answers, the trim point is unavailable."""
    async with world() as w:
        nodes = {NodeId(n): NodeEntry(store_id=bytes(16), addresses=(), roles=frozenset()) for n in (1, 2, 3)}
        w.metastore.values[-1] = attrs.evolve(w.register, nodes=nodes).encode()

        def answer(node: NodeId, request: Request[Any]) -> Any:
            assert isinstance(request, FindTrimPoint)
            return Trimmed(position=7) if node == 2 else UnavailableError("dead")

        assert await limited(w, services := Answering(answer)).find_trim_point() == LogPosition(7)
        assert services.asked == [1, 2]
        with pytest.raises(UnavailableError, match="no node has told where the log begins: dead"):
            await limited(w, Answering(lambda *_: UnavailableError("dead"))).find_trim_point()
