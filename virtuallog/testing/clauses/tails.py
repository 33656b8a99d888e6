"""Clauses about `check_tail` and `wait_tail`."""

from __future__ import annotations

import trio

from virtuallog.contract.types import Open, Sealed
from virtuallog.testing.checker.expectations import entries, expect
from virtuallog.testing.clauses.fixture import LogletFixture, open_clients


async def an_empty_log_is_open_and_holds_nothing(fixture: LogletFixture) -> None:
    """A fresh loglet has a tail, below it there is no entry, and looking does not change that."""
    first, second = await open_clients(fixture, 2)
    tail = await first.tail()
    expect(isinstance(tail, Open), f"a fresh loglet answers {tail}")
    expect(tail.tail == 0 or not fixture.contiguous, f"a fresh contiguous loglet has tail {tail.tail}")
    expect(not entries(await second.read_all(0, tail.tail)), "a fresh loglet holds entries")
    expect(await second.tail() == tail, "the tail of an empty log differs from client to client")


async def the_tail_is_the_first_unwritten_place(fixture: LogletFixture) -> None:
    """The tail is one past the last entry, or further on in a sparse loglet, where only gaps lie between."""
    writer, reader = await open_clients(fixture, 2)
    for count in (1, 3, 2):
        places = await writer.append(*[b"x"] * count)
        tail = (await reader.tail()).tail
        expect(tail > places[-1], f"the tail is {tail}, though place {places[-1]} is acknowledged")
        expect(tail == places[-1] + 1 or not fixture.contiguous, f"the tail is {tail}, the last entry at {places[-1]}")
        between = entries(await reader.read_all(places[-1] + 1, tail))
        expect(not between, f"entries that no client appended: {between}")
        following = await writer.append(b"next")
        expect(following[0] >= tail, f"the tail was {tail}, then an entry was placed at {following[0]}")


async def an_open_tail_covers_all_acknowledged(fixture: LogletFixture) -> None:
    """Everything acknowledged before a tail check lies below that tail, also while others append."""
    *writers, reader = await open_clients(fixture, 3)
    highest = -1

    async def write(number: int) -> None:
        nonlocal highest
        for _ in range(10):
            places = await writers[number].append(b"x", b"y")
            highest = max(highest, places[-1])
            known = highest
            tail = await reader.tail()
            expect(tail.tail > known, f"place {known} was acknowledged before {tail} was read")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, 0)
        nursery.start_soon(write, 1)


async def waiting_ends_with_an_append(fixture: LogletFixture) -> None:
    """`wait_tail` returns once the tail is past the place, at once if it already is."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"first")
    past = (await reader.tail()).tail
    woken: list[int] = []

    async def wait() -> None:
        while not woken or woken[-1] <= past:
            woken.append((await reader.wait_tail(past)).tail)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await fixture.clock.sleep(0.1)
        expect(all(tail <= past for tail in woken), f"waited past {past} in a log that ends there, got {woken}")
        await writer.append(b"second")
    again = await reader.wait_tail(past)
    expect(again.tail > past, f"waited past {past}, got {again}")


async def waiting_ends_with_a_seal(fixture: LogletFixture) -> None:
    """A seal wakes waiting clients, and later ones do not wait at all."""
    writer, reader = await open_clients(fixture, 2)
    past = max(await writer.append(b"only"))
    seen: list[object] = []

    async def wait() -> None:
        while not isinstance(seen[-1] if seen else None, Sealed):
            seen.append(await reader.wait_tail(past + 100_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await fixture.clock.sleep(0.1)
        await writer.seal()
    expect(isinstance(await reader.wait_tail(past + 100_000), Sealed), "a sealed loglet was waited for and seemed open")


async def waiting_ends_anyway(fixture: LogletFixture) -> None:
    """When nothing happens, `wait_tail` returns the tail after a while."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"only")
    tail = await reader.tail()
    expect(await reader.wait_tail(tail.tail) == tail, f"nothing happened, and the tail is no longer {tail}")


CLAUSES = (
    an_empty_log_is_open_and_holds_nothing,
    the_tail_is_the_first_unwritten_place,
    an_open_tail_covers_all_acknowledged,
    waiting_ends_with_an_append,
    waiting_ends_with_a_seal,
    waiting_ends_anyway,
)
