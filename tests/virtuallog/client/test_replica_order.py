"""Read order of replicas: in a circle from the near server, failed ones last, and another chance for the near one."""

from __future__ import annotations

import random
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import NoServices
from virtuallog.client.replica_order import NEAR_AGAIN_SECONDS, ReplicaOrder
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process

SERVERS = [NodeId(node) for node in (4, 2, 7)]


def nearest(near: int | None) -> ReplicaOrder:
    environment = Environment(
        services=NoServices(),
        clock=SimulatedClock(Process(NodeId(1))),
        random=random.Random(1),
        nursery=cast(trio.Nursery, None),
        near=None if near is None else NodeId(near),
    )
    return ReplicaOrder.of(SERVERS, environment)


@pytest.mark.parametrize(
    ("near", "order"),
    [(None, [4, 2, 7]), (2, [2, 4, 7]), (4, [4, 7, 2]), (7, [7, 2, 4]), (3, [4, 7, 2]), (5, [7, 2, 4]), (9, [2, 4, 7])],
)
def test_servers_are_asked_in_a_circle_from_the_near_one(near: int | None, order: list[int]) -> None:
    """The circle begins at the near node, even if it stores nothing: clients near different nodes stay spread. Without a near node the order is that
    of the config."""
    assert nearest(near).order() == order


async def test_one_that_failed_is_asked_last_and_the_near_one_gets_another_chance(autojump_clock: MockClock) -> None:
    """Other servers keep the order of their failures."""
    found = nearest(4)
    found.failed(NodeId(4))
    assert found.order() == [7, 2, 4]
    await trio.sleep(NEAR_AGAIN_SECONDS / 2)
    found.failed(NodeId(7))
    assert found.order() == [2, 4, 7]
    await trio.sleep(NEAR_AGAIN_SECONDS / 2)
    assert found.order() == [4, 2, 7]
    found.failed(NodeId(4))
    found.failed(NodeId(2))
    await trio.sleep(NEAR_AGAIN_SECONDS - 1)
    assert found.order() == [7, 4, 2]


async def test_who_is_near_nobody_has_no_favourite(autojump_clock: MockClock) -> None:
    """A failed server is asked first again once all others have failed since."""
    found = nearest(None)
    found.failed(NodeId(4))
    await trio.sleep(10 * NEAR_AGAIN_SECONDS)
    assert found.order() == [2, 7, 4]
