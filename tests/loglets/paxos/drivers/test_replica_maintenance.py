"""A replica is kept whole: it recovers before it votes, its holes are closed, and while nothing is missing nothing happens."""

from __future__ import annotations

from tests.loglets.paxos.world import SEGMENT, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers.replica_maintenance import LOOK_SECONDS_MAX
from virtuallog_loglets.paxos.messages import (
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecover,
    PaxosWrite,
    Promise,
    ReadRecords,
    Status,
    TrimSealed,
    Verdict,
)
from virtuallog_loglets.paxos.offsets import offset_of

EMPTY, STARTING, RECOVERING, VOTING = Status.EMPTY, Status.STARTING, Status.RECOVERING, Status.VOTING


def decision(position: int, value: bytes | None = None) -> PaxosRecord:
    blob = values.append(b"%d" % position, 0) if value is None else value
    return PaxosRecord(position=position, promised=1, performed=1, value=blob, learned=True)


async def learn(world: World, node: int, *records: PaxosRecord) -> None:
    await world.replica(node).perform(Learn(segment=SEGMENT, records=records))


async def know(world: World, node: int, last: int) -> None:
    """This replica has learned everything through `last`."""
    await learn(world, node, *(decision(position) for position in range(last + 1)))


async def promise(world: World, node: int, proposal: int) -> Verdict:
    request = Promise(segment=SEGMENT, proposal=proposal, coordinator=NodeId(node))
    return (await world.replica(node).perform(request)).verdict


async def accept(
    world: World, nodes: tuple[int, ...], position: int, proposal: int = 1, value: bytes | None = None
) -> None:
    for node in nodes:
        request = PaxosWrite(
            segment=SEGMENT,
            proposal=proposal,
            coordinator=NodeId(node),
            first=position,
            values=(values.append(b"%d" % position, 0) if value is None else value,),
        )
        assert (await world.replica(node).perform(request)).verdict is Verdict.ACCEPT


async def votes(world: World, *nodes: int) -> None:
    """Wait until these do."""
    await world.until(lambda: all(world.standing(node).status is VOTING for node in nodes))


# -- recovery ---------------------------------------------------------------------------------------------------------


@simulated
async def test_a_replica_without_a_memory_recovers() -> None:
    """It learns all that the others have, and adopts their promises, before it votes. It gives no
    other promise for those numbers."""
    async with playing() as world:
        await world.start(1, 2)
        for node in (1, 2):
            await know(world, node, 20)
        await promise(world, 2, 9)
        await world.start(3, status=EMPTY)
        assert await promise(world, 3, 10) is Verdict.IGNORED

        world.keep(3)
        await votes(world, 3)

        assert await world.payloads(3, 0, 20) == [b"%d" % position for position in range(21)]
        assert world.standing(3).promised == 9
        assert await promise(world, 3, 9) is Verdict.REJECT


@simulated
async def test_a_recovery_begins_where_the_others_begin() -> None:
    """No position tells what was trimmed of a closed log: the new store learns it from the begin of
    the others, before it votes."""
    async with playing() as world:
        await world.start(1, 2)
        for node in (1, 2):
            await know(world, node, 9)
            await learn(world, node, decision(10, values.seal(0)))
            await world.replica(node).perform(TrimSealed(segment=SEGMENT, offset=offset_of(7)))
        await world.start(3, status=EMPTY)

        world.keep(3)
        await votes(world, 3)

        recovered = world.standing(3)
        assert (recovered.begin, recovered.learned, recovered.seal) == (7, 11, 10)
        assert recovered.trim == offset_of(7)
        assert await world.payloads(3, 7, 9) == [b"7", b"8", b"9"]


@simulated
async def test_recovered_is_recovered() -> None:
    """After a restart it votes at once, with the promise that it took over."""
    async with playing() as world:
        await world.start(1, 2)
        await promise(world, 1, 7)
        await world.start(3, status=EMPTY)
        world.keep(3)
        await votes(world, 3)

        world.kill(1, 2, 3)
        await world.start(3, status=EMPTY)

        assert (world.standing(3).status, world.standing(3).promised) == (VOTING, 7)


@simulated
async def test_a_crash_while_it_catches_up_begins_anew() -> None:
    """It is RECOVERING before it copies anything, and none of its votes counts until all is here."""
    async with playing() as world:
        await world.start(1, 2)
        for node in (1, 2):
            await know(world, node, 20)
        held = world.catch(ReadRecords)
        await world.start(3, status=EMPTY)
        world.keep(3)
        await world.until(lambda: len(held.kept) > 0)
        assert world.standing(3).status is RECOVERING

        world.kill(3)
        held.lift()
        await world.start(3, status=EMPTY)
        assert world.standing(3).status is RECOVERING
        world.keep(3)
        await votes(world, 3)

        assert world.standing(3).learned == 21


@simulated
async def test_the_others_note_the_new_store_and_tell_of_it() -> None:
    """Durably: also after they were killed."""
    async with playing() as world:
        await world.start(1, 2)
        await world.start(3, status=EMPTY)
        world.keep(3)
        await votes(world, 3)
        new = world.standing(3).incarnation

        world.kill(1, 2)
        await world.start(1, 2)

        for node in (1, 2):
            told = {each.node: each.incarnation for each in world.standing(node).incarnations}
            assert told == {NodeId(3): new}


@simulated
async def test_what_a_lost_store_was_told_is_known_to_the_new_one() -> None:
    """Node 2 was told that node 3 has a new store, and loses its own."""
    async with playing() as world:
        await world.start(1, 2)
        await world.start(3, status=EMPTY)
        world.keep(3)
        await votes(world, 3)
        world.kill(2)
        world.wipe(2)

        await world.start(2, status=EMPTY)
        world.keep(2)
        await votes(world, 2)

        told = {each.node: each.incarnation for each in world.standing(2).incarnations}
        assert told[NodeId(3)] == world.standing(3).incarnation


@simulated
async def test_positions_in_flight_are_left_to_who_leads() -> None:
    """A quorum has accepted the last position, and its coordinator announces the decision half a
    second later. The recovery waits for it and outbids no coordinator."""
    async with playing() as world:
        await world.start(1, 2)
        for node in (1, 2):
            await know(world, node, 5)
        await accept(world, (1, 2), 6)
        await world.start(3, status=EMPTY)
        world.keep(3)
        await world.clock.sleep(0.5)
        assert world.standing(3).status is RECOVERING

        await learn(world, 1, decision(6))
        await votes(world, 3)

        assert world.count(Promise) == 0
        assert world.standing(3).learned == 7


@simulated
async def test_what_nobody_decides_is_filled_in_the_end() -> None:
    """The proposer of position 6 is dead. A replica that waited for ever could never vote."""
    async with playing() as world:
        await world.start(1, 2)
        for node in (1, 2):
            await know(world, node, 5)
        await accept(world, (1,), 6)
        await world.start(3, status=EMPTY)

        world.keep(3)
        await votes(world, 3)

        assert await world.payloads(3, 6, 6) == [b"6"]


@simulated
async def test_too_few_voters() -> None:
    """One that votes is no quorum: a second one without a memory waits, and goes on waiting. Then the third one is back."""
    async with playing() as world:
        await world.start(1)
        await world.start(2, status=EMPTY)
        world.keep(2)
        await world.clock.sleep(60)
        assert world.standing(2).status is EMPTY

        await world.start(3)
        await votes(world, 2)


@simulated
async def test_a_new_log_founds_itself_only_if_it_is_asked_to() -> None:
    """Three without a memory might have lost a log together. With auto-initialisation they go on; all three are needed."""
    async with playing() as world:
        await world.start(1, 2, 3, status=EMPTY)
        world.keep(1, 2, 3)
        await world.clock.sleep(30)
        assert [world.standing(node).status for node in (1, 2, 3)] == [EMPTY] * 3

    async with playing() as world:
        await world.start(1, 2, status=EMPTY)
        world.keep(1, 2, auto_initialize=True)
        await world.clock.sleep(30)
        assert [world.standing(node).status for node in (1, 2)] == [EMPTY] * 2
        await world.start(3, status=EMPTY)
        world.keep(3, auto_initialize=True)
        await votes(world, 1, 2, 3)


@simulated
async def test_two_recover_at_once() -> None:
    """Five replicas, two of which lost their disks."""
    async with playing(replicas=5, quorum=3) as world:
        await world.start(1, 2, 3)
        for node in (1, 2, 3):
            await know(world, node, 10)
        await accept(world, (2,), 11)
        await world.start(4, 5, status=EMPTY)

        world.keep(4, 5)
        await votes(world, 4, 5)

        assert await world.payloads(4, 11, 11) == await world.payloads(5, 11, 11) == [b"11"]


# -- closed logs ------------------------------------------------------------------------------------------------------


@simulated
async def test_a_closed_log_is_copied_from_one_replica() -> None:
    """Node 1 alone is left of the others, no quorum, and has all of the log up to the SEAL. That is enough, without a vote."""
    async with playing() as world:
        await world.start(1)
        await learn(world, 1, *(decision(position) for position in range(5)), decision(5, values.seal(0)))
        await world.replica(1).perform(TrimSealed(segment=SEGMENT, offset=1))
        await world.start(3, status=EMPTY)

        world.keep(3)
        await world.until(lambda: world.standing(3).seal == 5)

        assert (world.standing(3).status, world.standing(3).trim) == (EMPTY, 1)
        assert world.count(Promise) == 0


@simulated
async def test_a_whole_copy_of_a_closed_log_is_left_alone() -> None:
    """Nothing can be missing any more, so no replica is asked, in any status."""
    async with playing() as world:
        await world.start(3, status=EMPTY)
        await learn(world, 3, *(decision(position) for position in range(5)), decision(5, values.seal(0)))
        await world.start(1, 2)

        world.keep(3)
        await world.clock.sleep(60)

        assert world.count(PaxosRecover) == world.count(GetStanding) == 0


# -- holes ------------------------------------------------------------------------------------------------------------


@simulated
async def test_a_hole_that_stays_is_closed() -> None:
    """Node 3 missed positions 6 to 9 and hears of 10. It copies them without a promise, and then
    only checks now and then whether it has missed the end."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2):
            await know(world, node, 10)
        await know(world, 3, 5)
        world.keep(3)
        await learn(world, 3, decision(10))

        await world.until(lambda: world.standing(3).learned == 11)

        assert world.count(Promise) == 0
        asked = len(world.requests)
        await world.clock.sleep(3600)
        looks = world.requests[asked:]
        assert {type(request) for _, request in looks} == {GetStanding}
        assert len(looks) <= 2 * (3600 / LOOK_SECONDS_MAX + 6)


@simulated
async def test_an_end_that_was_missed_is_fetched() -> None:
    """Node 3 was away when the last positions and the SEAL were decided. It sees no gap, and no
    client writes any more: it asks."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await know(world, 3, 5)
        await world.clock.sleep(600)
        for node in (1, 2):
            await know(world, node, 9)
            await learn(world, node, decision(10, values.seal(0)))

        world.keep(3)
        await world.until(lambda: world.standing(3).seal == 10)

        assert world.count(Promise) == 0


@simulated
async def test_a_seal_that_no_replica_has_learned_is_decided() -> None:
    """All replicas stopped behind the sync that accepted it, and before they had learned it. The log can be trimmed in the end."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2, 3):
            await know(world, node, 5)
        await accept(world, (1, 2, 3), 6, value=values.seal(0))
        world.kill(3)

        world.keep(1, 2)
        await world.until(lambda: all(world.standing(node).seal == 6 for node in (1, 2)))

        for node in (1, 2):
            trimmed = await world.replica(node).perform(TrimSealed(segment=SEGMENT, offset=offset_of(3)))
            assert trimmed.trim == offset_of(3)


@simulated
async def test_an_old_position_that_nobody_has_learned_is_closed() -> None:
    """Two replicas accepted position 6 and its coordinator died; a later one wrote 7. No other
    proposer would ever decide position 6."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2, 3):
            await know(world, node, 5)
            await learn(world, node, decision(7))
        await accept(world, (1, 2), 6)

        world.keep(1, 2, 3)
        await world.until(lambda: all(world.standing(node).learned == 8 for node in (1, 2, 3)))

        assert await world.payloads(3, 6, 6) == [b"6"]


@simulated
async def test_the_end_belongs_to_who_leads() -> None:
    """All replicas accepted position 6, and it is not known to be decided. For hours it stays so,
    and few messages are sent."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2, 3):
            await know(world, node, 5)
        await accept(world, (1, 2, 3), 6)

        world.keep(1, 2, 3)
        await world.clock.sleep(3600)

        assert world.count(Promise) == 0
        assert world.count(GetStanding) < 5_000


@simulated
async def test_a_late_word_is_waited_for() -> None:
    """Decisions come with the next write, or some milliseconds later: that is no hole."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2, 3):
            await know(world, node, 5)
        world.keep(3)
        for position in range(6, 40):
            await accept(world, (1, 2, 3), position)
            await world.clock.sleep(0.1)
            for node in (1, 2, 3):
                await learn(world, node, decision(position))

        assert world.count(GetStanding) == 0


@simulated
async def test_far_behind() -> None:
    """A replica that was away for long closes its hole in pieces, with the log going on."""
    async with playing() as world:
        await world.start(1, 2, 3)
        big = [decision(position, values.append(bytes(50_000), 0)) for position in range(100)]
        for node in (1, 2):
            await learn(world, node, *big)
        world.keep(3)

        await accept(world, (3,), 100)
        await world.until(lambda: world.standing(3).learned == 100)

        assert world.count(ReadRecords) >= 5
