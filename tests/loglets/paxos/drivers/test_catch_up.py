"""A replica learns what it has missed: what is copied, what is filled, what is left alone, and what may go wrong on the way."""

from __future__ import annotations

import attrs
import trio

from tests.loglets.paxos.world import SEGMENT, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.ports import Done
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers.catch_up import PIECE_BYTES, catch_up
from virtuallog_loglets.paxos.messages import (
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecords,
    PaxosWrite,
    Promise,
    ReadRecords,
    Status,
    Verdict,
)


def record(position: int, payload: bytes) -> PaxosRecord:
    return PaxosRecord(position=position, promised=1, performed=1, value=values.append(payload, 0), learned=True)


async def know(world: World, node: int, first: int, last: int, size: int = 10) -> None:
    """This replica has learned position 0, and these."""
    nop = attrs.evolve(record(0, b""), value=values.nop())
    records = (nop, *(record(position, entry(position, size)) for position in range(first, last + 1)))
    await world.replica(node).perform(Learn(segment=SEGMENT, records=records))


def entry(position: int, size: int = 10) -> bytes:
    return b"%d" % position + bytes(size)


async def accept(world: World, nodes: tuple[int, ...], position: int, payload: bytes, proposal: int = 1) -> None:
    """Have these replicas accept a value, without a word on whether it is decided."""
    for node in nodes:
        request = PaxosWrite(
            segment=SEGMENT,
            proposal=proposal,
            coordinator=NodeId(node),
            first=position,
            values=(values.append(payload, 0),),
        )
        assert (await world.replica(node).perform(request)).verdict is Verdict.ACCEPT


async def run(
    world: World, node: int, first: int, stop: int, *, leave: int = 0, fills: bool = True, proposal: int = 0
) -> int:
    machine = world.machines[NodeId(node)]
    return await catch_up(
        machine.replica, world.ensemble, machine.environment, first, stop, leave=leave, fills=fills, proposal=proposal
    )


@simulated
async def test_what_others_have_learned_is_copied_in_pieces() -> None:
    """Any amount is copied in pieces; no promise is asked for, and the leader is not disturbed."""
    async with playing() as world:
        await world.start(1, 2, 3)
        size, count = 10_000, 3 * PIECE_BYTES // 10_000
        await know(world, 1, 1, count, size)

        assert await run(world, 3, 0, count + 1) == count + 1

        assert await world.payloads(3, 1, count) == [entry(position, size) for position in range(1, count + 1)]
        assert 3 <= world.count(ReadRecords) <= 8
        assert world.count(Promise) == 0


@simulated
async def test_with_nothing_missing_nobody_is_asked() -> None:
    """A coordinator that has everything asks no replica and leads at once."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await know(world, 3, 1, 5)

        assert await run(world, 3, 0, 6) == 6

        assert world.count(GetStanding) == 0


@simulated
async def test_another_source_goes_on_where_one_died() -> None:
    """Nodes 1 and 2 have everything. The one that is asked first dies before its second piece."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2):
            await know(world, node, 1, 300, 30_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, world, 3, 0, 301)
            await world.until(lambda: world.count(ReadRecords) == 1)
            source = next(node for node, request in world.requests if isinstance(request, ReadRecords))
            held = world.catch(ReadRecords, to=source)
            await world.until(lambda: len(held.kept) > 0)
            world.kill(source)

        assert world.replica(3).core.learned == 301


@simulated
async def test_what_is_accepted_and_nobody_has_learned_is_filled_with_it() -> None:
    """Position 1 was accepted by one replica, position 2 by none: the first gets its value, the second a NOP."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await know(world, 1, 1, 0)
        await accept(world, (1,), 1, b"one")

        assert await run(world, 3, 0, 3) == 3

        found = await world.read(3, 1, 2)
        assert [values.kind_of(each.value) for each in found] == [values.ValueKind.APPEND, values.ValueKind.NOP]
        assert values.payload_of(found[0].value) == b"one"


@simulated
async def test_the_last_position_is_left_to_who_leads() -> None:
    """Positions 6 and 7 are accepted, and no replica has learned them. The older one cannot be in
    flight any more. The last one is left alone, so that its coordinator can have it decided with
    its own number."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2):
            await know(world, node, 1, 5)
        for position in (6, 7):
            await accept(world, (1, 2), position, b"%d" % position)

        assert await run(world, 3, 0, 8, leave=1) == 7

        assert await world.payloads(3, 6, 7) == [b"6"]
        await accept(world, (1, 2, 3), 7, b"7")


@simulated
async def test_the_last_position_is_copied_if_somebody_has_learned_it() -> None:
    """The last position is copied from a replica that has learned it, also from one with a hole below."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await know(world, 1, 1, 5)
        await know(world, 2, 6, 6)

        assert await run(world, 3, 0, 7, leave=1) == 7


@simulated
async def test_truncated_meanwhile() -> None:
    """The source truncates while it is read. What is left is copied, what is gone is gone here as well, durably."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await know(world, 1, 1, 200, 30_000)
        held = world.catch(ReadRecords, to=1, times=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, world, 3, 0, 202)
            await world.until(lambda: len(held.kept) > 0)
            cut = attrs.evolve(record(201, b""), value=values.truncate(150, 0))
            await world.replica(1).perform(Learn(segment=SEGMENT, records=(cut,)))
            held.release()

        assert (world.standing(3).begin, world.standing(3).learned) == (150, 202)
        world.kill(3)
        await world.start(3)
        assert (world.standing(3).begin, world.standing(3).learned) == (150, 202)
        assert await world.payloads(3, 150, 200) == [entry(position, 30_000) for position in range(150, 201)]


@simulated
async def test_all_of_it_truncated() -> None:
    """Nothing of what was asked for is left anywhere: that is as good as learned."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await know(world, 1, 1, 50)
        cut = attrs.evolve(record(51, b""), value=values.truncate(40, 0))
        await world.replica(1).perform(Learn(segment=SEGMENT, records=(cut,)))

        assert await run(world, 3, 0, 20) == 20

        assert world.standing(3).begin == 40


@simulated
async def test_a_crash_anywhere_does_no_harm() -> None:
    """Stored positions are not copied again; in the end everything is here."""
    async with playing(seed=5) as world:
        await world.start(1, 2, 3)
        await know(world, 1, 1, 200, 30_000)
        for crash in range(1, 7):
            machine = world.machines[NodeId(3)]
            with machine.environment.clock.timeout(0.004 * crash):
                await run(world, 3, 0, 201)
            world.kill(3)
            await world.start(3)

        assert await run(world, 3, 0, 201) == 201

        assert await world.payloads(3, 1, 200) == [entry(position, 30_000) for position in range(1, 201)]


@simulated
async def test_a_damaged_copy_is_passed_over() -> None:
    """Node 1 gives bytes that do not match their checksum at position 3; node 2 has it whole."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node in (1, 2):
            await know(world, node, 1, 5)
        world.network.watch = None
        handlers = dict(world.network._listening[NodeId(1)][1])
        read = handlers[ReadRecords]

        def damage(request: ReadRecords, done: Done) -> None:
            def broken(outcome: object) -> None:
                assert isinstance(outcome, PaxosRecords)
                records = tuple(
                    attrs.evolve(each, value=each.value[:-1] + b"!") if each.position == 3 else each
                    for each in outcome.records
                )
                done(attrs.evolve(outcome, records=records))

            read(request, broken)

        handlers[ReadRecords] = damage
        world.network.listen(world.machines[NodeId(1)].process, handlers)

        assert await run(world, 3, 0, 6) == 6

        assert await world.payloads(3, 1, 5) == [entry(position) for position in range(1, 6)]


@simulated
async def test_without_fills_only_what_somebody_has_is_learned() -> None:
    """A closed log is copied from one replica, though no quorum lives; what it does not have stays missing."""
    async with playing() as world:
        await world.start(1, 3, status=Status.EMPTY)
        await know(world, 1, 1, 5)

        assert await run(world, 3, 0, 8, fills=False) == 6

        assert world.count(Promise) == 0


@simulated
async def test_a_fill_waits_for_a_quorum() -> None:
    """With one replica of three nothing can be decided. After half a minute there is another one."""
    async with playing() as world:
        await world.start(3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, world, 3, 0, 1)
            await world.clock.sleep(30)
            assert world.standing(3).learned == 0
            await world.start(1)

        assert world.standing(3).learned == 1


@simulated
async def test_two_replicas_that_fill_the_same_agree() -> None:
    """They are in each other's way, pause, and end with the same decisions: what a quorum has accepted among them."""
    async with playing() as world:
        await world.start(1, 2, 3)
        await accept(world, (2, 3), 9, b"nine")
        async with trio.open_nursery() as nursery:
            for node in (1, 3):
                nursery.start_soon(run, world, node, 0, 10)

        assert await world.payloads(1, 0, 9) == await world.payloads(3, 0, 9) == [b"nine"]
