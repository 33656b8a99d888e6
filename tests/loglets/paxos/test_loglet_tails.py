"""Tails of a paxos loglet."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.loglets.paxos.cluster import running_cluster, writer
from tests.loglets.paxos.loglet_stage import ONE, SILENT, THREE, TWO, Stage, elsewhere, standing, taken
from virtuallog.contract.errors import SealedError, UnavailableError
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.drivers.coordinator_driver import TICK_SECONDS
from virtuallog_loglets.paxos.messages import PaxosSettle, WaitLearned


async def test_a_tail_of_one_replica_is_no_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """The others are on the other side of a partition, where appends may go on."""
    stage.script = lambda node, request: standing(5) if node == ONE else SILENT

    with pytest.raises(UnavailableError):
        await stage.loglet().check_tail()


async def test_a_stale_replica_does_not_make_a_stale_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Node 2 lags; together with node 1 it is a quorum, and node 1 knows of more."""
    stage.script = lambda node, request: {ONE: standing(7), TWO: standing(2)}.get(node, SILENT)

    assert await stage.loglet().check_tail() == Open(7 * SLOT)


async def test_a_tail_check_waits_for_what_is_in_flight(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Position 7 is on one replica, and about to be decided. No node is asked to settle it."""
    stage.script = lambda node, request: {
        ONE: standing(7) if isinstance(request, WaitLearned) else standing(7, learned=7),
        TWO: SILENT if isinstance(request, WaitLearned) else standing(6),
    }.get(node, SILENT)

    assert await stage.loglet().check_tail() == Open(7 * SLOT)
    assert not [request for _, request in stage.asked if isinstance(request, PaxosSettle)]


async def test_what_a_dead_coordinator_left_open_is_settled(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """All through the seen position is settled, by the leader or a node that can become it."""
    settled: list[PaxosSettle] = []

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, PaxosSettle):
            settled.append(request)
            return SILENT if node == ONE else taken(7 * SLOT) if request.insist else elsewhere(ONE)
        if isinstance(request, WaitLearned) or node == ONE:
            return SILENT
        return standing(7) if settled and settled[-1].insist else standing(7, learned=6)

    stage.script = script
    assert await stage.loglet().check_tail() == Open(7 * SLOT)
    assert {request.past for request in settled} == {7}


async def test_zombies_do_not_move_a_sealed_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Two replicas hold positions behind the SEAL that the third has learned."""
    stage.script = lambda node, request: standing(7, learned=5) if node != THREE else standing(9, seal=5)

    assert await stage.loglet().check_tail() == Sealed(4 * SLOT)


async def test_a_log_that_was_dropped_says_so(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Like one that is sealed: the chain will tell what follows."""
    stage.script = lambda node, request: SealedError("dropped")
    loglet = stage.loglet()

    for operation in (loglet.check_tail(), loglet.read(LogletOffset(0), LogletOffset(9), 99), loglet.seal()):
        with pytest.raises(SealedError):
            await operation
    with pytest.raises(SealedError):
        await loglet.prefix_trim(LogletOffset(1))
    with pytest.raises(SealedError):
        await loglet.wait_tail(LogletOffset(1))


async def test_wait_tail_takes_the_word_of_the_first_that_has_news(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Parked at two, as one may be cut off. What one has learned is decided."""
    stage.script = lambda node, request: SILENT if node == ONE else standing(7)

    assert await stage.loglet().wait_tail(LogletOffset(5 * SLOT + 3)) == Open(7 * SLOT)
    assert sorted((node, request.past) for node, request in stage.asked) == [(ONE, 6), (TWO, 6)]


async def test_wait_tail_without_news_ends_with_a_check(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """After some seconds, so that a chain that has changed elsewhere is noticed."""
    stage.script = lambda node, request: SILENT if isinstance(request, WaitLearned) else standing(3)

    assert await stage.loglet().wait_tail(LogletOffset(3 * SLOT)) == Open(3 * SLOT)
    assert stage.clock.monotonic() < 3.0


@pytest.mark.parametrize("leader", [1, 3])
async def test_a_reader_that_waits_hears_of_an_append(leader: int, autojump_clock: trio.testing.MockClock) -> None:
    """Within a round trip, also if the leader is not among the replicas that it asks, and no write follows."""
    async with running_cluster() as cluster:
        cluster.create(coordinator=leader)
        one, reader = writer(cluster.client()), cluster.client()
        await one.append(b"first")
        heard: list[float] = []

        async def wait(past: int) -> None:
            assert await reader.wait_tail(LogletOffset(past * SLOT)) == Open((past + 1) * SLOT)
            heard.append(cluster.clock.monotonic())

        for number in range(1, 6):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait, number)
                await cluster.clock.sleep(0.5)
                await one.append(b"more")
                done = cluster.clock.monotonic()
            assert heard[-1] - done < TICK_SECONDS
