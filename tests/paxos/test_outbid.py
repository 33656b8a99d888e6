"""A coordinator that has been outbid and does not know it yet, while its own replica has learned more than it has decided."""

from __future__ import annotations

import pytest
import trio

from loglets.paxos.messages import Taken, Truncate
from loglets.paxos.places import offset_of
from loglets.paxos.reception import Reception
from tests.metastore.world import simulated
from tests.paxos.leading import Leader
from tests.paxos.world import SEGMENT, World, playing
from virtuallog.errors import UnavailableError, VirtualLogError


@simulated
async def test_an_outbid_coordinator_asked_to_trim_leads_no_longer() -> None:
    """A client knows the tail from the new leader and asks the old one to trim up to there. That one finds out that others have
    decided more than it has: it resigns, and the client asks elsewhere. Its node goes on as before."""
    async with playing() as world:
        former, leader = await _outbid(world)

        outcome = await _trim(world, former, offset_of(4))

        assert isinstance(outcome, UnavailableError)
        assert not former.running.is_leading
        assert world.standing(1).begin == 0
        assert await _trim(world, leader, offset_of(4)) == Taken(place=offset_of(4), coordinator=leader.node)


@simulated
async def test_an_outbid_writer_truncates_nothing() -> None:
    """The same for a log that is used by itself."""
    async with playing() as world:
        former, _ = await _outbid(world)

        with world.within(), pytest.raises(UnavailableError):
            await former.running.truncate(4)

        assert not former.running.is_leading


async def _outbid(world: World) -> tuple[Leader, Leader]:
    """2 leads, and 1, which led before, has learned three entries from it."""
    await world.start(1, 2, 3)
    former, leader = world.coordinator(1), world.coordinator(2)
    assert await former.elect() == 0
    assert await leader.elect() == 0
    for payload in (b"a", b"b", b"c"):
        assert await leader.append(payload) is not None
    await world.until(lambda: world.standing(1).learned == 4)
    assert former.running.is_leading
    return former, leader


async def _trim(world: World, leader: Leader, offset: int) -> Taken | VirtualLogError:
    outcomes: list[Taken | VirtualLogError] = []
    answered = trio.Event()

    def done(outcome: Taken | VirtualLogError) -> None:
        outcomes.append(outcome)
        answered.set()

    machine = world.machines[leader.node]
    reception = Reception(machine.replica, machine.environment)
    reception.running = leader.running
    reception.request(Truncate(segment=SEGMENT, offset=offset), done)
    with world.within():
        await answered.wait()
    return outcomes[0]
