"""Fills over the network: how attempts follow each other."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.paxos.world import SEGMENT, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers import fill_driver
from virtuallog_loglets.paxos.drivers.fill_driver import ATTEMPT_SECONDS, fill
from virtuallog_loglets.paxos.messages import Learn, PaxosRecord, PaxosWrite, Promise, Status


async def filled(world: World, proposal: int, first: int, stop: int, node: int = 1, seconds: float = 10.0) -> int:
    environment = world.machines[NodeId(node)].environment
    return await fill(SEGMENT, world.ensemble, environment, NodeId(node), proposal, first, stop, seconds)


def accepted(position: int, proposal: int, payload: bytes) -> PaxosWrite:
    """Accept values at a replica, as left behind by a coordinator."""
    value = values.append(payload, 0)
    return PaxosWrite(segment=SEGMENT, proposal=proposal, coordinator=NodeId(3), first=position, values=(value,))


@simulated
async def test_a_range_is_decided_and_the_local_replica_knows() -> None:
    """Accepted values are decided, with NOPs between; on return they can be read here."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await world.ask(3, accepted(2, 1, b"x"))
        world.kill(2)

        assert await filled(world, 2, 0, 5) == 2

        assert world.standing(1).learned == 5
        assert await world.payloads(1, 0, 4) == [b"x"]


@simulated
async def test_a_long_range_is_done_in_pieces() -> None:
    """An answer must fit in a frame, so a promise covers a few positions."""
    async with playing() as world:
        await world.start(1, 2, 3)

        await filled(world, 1, 0, 3 * fill_driver.POSITIONS_MAX)

        assert world.count(Promise, to=2) == 3
        assert world.standing(1).learned == 3 * fill_driver.POSITIONS_MAX


@simulated
async def test_a_refusal_is_followed_by_a_higher_number() -> None:
    """After a pause of T to 2T; the number it ended with is returned, for the next fill."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await world.ask(2, Promise(segment=SEGMENT, proposal=7, coordinator=NodeId(2)))
        await world.ask(3, Promise(segment=SEGMENT, proposal=7, coordinator=NodeId(2)))
        began = world.clock.monotonic()

        assert await filled(world, 1, 0, 1) == 8

        assert fill_driver.PAUSE_SECONDS <= world.clock.monotonic() - began < 3 * fill_driver.PAUSE_SECONDS


@simulated
async def test_who_does_not_vote_is_asked_again_with_the_same_number() -> None:
    """IGNORED is no refusal (4): no replica has a higher number, so there is nothing to outbid."""
    async with playing() as world:
        await world.start(1)
        await world.start(2, 3, status=Status.RECOVERING)
        async with trio.open_nursery() as nursery:

            async def vote() -> None:
                await world.clock.sleep(0.5)
                for node in (2, 3):
                    await world.replica(node).adopt(Status.VOTING)

            nursery.start_soon(vote)
            with world.within(2.0):
                await filled(world, 4, 0, 1)

        asked = [request.proposal for _, request in world.requests if isinstance(request, Promise)]
        assert asked[0] == 4
        # Replica 1 has promised 4 the first time, and refuses it the second time; the other two never promised.
        assert max(asked) <= 6


@simulated
async def test_no_answer_is_no_answer() -> None:
    """An attempt without an outcome is given up after a while. Who has promised its number does not promise it again, so the
    next one is higher, and about fewer positions: perhaps the answers did not fit in a frame."""
    async with playing() as world:
        await world.start(1, 2, 3)
        lost = world.catch(Promise, answers=True)
        async with trio.open_nursery() as nursery:

            async def heal() -> None:
                await world.clock.sleep(ATTEMPT_SECONDS / 2)
                lost.lift()

            nursery.start_soon(heal)
            assert await filled(world, 1, 0, fill_driver.POSITIONS_MAX) > 1

        ranges = [r.stop - r.first for node, r in world.requests if isinstance(r, Promise) and node == 1]
        assert ranges[0] == fill_driver.POSITIONS_MAX
        assert set(ranges[1:]) == {fill_driver.POSITIONS_MAX // 2}


@simulated
async def test_without_a_quorum_it_ends() -> None:
    """It ends in time, and nothing is decided."""
    async with playing() as world:
        await world.start(1)

        with world.within(6.0), pytest.raises(UnavailableError):
            await filled(world, 1, 0, 1, seconds=3.0)

        assert world.standing(1).learned == 0


@simulated
async def test_a_lesson_that_is_lost_is_not_waited_for_in_vain() -> None:
    """The position is decided, whether or not the local replica has heard of it: who needs it there looks again."""
    async with playing() as world:
        await world.start(1, 2, 3)
        world.catch(Learn, to=1)

        with world.within(ATTEMPT_SECONDS + 1):
            await filled(world, 1, 0, 1)

        assert world.standing(1).learned == 0
        await world.until(lambda: world.standing(2).learned == 1)


@simulated
async def test_a_damaged_answer_is_no_answer() -> None:
    """A value that does not match its checksum is written nowhere, though it has the highest number: the others are asked."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await world.ask(3, accepted(0, 1, b"x"))
        damaged = PaxosRecord(position=0, promised=1, performed=1, value=b"VP\x01\x02 is not a value, or no longer")
        world.replica(2).core.slots.put(damaged)

        with world.within(ATTEMPT_SECONDS):
            await filled(world, 10, 0, 1)

        assert await world.payloads(1, 0, 0) == [b"x"]
