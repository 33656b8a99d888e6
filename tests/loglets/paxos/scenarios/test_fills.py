"""Coordinators with positions that their own replica has missed: CoordinatorTest of Mesos, the part
about fills.

Mesos fills each such position by full Paxos, even if others have learned it. Ours copies positions
that a replica has learned and fills the rest; each test says which of the two it covers.
"""

from __future__ import annotations

from tests.loglets.paxos.world import SEGMENT, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers.fill_driver import fill
from virtuallog_loglets.paxos.messages import PaxosWrite, Promise, Verdict

TEN = [str(number).encode() for number in range(1, 11)]


@simulated
async def test_fill() -> None:
    """A replica that has missed everything: the first election there fails, as it knows no number to beat. The second one
    succeeds, and its replica has what the others have."""
    async with playing() as world:
        await _appended(world, [b"hello world"])

        await _take_over(world, last=1)

        assert await world.payloads(3, 1, 1) == [b"hello world"]


@simulated
async def test_not_learned_fill() -> None:
    """The same, but the only survivor has not learned what it accepted: it is decided once more, with the same value."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _appended(world, [b"hello world"])
        assert world.standing(2).learned == 0

        await _take_over(world, last=1)

        assert await world.payloads(3, 1, 1) == [b"hello world"]


@simulated
async def test_multiple_appends_not_learned_fill() -> None:
    """The same for ten."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _appended(world, TEN)

        await _take_over(world, last=10)

        assert await world.payloads(3, 1, 10) == TEN


@simulated
async def test_fill_no_quorum() -> None:
    """Empty in Mesos. A coordinator that was promised everything, and loses the quorum before it has filled: it is not elected.
    With the quorum back it is, and what was accepted is decided."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _appended(world, [b"hello world"])
        world.kill(1)
        await world.start(3)
        third = world.coordinator(3)
        assert await third.elect() is None  # its number is too low
        explicit = world.catch(PaxosWrite, to=2, sender=3)

        assert await third.elect() is None

        assert not third.running.is_leading
        assert await world.read(3, 1, 1) == []
        explicit.lift()
        assert await third.insist() == 1
        assert await world.payloads(3, 1, 1) == [b"hello world"]


@simulated
async def test_fill_inconsistent() -> None:
    """Empty in Mesos. Three replicas have accepted three different values for one position, none of
    which is decided. Of the values that a quorum reports, the one with the highest number is
    decided, and no replica ever learns another."""
    async with playing() as world:
        await world.start(1, 2, 3)
        for node, number in ((1, 10), (2, 30), (3, 20)):
            assert await _accept(world, node, number, 1, b"of %d" % number) is Verdict.ACCEPT
        world.catch(Promise, to=3)

        ended = await _fill(world, node=1, proposal=40, first=0, stop=2)

        assert ended >= 40
        await world.until(lambda: all(world.standing(node).learned == 2 for node in (1, 2, 3)))
        for node in (1, 2, 3):
            assert await world.payloads(node, 1, 1) == [b"of 30"]


@simulated
async def test_learned_on_one_replica_not_learned_on_another() -> None:
    """Empty in Mesos. One replica has learned an append, the other has only accepted it. A later
    coordinator gets the same value from either: from the first as a decision, from the second as
    a value to decide again."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _appended(world, [b"hello world"])
        await world.until(lambda: world.standing(1).learned == 2)
        assert world.standing(2).learned == 0
        await world.start(3)
        world.separate(3, 1)

        await _fill(world, node=3, proposal=7, first=0, stop=2)

        assert await world.payloads(3, 1, 1) == await world.payloads(1, 1, 1) == [b"hello world"]


@simulated
async def test_learned_on_one_replica_not_learned_on_another_another_fails_and_recovers() -> None:
    """Empty in Mesos. As before; then the replica that has only accepted fails, comes back, and has still accepted it. The one
    that has learned it fails for good: the value is decided again by the two others."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _appended(world, [b"hello world"])
        await world.until(lambda: world.standing(1).learned == 2)
        world.kill(2)
        await world.start(2)
        assert (world.standing(2).learned, world.standing(2).end) == (0, 1)

        await _take_over(world, last=1)

        assert await world.payloads(3, 1, 1) == [b"hello world"]


async def _appended(world: World, payloads: list[bytes]) -> None:
    """Replicas 1 and 2 have these; 3 has never run."""
    await world.start(1, 2)
    leader = world.coordinator(1)
    assert await leader.elect() == 0
    for payload in payloads:
        assert await leader.append(payload) is not None


async def _take_over(world: World, last: int) -> None:
    """1 is gone; 3 comes, and leads at its second attempt."""
    world.kill(1)
    await world.start(3)
    third = world.coordinator(3)
    assert await third.elect() is None
    assert await third.elect() == last


async def _accept(world: World, node: int, proposal: int, position: int, payload: bytes) -> Verdict:
    """A proposer wrote to this replica alone, and died."""
    value = values.append(payload, 0)
    write = PaxosWrite(segment=SEGMENT, proposal=proposal, coordinator=NodeId(node), first=position, values=(value,))
    return (await world.ask(node, write)).verdict


async def _fill(world: World, node: int, proposal: int, first: int, stop: int) -> int:
    environment = world.machines[NodeId(node)].environment
    return await fill(SEGMENT, world.ensemble, environment, environment.node, proposal, first, stop)
