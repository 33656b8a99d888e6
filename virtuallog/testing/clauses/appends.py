"""Clauses about `append`."""

from __future__ import annotations

import random
from contextlib import suppress

import trio

from virtuallog.contract.batch import BATCH_COUNT_MAX, ENTRY_BYTES_MAX, Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, TailMismatchError, UnsupportedError, VirtualLogError
from virtuallog.contract.types import PlacedBatch
from virtuallog.testing.checker.expectations import entries, expect, expect_error
from virtuallog.testing.clauses.fixture import Client, LogletFixture, open_clients

IN_FLIGHT = 8
SESSIONS = 400
"""Number of sessions: more than any small table of them holds."""
SESSIONS_SECONDS = 60.0
"""Time for all of them. A loglet with a full table may make new sessions wait until it may forget one."""
PATIENCE_SECONDS = 20.0
"""Time to wait for an answer. A loglet may have only errors for a batch that is offered again."""


async def places_are_unique_and_ascend(fixture: LogletFixture) -> None:
    """Appends that follow each other get places that follow each other, for any clients."""
    clients = await open_clients(fixture, 3)
    given: list[int] = []
    for number in range(12):
        places = await clients[number % 3].append(*[b"%d" % number] * (1 + number % 4))
        expect(len(places) == 1 + number % 4, f"a batch of {1 + number % 4} entries got the places {places}")
        given += places
    expect(given == sorted(set(given)), f"places are not unique and ascending: {given}")
    if fixture.contiguous:
        expect(given == list(range(len(given))), f"places of a contiguous loglet have holes: {given}")


async def acknowledged_is_readable_by_every_client(fixture: LogletFixture) -> None:
    """An acknowledged batch lies at its places, byte for byte, for the writer and for every other
    client."""
    writer, reader = await open_clients(fixture, 2)
    batch = Batch.build(writer.session, 0, [b"one", b"two", b"three"], {"trace": b"\x00\xff"})
    places = await writer.offer(batch)
    tail = (await reader.tail()).tail
    for client in (writer, reader):
        found = [item for item in await client.read_all(0, tail) if isinstance(item, PlacedBatch)]
        expect([item.places for item in found] == [places], f"appended at {places}, read {found}")
        expect(found[0].batch == batch, "the batch that was read is not the one that was appended")


async def empty_payloads_are_entries(fixture: LogletFixture) -> None:
    """An entry of no bytes has a place like any other."""
    writer, reader = await open_clients(fixture, 2)
    places = [*await writer.append(b""), *await writer.append(b"", b"", b"x", b"")]
    found = entries(await reader.read_all(0, (await reader.tail()).tail))
    expect(found == dict(zip(places, [b"", b"", b"", b"x", b""], strict=True)), f"found {found} at {places}")


async def largest_batches_survive(fixture: LogletFixture) -> None:
    """The most entries that a batch may have, and the largest entry, come back as they were."""
    writer, reader = await open_clients(fixture, 2)
    many = await writer.append(*[b""] * BATCH_COUNT_MAX)
    payload = fixture.random.randbytes(1 << 10) * (ENTRY_BYTES_MAX >> 10)
    large = await writer.append(payload)
    found = entries(await reader.read_all(many[0], (await reader.tail()).tail))
    expect(set(found) == {*many, *large}, f"{len(found)} entries found, {len(many) + 1} were appended")
    expect(found[large[0]] == payload, "the largest entry came back changed")


async def batches_of_a_session_keep_their_order(fixture: LogletFixture) -> None:
    """Batches of a session that are in flight together lie in the session's order, in any order of
    arrival."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"opens")
    batches = [writer.batch(b"%d" % number, b"and more") for number in range(IN_FLIGHT)]
    async with trio.open_nursery() as nursery:
        for batch in batches:
            nursery.start_soon(writer.offer, batch)
    items = await reader.read_all(0, (await reader.tail()).tail)
    order = [record.sequence for item in items if isinstance(item, PlacedBatch) for record in item.records()]
    expect(order == list(range(writer.next_sequence)), f"the session lies in the order {order}")


async def times_never_go_back(fixture: LogletFixture) -> None:
    """The time of ordering does not decrease along the log."""
    writer, reader = await open_clients(fixture, 2)
    for _ in range(5):
        await writer.append(b"tick")
        await fixture.clock.sleep(0.01)
    items = await reader.read_all(0, (await reader.tail()).tail)
    times = [item.time_ms for item in items if isinstance(item, PlacedBatch)]
    expect(len(times) == 5 and times == sorted(times), f"batches in order have the times {times}")


async def the_same_batch_again_gets_its_old_places(fixture: LogletFixture) -> None:
    """A batch that is offered again, because the first answer was lost, is in the log once."""
    writer, reader = await open_clients(fixture, 2)
    first, second = writer.batch(b"a", b"b"), writer.batch(b"c")
    given = [await writer.offer(first), await writer.offer(second)]
    again = [await writer.offer(first), await writer.offer(second)]
    expect(given == again, f"offered again, the places were {again} and not {given}")
    found = list(entries(await reader.read_all(0, (await reader.tail()).tail)).values())
    expect(found == [b"a", b"b", b"c"], f"the log holds {found}")


async def a_session_is_not_forgotten_silently(fixture: LogletFixture) -> None:
    """A batch that is offered again gets the places it has, or an error, however many sessions have
    begun since.

    It never gets new places.
    """
    writer, *others, reader = await open_clients(fixture, 6)
    first = writer.batch(b"first")
    places = await writer.offer(first)
    with fixture.clock.timeout(SESSIONS_SECONDS):
        async with trio.open_nursery() as nursery:
            for other in others:
                nursery.start_soon(_begin_sessions, other, fixture.random, SESSIONS // len(others))
    again: range | None = None
    with fixture.clock.timeout(PATIENCE_SECONDS), suppress(VirtualLogError):
        again = await writer.retried(lambda: writer.loglet.append(first, opens=True))
    expect(again in {None, places}, f"offered again after {SESSIONS} others, a batch at {places} was given {again}")
    found = entries(await reader.read_all(0, (await reader.tail()).tail))
    where = [place for place, payload in found.items() if payload == b"first"]
    expect(where == list(places), f"offered again after {SESSIONS} others, a batch at {places} lies at {where}")


async def _begin_sessions(client: Client, source: random.Random, count: int) -> None:
    """Begin sessions one after the other, with one batch each. A loglet that takes no more of them
    reports so."""
    with suppress(VirtualLogError):
        for _ in range(count):
            session = SessionId(source.randbytes(16))
            await Client(client.loglet, client.clock, session).append(b"other")


async def a_gap_in_a_session_is_refused(fixture: LogletFixture) -> None:
    """A batch without its predecessor is OutOfOrderError, and nothing is done; then the session
    goes on."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"0")
    before = (await reader.tail()).tail
    missing, early = writer.batch(b"1"), writer.batch(b"2")

    async def offer_early() -> range:
        return await writer.retried(lambda: writer.loglet.append(early, opens=False))

    error = await expect_error(OutOfOrderError, offer_early(), "a batch without its predecessor")
    expect(error.expected_sequence == 1, f"the error asks for sequence {error.expected_sequence}, not 1")
    after = (await reader.tail()).tail
    expect(after == before, f"the refused batch moved the tail from {before} to {after}")
    await writer.offer(missing)
    await writer.offer(early)
    found = list(entries(await reader.read_all(0, (await reader.tail()).tail)).values())
    expect(found == [b"0", b"1", b"2"], f"the log holds {found}")


async def a_session_may_begin_anywhere(fixture: LogletFixture) -> None:
    """A session that comes from another loglet opens with the sequence number it has reached, and goes on from it."""
    (writer,) = await open_clients(fixture, 1)
    start = 1 << 40
    writer = Client(writer.loglet, writer.clock, writer.session, first_sequence=start, next_sequence=start)
    await writer.append(b"first here")
    await writer.append(b"second")
    found = list(entries(await writer.read_all(0, (await writer.tail()).tail)).values())
    expect(found == [b"first here", b"second"], f"the log holds {found}")


async def a_conditional_append_needs_the_tail(fixture: LogletFixture) -> None:
    """With `expected_tail`, a batch is placed exactly there or refused with nothing done (or never supported)."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"0")
    tail = (await reader.tail()).tail
    batch = writer.batch(b"1")
    try:
        places = await writer.offer(batch, expected_tail=tail)
    except UnsupportedError:
        return
    expect(places[0] == tail, f"expected at {tail}, placed at {places}")
    now = (await reader.tail()).tail
    refused = reader.batch(b"no")
    for wrong in (0, tail, now + 1):
        await expect_error(TailMismatchError, reader.offer(refused, expected_tail=wrong), f"tail {now}, not {wrong}")
    expect((await reader.tail()).tail == now, "a refused conditional append moved the tail")


async def a_conditional_append_offered_again_gets_its_old_places(fixture: LogletFixture) -> None:
    """A conditional append may be repeated as it was after its answer was lost: it is in the log once."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"0")
    tail = (await reader.tail()).tail
    batch = writer.batch(b"1")
    try:
        given = await writer.offer(batch, expected_tail=tail)
    except UnsupportedError:
        return
    again = await writer.offer(batch, expected_tail=tail)
    expect(again == given, f"offered again, a conditional append at {given} was given {again}")
    found = list(entries(await reader.read_all(0, (await reader.tail()).tail)).values())
    expect(found == [b"0", b"1"], f"the log holds {found}")


async def of_rival_conditional_appends_one_wins(fixture: LogletFixture) -> None:
    """One of several conditional appends for the same place is acknowledged there; the others
    change nothing."""
    *rivals, reader = await open_clients(fixture, 4)
    await reader.append(b"0")
    tail = (await reader.tail()).tail
    outcomes: list[range | TailMismatchError | UnsupportedError] = []

    async def bid(client: Client) -> None:
        try:
            outcomes.append(await client.offer(client.batch(b"bid"), expected_tail=tail))
        except (TailMismatchError, UnsupportedError) as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        for client in rivals:
            nursery.start_soon(bid, client)
    if any(isinstance(outcome, UnsupportedError) for outcome in outcomes):
        return
    won = [outcome for outcome in outcomes if isinstance(outcome, range)]
    expect(won == [range(tail, tail + 1)], f"three bids for place {tail}: {outcomes}")
    found = list(entries(await reader.read_all(0, (await reader.tail()).tail)).values())
    expect(found == [b"0", b"bid"], f"the log holds {found}")


async def an_unknown_session_must_open(fixture: LogletFixture) -> None:
    """A batch of a session that the loglet does not know, offered without `opens`, is OutOfOrderError: nothing is done."""
    writer, reader = await open_clients(fixture, 2)
    await reader.append(b"other")
    before = (await reader.tail()).tail
    for start in (0, 5):
        batch = Batch.build(writer.session, start, [b"lost its beginning"])

        async def offer(batch: Batch = batch) -> range:
            return await writer.retried(lambda: writer.loglet.append(batch, opens=False))

        await expect_error(OutOfOrderError, offer(), f"sequence {start} of an unknown session")
    after = (await reader.tail()).tail
    expect(after == before, f"the refused batches moved the tail from {before} to {after}")


CLAUSES = (
    places_are_unique_and_ascend,
    acknowledged_is_readable_by_every_client,
    empty_payloads_are_entries,
    largest_batches_survive,
    batches_of_a_session_keep_their_order,
    times_never_go_back,
    the_same_batch_again_gets_its_old_places,
    a_session_is_not_forgotten_silently,
    a_gap_in_a_session_is_refused,
    a_session_may_begin_anywhere,
    an_unknown_session_must_open,
    a_conditional_append_needs_the_tail,
    a_conditional_append_offered_again_gets_its_old_places,
    of_rival_conditional_appends_one_wins,
)
