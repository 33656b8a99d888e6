"""Replicas that learn what they have missed, without leading: RecoverTest of Mesos, the part about catch-up."""

from __future__ import annotations

from functools import partial

import pytest

from tests.loglets.paxos.core.leader_bench import Leader
from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.drivers.catch_up import catch_up, catch_up_voting
from virtuallog_loglets.paxos.messages import GetStanding, PaxosRecover, Promise, ReadRecords, Status

TEN = [str(number).encode() for number in range(1, 11)]


@simulated
async def test_catchup_retry() -> None:
    """A catch-up that loses a promise tries again. Here nothing can be copied: who has learned the ten entries answers no reader, so
    each of them needs promises of a quorum, and the replica that catches up gives none."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _ten(world)
        await world.start(3, status=Status.EMPTY)
        world.catch(GetStanding, to=1)
        world.catch(ReadRecords, to=1)
        lost = world.catch(Promise, to=1, times=1)

        assert await _catch_up(world, 3, 1, 11) == 11

        assert len(lost.kept) == 1
        assert await world.payloads(3, 1, 10) == TEN
        assert world.standing(3).status is Status.EMPTY  # it has learned, and votes no more than before


@simulated
async def test_catchup_truncated() -> None:
    """The missed positions were truncated meanwhile: the replica truncates as well, durably."""
    async with playing() as world:
        leader = await _ten(world)
        assert await leader.truncate(5) == 11
        await world.until(lambda: world.standing(2).begin == 5)
        await world.start(3, status=Status.EMPTY)

        await _catch_up(world, 3, 1, 11)

        assert (world.standing(3).begin, world.standing(3).end) == (5, 10)
        world.kill(3)
        await world.start(3, status=Status.EMPTY)
        assert (world.standing(3).begin, world.standing(3).end) == (5, 10)


@simulated
async def test_catchup_voting() -> None:
    """MESOS-7973. A voting replica that has missed ten entries and a truncation, and is one of the
    quorum of all three, learns them without leading. It leaves out the last position, 11, which
    a writer may have in flight."""
    async with playing() as world:
        await _missed(world)

        assert await _catch_up_voting(world, quorum=3) == 10

        await _five_to_ten(world)


@simulated
async def test_catchup_voting_with_gap() -> None:
    """The same with a quorum of two. In Mesos the replica then may not hear of its own, lower beginning, and must not leave a gap
    below that of the others. Ours never asks itself by message: it knows."""
    async with playing() as world:
        await _missed(world)
        asked = world.catch(PaxosRecover, to=3)

        assert await _catch_up_voting(world, quorum=2) == 10

        await _five_to_ten(world)
        assert asked.kept == []


@simulated
async def test_catchup_voting_one_position() -> None:
    """A log of one position has only the last one: the catch-up fails and changes nothing."""
    async with playing() as world:
        await world.start(1, 2, 3)

        with pytest.raises(UnavailableError):
            await _catch_up_voting(world, quorum=2)

        assert (world.standing(3).begin, world.standing(3).end) == (0, 0)
        assert world.standing(3).learned == 0


async def _ten(world: World) -> Leader:
    await world.start(1, 2)
    leader = world.coordinator(1)
    assert await leader.elect() == 0
    for payload in TEN:
        assert await leader.append(payload) is not None
    return leader


async def _missed(world: World) -> None:
    """1 and 2 have ten entries and have dropped the first four; 3 may vote, and knows nothing of that."""
    leader = await _ten(world)
    assert await leader.truncate(5) == 11
    await world.until(lambda: world.standing(2).begin == 5)
    await world.start(3)


async def _five_to_ten(world: World) -> None:
    assert (world.standing(3).begin, world.standing(3).end) == (5, 10)
    assert await world.payloads(3, 5, 10) == TEN[4:]


async def _catch_up(world: World, node: int, first: int, stop: int) -> int:
    environment = world.machines[NodeId(node)].environment
    with world.within():
        return await catch_up(world.replica(node), world.ensemble, environment, first, stop)


async def _catch_up_voting(world: World, quorum: int) -> int:
    environment = world.machines[NodeId(3)].environment
    everybody = partial(Ensemble, members=world.members, quorum=quorum)
    with world.within():
        return await catch_up_voting(world.replica(3), everybody, environment)
