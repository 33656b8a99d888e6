"""The memory provider: state shared by its clients, and forgetting. The loglet itself is in
tests/simulation/conformance."""

from __future__ import annotations

import random

import pytest
import trio

from tests.simulation.conformance.fixtures import NoServices
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, SealedError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, NodeId, Open
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.memory import WAIT_SECONDS, MemoryLoglet, MemoryProvider

HELLO = Batch.build(SessionId(bytes(16)), 0, [b"hello"])


@pytest.fixture
def environment(nursery: trio.Nursery) -> Environment:
    clock = SimulatedClock(Process(NodeId(1)))
    return Environment(services=NoServices(), clock=clock, random=random.Random(1), nursery=nursery)


def opened(provider: MemoryProvider, version: int, environment: Environment) -> MemoryLoglet:
    return provider.open(SegmentId(version, 1), b"", environment)


async def test_clients_of_one_segment_share_a_log(environment: Environment) -> None:
    """Two clients of a segment see the same entries; another segment, and another provider, has a
    log of its own."""
    provider = MemoryProvider()
    await opened(provider, 1, environment).append(HELLO, opens=True)

    assert await opened(provider, 1, environment).check_tail() == Open(1)
    assert await opened(provider, 2, environment).check_tail() == Open(0)
    assert await opened(MemoryProvider(), 1, environment).check_tail() == Open(0)


async def test_a_forgotten_segment_stays_forgotten(environment: Environment) -> None:
    """Clients of a forgotten segment, old and new ones, are sent to the chain; it is not created
    again."""
    provider = MemoryProvider()
    old, live = opened(provider, 1, environment), opened(provider, 2, environment)
    await old.append(HELLO, opens=True)
    await live.append(HELLO, opens=True)

    await provider.forget(2)
    await provider.forget(1)

    for client in (old, opened(provider, 1, environment)):
        with pytest.raises(SealedError, match="no longer"):
            await client.append(HELLO, opens=True)
        with pytest.raises(SealedError, match="no longer"):
            await client.read(LogletOffset(0), LogletOffset(1), 1000)
    assert await live.check_tail() == Open(1)


async def test_a_wait_ends_after_its_time(environment: Environment, autojump_clock: trio.testing.MockClock) -> None:
    """A wait without a change returns the tail when its time is over, and not before."""
    loglet = opened(MemoryProvider(), 1, environment)
    before = environment.clock.monotonic()

    assert await loglet.wait_tail(LogletOffset(0)) == Open(0)
    assert environment.clock.monotonic() - before == WAIT_SECONDS


def test_a_setting_is_refused_by_name() -> None:
    """A setting is refused by name: the loglet has no settings, and a typing error must not pass in silence."""
    cluster = Cluster(members=(), planner=NodeId(1))

    assert MemoryProvider().plan(cluster, {}, None) == b""
    with pytest.raises(InvalidSettingError, match="servers"):
        MemoryProvider().plan(cluster, {"servers": "3"}, None)
