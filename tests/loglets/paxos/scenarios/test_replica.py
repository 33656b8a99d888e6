"""Answers of one replica, asked by hand: ReplicaTest of Mesos."""

from __future__ import annotations

from tests.loglets.paxos.world import SEGMENT, STRANGER, World, playing
from tests.metastore.world import simulated
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import PaxosRecord, PaxosWrite, PaxosWritten, Promise, Promised, Status, Verdict

HELLO = values.append(b"hello world", 0)


@simulated
async def test_promise() -> None:
    """A number is promised if it is higher than all before, and only then; a refusal names the number in the way."""
    async with playing(replicas=1) as world:
        await world.start(1)

        two = await _promise(world, 2)
        assert (two.verdict, two.proposal, two.end, two.records) == (Verdict.ACCEPT, 2, 0, ())
        one = await _promise(world, 1)
        assert (one.verdict, one.proposal, one.records) == (Verdict.REJECT, 2, ())
        three = await _promise(world, 3)
        assert (three.verdict, three.proposal, three.end) == (Verdict.ACCEPT, 3, 0)


@simulated
async def test_append() -> None:
    """A write with the promised number is accepted: promised and performed with that number, and not learned."""
    async with playing(replicas=1) as world:
        await world.start(1)
        assert (await _promise(world, 1)).verdict is Verdict.ACCEPT

        written = await _write(world, 1, 1)

        assert (written.verdict, written.proposal, written.end, written.records) == (Verdict.ACCEPT, 1, 1, ())
        assert await _record(world, 1) == PaxosRecord(position=1, promised=1, performed=1, value=HELLO)
        assert await world.read(1, 1, 1) == []


@simulated
async def test_restore() -> None:
    """The same is there after the process has died."""
    async with playing(replicas=1) as world:
        await world.start(1)
        assert (await _promise(world, 1)).verdict is Verdict.ACCEPT
        assert (await _write(world, 1, 1)).verdict is Verdict.ACCEPT

        world.kill(1)
        await world.start(1, status=Status.EMPTY)

        assert (world.standing(1).status, world.standing(1).promised) == (Status.VOTING, 1)
        assert await _record(world, 1) == PaxosRecord(position=1, promised=1, performed=1, value=HELLO)


@simulated
async def test_non_voting() -> None:
    """A replica that does not vote promises and accepts nothing, and echoes the number of the request."""
    async with playing(replicas=1) as world:
        await world.start(1, status=Status.EMPTY)

        promised = await _promise(world, 2)
        assert (promised.verdict, promised.proposal) == (Verdict.IGNORED, 2)
        written = await _write(world, 3, 1)
        assert (written.verdict, written.proposal) == (Verdict.IGNORED, 3)
        assert world.standing(1).end == 0


async def _promise(world: World, proposal: int) -> Promised:
    return await world.ask(1, Promise(segment=SEGMENT, proposal=proposal, coordinator=STRANGER))


async def _write(world: World, proposal: int, position: int) -> PaxosWritten:
    write = PaxosWrite(segment=SEGMENT, proposal=proposal, coordinator=STRANGER, first=position, values=(HELLO,))
    return await world.ask(1, write)


async def _record(world: World, position: int) -> PaxosRecord:
    """Record that the replica keeps there, as an explicit promise returns it."""
    promise = Promise(segment=SEGMENT, proposal=9, coordinator=STRANGER, first=position, stop=position + 1)
    (record,) = (await world.ask(1, promise)).records
    return record
