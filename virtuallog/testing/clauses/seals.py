"""Clauses about `seal`, and about the operations of a sealed loglet."""

from __future__ import annotations

import trio

from virtuallog.contract.errors import SealedError
from virtuallog.contract.types import Sealed
from virtuallog.testing.checker.expectations import entries, expect, expect_error
from virtuallog.testing.clauses.fixture import Client, LogletFixture, open_clients


async def sealing_is_idempotent_and_open_to_all(fixture: LogletFixture) -> None:
    """Two clients may seal at once, and again later; the tail is sealed for every client."""
    first, second = await open_clients(fixture, 2)
    places = await first.append(b"x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.seal)
        nursery.start_soon(second.seal)
    await first.seal()
    for client in (first, second):
        tail = await client.tail()
        expect(isinstance(tail, Sealed), f"after the seal a tail check answered {tail}")
        expect(tail.tail > places[-1], f"{tail}, though place {places[-1]} was acknowledged")


async def a_sealed_loglet_refuses_appends(fixture: LogletFixture) -> None:
    """After `seal` returned, every new append is a SealedError, for the client that sealed and for others."""
    first, second, third = await open_clients(fixture, 3)
    await second.append(b"x")
    await first.seal()
    for client in (first, second, third):
        await expect_error(SealedError, client.append(b"late"), "an append to a sealed loglet")


async def an_empty_loglet_can_be_sealed(fixture: LogletFixture) -> None:
    """Sealing a loglet without appends leaves an empty sealed log."""
    first, second = await open_clients(fixture, 2)
    await first.seal()
    tail = await second.tail()
    expect(isinstance(tail, Sealed), f"after the seal a tail check answered {tail}")
    expect(not entries(await second.read_all(0, tail.tail)), "an empty loglet holds entries once it is sealed")
    await expect_error(SealedError, second.append(b"late"), "an append to a sealed loglet")


async def a_sealed_tail_never_shrinks(fixture: LogletFixture) -> None:
    """Sealed stays sealed, and no later tail check answers less, after any other operation."""
    first, second = await open_clients(fixture, 2)
    await first.append(b"a", b"b", b"c")
    await first.seal()
    tail = await first.tail()
    for client, late in [(second, second.batch(b"late")), (first, first.batch(b"late"))] * 3:
        await expect_error(SealedError, client.offer(late), "an append to a sealed loglet")
        await client.seal()
        now = await client.tail()
        expect(isinstance(now, Sealed), f"the loglet was sealed, then {now}")
        expect(now.tail >= tail.tail, f"the sealed tail shrank from {tail.tail} to {now.tail}")
        tail = now


async def a_sealed_loglet_can_be_read_and_trimmed(fixture: LogletFixture) -> None:
    """The seal takes nothing away: entries below the tail are read as before, and a prefix can be dropped."""
    first, second = await open_clients(fixture, 2)
    places = [*await first.append(b"a", b"b"), *await first.append(b"c")]
    await first.seal()
    stop = (await second.tail()).tail
    found = entries(await second.read_all(0, stop))
    expect(found == dict(zip(places, [b"a", b"b", b"c"], strict=True)), f"a sealed loglet holds {found}")
    trim_point = await second.prefix_trim(places[1])
    expect(trim_point <= places[1], f"asked to trim up to {places[1]}, answered {trim_point}")
    left = entries(await first.read_all(places[1], stop))
    expect(list(left.values()) == [b"b", b"c"], f"above the trim point a sealed loglet holds {left}")


async def acknowledged_lies_below_every_sealed_tail(fixture: LogletFixture) -> None:
    """An append that races with a seal and is acknowledged lies below all tails that follow the seal, or come with it."""
    for delay in range(12):
        first, second, sealer = await open_clients(fixture, 3)
        acknowledged: list[int] = []
        async with trio.open_nursery() as nursery:
            for client in (first, second):
                nursery.start_soon(_append_until_sealed, client, acknowledged)
            await fixture.clock.sleep(0.001 * (delay // 2))
            if delay % 2:
                tail = await sealer.seal_and_check_tail()
            else:
                await sealer.seal()
                tail = await sealer.tail()
        expect(isinstance(tail, Sealed), f"after the seal a tail check answered {tail}")
        beyond = [place for place in acknowledged if place >= tail.tail]
        expect(not beyond, f"acknowledged at {beyond}, at or past the sealed tail {tail.tail}")
        found = entries(await first.read_all(0, tail.tail))
        lost = [place for place in acknowledged if place not in found]
        expect(not lost, f"acknowledged at {lost}, then sealed, then lost")


async def _append_until_sealed(client: Client, acknowledged: list[int]) -> None:
    try:
        for _ in range(100):
            acknowledged += await client.append(b"x")
    except SealedError:
        pass


CLAUSES = (
    sealing_is_idempotent_and_open_to_all,
    a_sealed_loglet_refuses_appends,
    an_empty_loglet_can_be_sealed,
    a_sealed_tail_never_shrinks,
    a_sealed_loglet_can_be_read_and_trimmed,
    acknowledged_lies_below_every_sealed_tail,
)
