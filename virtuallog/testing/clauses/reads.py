"""Clauses about `read` and `prefix_trim`."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogletOffset, PlacedBatch
from virtuallog.testing.checker.expectations import covered, entries, expect
from virtuallog.testing.clauses.fixture import Client, LogletFixture, open_clients

READ_SECONDS: Final = 10.0
"""Time for a read that no server can answer: the loglet may wait for one in vain."""
BATCH_SIZES = (2, 1, 3, 1, 2)


async def _written(fixture: LogletFixture) -> tuple[Client, Client, dict[int, bytes], int]:
    """Return two clients of a loglet with a few batches, its content by place, and its tail."""
    writer, reader = await open_clients(fixture, 2)
    contents: dict[int, bytes] = {}
    for number, count in enumerate(BATCH_SIZES):
        payloads = [b"%d.%d" % (number, index) for index in range(count)]
        contents.update(zip(await writer.append(*payloads), payloads, strict=True))
    return writer, reader, contents, (await reader.tail()).tail


def _start_of_batch(contents: dict[int, bytes], place: int) -> int:
    """Return the start of the batch with an entry at this place: a loglet that drops whole batches
    may stop there."""
    places, starts = sorted(contents), list(itertools.accumulate(BATCH_SIZES, initial=0))
    return places[starts[bisect.bisect_right(starts, places.index(place)) - 1]]


async def _expect_unmoved(fixture: LogletFixture, reader: Client, tail: int) -> None:
    """Check that the tail has not moved: a trim is no append.

    A sparse loglet may record it in the log, in places that hold nothing for any client.
    """
    after = (await reader.tail()).tail
    if fixture.contiguous:
        expect(after == tail, f"trimming moved the tail from {tail} to {after}")
        return
    expect(after >= tail, f"trimming moved the tail from {tail} back to {after}")
    items = await reader.read_all(tail, after)
    fillers = [item for item in items if isinstance(item, Gap) and item.kind is GapKind.FILLER]
    expect(len(fillers) == len(items), f"trimming a log that ended at {tail} put {items} there")


async def a_read_covers_its_range_without_holes(fixture: LogletFixture) -> None:
    """Every read begins at its start, clips batches at both ends, and covers each place once, by entry or gap."""
    _, reader, contents, tail = await _written(fixture)
    bounds = sorted({0, tail, *contents, *(place + 1 for place in contents)})
    for start in bounds:
        for stop in (bound for bound in bounds if bound > start):
            found = entries(await reader.read_all(start, stop))
            wanted = {place: payload for place, payload in contents.items() if start <= place < stop}
            expect(found == wanted, f"[{start}, {stop}) holds {wanted}, read {found}")


async def a_read_ends_early_at_its_limit(fixture: LogletFixture) -> None:
    """A read returns at least one item however small its limit, and not much more than the limit allows."""
    writer, reader = await open_clients(fixture, 2)
    payloads = [b"%d" % number * 1000 for number in range(10)]
    for payload in payloads:
        await writer.append(payload)
    tail = (await reader.tail()).tail
    for max_bytes in (1, 3000):
        items = await reader.read(0, tail, max_bytes)
        expect(covered(items, 0, tail) < tail, f"10,000 bytes were read with a limit of {max_bytes}")
        found = list(entries(await reader.read_all(0, tail, max_bytes)).values())
        expect(found == payloads, f"{len(found)} of 10 entries were found, reading {max_bytes} bytes at a time")


async def a_trim_drops_only_what_is_below(fixture: LogletFixture) -> None:
    """Below the trim point reads give trimmed gaps, or still the entry; at and above it everything is intact."""
    writer, reader, contents, tail = await _written(fixture)
    for point in contents:
        trim_point, least = await writer.prefix_trim(point), _start_of_batch(contents, point)
        told = f"asked to trim up to {point}, in a batch at {least}, below the tail {tail}; answered {trim_point}"
        expect(trim_point in {least, point}, told)
        items = await reader.read_all(0, tail)
        found = entries(items)
        expect(found.items() <= contents.items(), f"reading a trimmed log found {found}, it held {contents}")
        kept = {place: payload for place, payload in found.items() if place >= point}
        wanted = {place: payload for place, payload in contents.items() if place >= point}
        expect(kept == wanted, f"trimmed up to {point}: read {kept} above it, not {wanted}")
        dropped = [gap for gap in items if isinstance(gap, Gap) and gap.kind is GapKind.TRIMMED and gap.stop > point]
        expect(not dropped, f"trimmed up to {point}, but read {dropped}")
    await _expect_unmoved(fixture, reader, tail)


async def a_trim_point_never_goes_back(fixture: LogletFixture) -> None:
    """Trimming less than before changes nothing and answers the earlier point, to every client."""
    writer, reader, contents, _ = await _written(fixture)
    asked = sorted(contents)[4]
    high = await writer.prefix_trim(asked)
    expect(high in {_start_of_batch(contents, asked), asked}, f"trimming to {asked} answered {high}")
    for client, offset in ((writer, 0), (reader, sorted(contents)[1]), (reader, asked)):
        trim_point = await client.prefix_trim(offset)
        expect(trim_point == high, f"trimmed to {high}, then to {offset}: answered {trim_point}")


async def a_trim_stops_at_the_tail(fixture: LogletFixture) -> None:
    """Trimming at or past the tail empties the log; it does not move the tail, and what is appended then stays."""
    for beyond in (0, 1, 1000):
        writer, reader, contents, tail = await _written(fixture)
        trim_point = await reader.prefix_trim(tail + beyond)
        expect(max(contents) < trim_point <= tail, f"trimming to {tail + beyond}, {beyond} past the tail: {trim_point}")
        await _expect_unmoved(fixture, reader, tail)
        places = await writer.append(b"after the trim")
        found = entries(await reader.read_all(tail, (await reader.tail()).tail))
        expect(found == {places[0]: b"after the trim"}, f"appended at {places} after the trim, read {found}")


async def an_empty_log_can_be_trimmed(fixture: LogletFixture) -> None:
    """A trim before the first append does nothing: later appends are kept."""
    writer, reader = await open_clients(fixture, 2)
    empty = (await reader.tail()).tail
    trim_point = await reader.prefix_trim(empty + 10)
    expect(trim_point <= empty, f"the empty log ends at {empty}, and was trimmed to {trim_point}")
    places = await writer.append(b"first")
    found = entries(await reader.read_all(0, (await reader.tail()).tail))
    expect(found == {places[0]: b"first"}, f"appended at {places}, read {found}")


async def a_batch_is_read_whole_in_one_piece(fixture: LogletFixture) -> None:
    """Batches come back as they were appended, session and sequence numbers included, not cut up or merged."""
    writer, reader, _, tail = await _written(fixture)
    found = [item for item in await reader.read_all(0, tail) if isinstance(item, PlacedBatch)]
    counts = tuple(len(item.places) for item in found)
    expect(counts == BATCH_SIZES, f"batches of {BATCH_SIZES} entries came back as {counts}")
    records = [record for item in found for record in item.records()]
    names = [(record.session, record.sequence) for record in records]
    expect(names == [(writer.session, number) for number in range(len(records))], f"entries came back as {names}")


async def a_read_past_the_tail_invents_nothing(fixture: LogletFixture) -> None:
    """A read past the tail ends early or fails; it returns nothing about places that are not
    written yet."""
    writer, reader, contents, tail = await _written(fixture)
    for start in (0, tail, tail + 2):
        items: Sequence[Placed] = ()
        with fixture.clock.timeout(READ_SECONDS), suppress(VirtualLogError):
            items = await reader.loglet.read(LogletOffset(start), LogletOffset(tail + 10), 1 << 20)
        beyond = [item for item in items if item.stop > tail]
        expect(not beyond, f"the tail is {tail}; read({start}, {tail + 10}) found {beyond}")
    contents.update(zip(await writer.append(b"next"), [b"next"], strict=True))
    found = entries(await reader.read_all(0, (await reader.tail()).tail))
    expect(found == contents, f"reads past the tail left a log of {found}, not {contents}")


CLAUSES = (
    a_read_covers_its_range_without_holes,
    a_read_ends_early_at_its_limit,
    a_batch_is_read_whole_in_one_piece,
    a_trim_drops_only_what_is_below,
    a_trim_point_never_goes_back,
    a_trim_stops_at_the_tail,
    an_empty_log_can_be_trimmed,
    a_read_past_the_tail_invents_nothing,
)
