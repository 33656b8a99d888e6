"""Clauses about servers that all lose power at the same moment, and come back with their disks.

They need a fixture that can do that to its servers, as the conformance kit's can (`virtuallog
conformance`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.types import Open, Sealed
from virtuallog.testing.checker.expectations import entries, expect
from virtuallog.testing.clauses.fixture import Client, LogletFixture, open_clients

DELAYS: Final = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)
"""Seconds between the start of an append and the loss of power: of the order of a call."""
NEWS: Final = 8
"""Number of appends that lose power at their first sign in the tail. In every other case the
entries are read first."""
POLL_SECONDS: Final = 0.001
PATIENCE_SECONDS: Final = 20.0
"""Time to wait for appends. A loglet may refuse them for ever once its servers have restarted."""


class RestartingFixture(LogletFixture, Protocol):
    """A fixture that owns its servers."""

    async def restart(self) -> None:
        """Make all servers lose their unsynced data, and start again. Clients live on."""
        ...


RestartClause: TypeAlias = Callable[[RestartingFixture], Awaitable[None]]


async def acknowledged_survives_a_restart(fixture: RestartingFixture) -> None:
    """After a power loss of all servers the loglet can be sealed, and everything acknowledged lies where it lay."""
    writer, reader, late = await open_clients(fixture, 3)
    contents: dict[int, bytes] = {}
    for number in range(6):
        payloads = [b"%d.%d" % (number, index) for index in range(1 + number % 3)]
        contents.update(zip(await writer.append(*payloads), payloads, strict=True))
    await fixture.restart()
    for client in (reader, late):
        await client.seal()
        found = entries(await client.read_all(0, (await client.tail()).tail))
        expect(found == contents, f"acknowledged {contents}; after a restart the loglet holds {found}")


async def a_seal_survives_a_restart(fixture: RestartingFixture) -> None:
    """A seal survives a power loss of all servers: the tail is sealed and has not shrunk, and no
    append is acknowledged."""
    writer, late = await open_clients(fixture, 2)
    await writer.append(b"a")
    await writer.seal()
    before = await writer.tail()
    await fixture.restart()
    for client in (late, writer):
        tail = await client.tail()
        expect(isinstance(tail, Sealed), f"the loglet was sealed; after a restart a tail check answers {tail}")
        expect(tail.tail >= before.tail, f"the sealed tail was {before.tail}, after a restart it is {tail.tail}")
        places = await _acknowledged(client, b"late")
        expect(places is None, f"a sealed loglet acknowledged {places} after a restart")


async def a_trim_survives_a_restart(fixture: RestartingFixture) -> None:
    """A trim point that was answered is kept, and so is everything above it."""
    writer, reader = await open_clients(fixture, 2)
    places = [(await writer.append(b"%d" % number))[0] for number in range(4)]
    point = await writer.prefix_trim(places[2])
    await fixture.restart()
    await reader.seal()
    again = await reader.prefix_trim(0)
    expect(again == point, f"trimmed to {point}; after a restart the trim point is {again}")
    found = entries(await reader.read_all(point, (await reader.tail()).tail))
    expect(list(found.values()) == [b"2", b"3"], f"above the trim point the loglet holds {found} after a restart")


async def an_open_tail_survives_a_restart(fixture: RestartingFixture) -> None:
    """Entries below an open tail stay readable: after a power loss of all servers no tail is below
    one seen before."""
    for delay in DELAYS:
        writer, reader = await open_clients(fixture, 2)
        await writer.append(b"first")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_acknowledged, writer, b"x")
            await fixture.clock.sleep(delay)
            seen = await reader.tail()
            before = entries(await reader.read_all(0, seen.tail))
            await fixture.restart()
            nursery.cancel_scope.cancel()
        await reader.seal()
        tail = await reader.tail()
        expect(isinstance(seen, Open) and tail.tail >= seen.tail, f"{seen} was seen; after a restart {tail}")
        after = entries(await reader.read_all(0, seen.tail))
        expect(after == before, f"{before} was read below {seen}; after a restart it is {after}")


async def a_tail_is_durable_when_it_is_told(fixture: RestartingFixture) -> None:
    """Everything below an open tail is durable, acknowledged or not.

    If all servers lose power at the first sign of an append in flight, the loglet is as long
    afterwards, and holds what was read.
    """
    for number in range(NEWS):
        writer, reader, late = await open_clients(fixture, 3)
        await writer.append(b"first")
        known = (await reader.tail()).tail
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_acknowledged, writer, b"news")
            seen = await _news(reader, known)
            before = entries(await reader.read_all(0, seen)) if number % 2 else {}
            await fixture.restart()
            nursery.cancel_scope.cancel()
        await late.seal()
        tail = await late.tail()
        expect(tail.tail >= seen, f"an open tail of {seen} was seen; after a restart {tail}")
        after = entries(await late.read_all(0, seen))
        lost = {place: payload for place, payload in before.items() if after.get(place) != payload}
        expect(not lost, f"{before} was read below the tail {seen}; after a restart it is {after}")


async def _news(client: Client, known: int) -> int:
    """Poll for the first tail past `known`; return `known` if there is none for a while."""
    with client.clock.timeout(PATIENCE_SECONDS):
        while (tail := await client.tail()).tail <= known:
            await client.clock.sleep(POLL_SECONDS)
        return tail.tail
    return known


async def a_maybe_is_settled_after_a_restart(fixture: RestartingFixture) -> None:
    """An append that a power loss of all servers interrupts is in the log or is not.

    Offered again it is there at most once, and surely if it is acknowledged then.
    """
    for delay in DELAYS:
        writer, reader = await open_clients(fixture, 2)
        first = await writer.append(b"first")
        batch = writer.batch(b"maybe")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_try_once, writer, batch)
                await fixture.clock.sleep(delay)
                await fixture.restart()
                scope.cancel()
        places = await _acknowledged_batch(writer, batch)
        await reader.seal()
        found = entries(await reader.read_all(0, (await reader.tail()).tail))
        expect(found.get(first[0]) == b"first", f"acknowledged at {first}; after a restart the loglet holds {found}")
        count = list(found.values()).count(b"maybe")
        expect(count <= 1, f"a batch offered before and after a restart is in the log {count} times: {found}")
        if places is not None:
            expect(found.get(places[0]) == b"maybe", f"acknowledged at {places} after a restart, the log holds {found}")


async def _acknowledged(client: Client, payload: bytes) -> range | None:
    return await _acknowledged_batch(client, client.batch(payload))


async def _acknowledged_batch(client: Client, batch: Batch) -> range | None:
    """Return the places of the batch; None if it was refused, or not acknowledged for a while."""
    with client.clock.timeout(PATIENCE_SECONDS):
        try:
            return await client.offer(batch)
        except VirtualLogError:
            return None
    return None


async def _try_once(client: Client, batch: Batch) -> None:
    with suppress(RetryableError):
        await client.loglet.append(batch, opens=client.opens(batch))


CLAUSES: tuple[RestartClause, ...] = (
    acknowledged_survives_a_restart,
    a_seal_survives_a_restart,
    a_trim_survives_a_restart,
    an_open_tail_survives_a_restart,
    a_tail_is_durable_when_it_is_told,
    a_maybe_is_settled_after_a_restart,
)
