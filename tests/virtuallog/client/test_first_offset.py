"""A log that does not begin at 0: positions below are trimmed, all else is as usual (docs/decisions/0010)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
from trio.testing import MockClock

from tests.virtuallog.client.world import World, contents, world
from virtuallog.contract import chain
from virtuallog.contract.errors import BeyondTailError, TailMismatchError
from virtuallog.contract.types import Gap, GapKind, LogPosition, Open, PlacedBatch

START = LogPosition(4711)


@pytest.fixture
async def later() -> AsyncIterator[World]:
    async with world() as made:
        register = attrs.evolve(made.register, chain=chain.genesis("memory", b"", attempt=1, start=START))
        made.metastore.values[-1] = register.encode()
        yield made


async def test_it_is_empty_and_begins_at_its_start(later: World, autojump_clock: MockClock) -> None:
    """Tail and trim point of an empty log are at its start."""
    log = later.client()

    assert await log.check_tail() == Open(START)
    assert await log.find_trim_point() == START
    with pytest.raises(BeyondTailError):
        await log.read(LogPosition(0), LogPosition(START + 1))


async def test_entries_land_from_there_on(later: World, autojump_clock: MockClock) -> None:
    """Appends, one after the other, in a batch and on a condition; a reader from 0 on gets one gap, then the entries."""
    log = later.client()

    assert await log.append(b"a") == START
    assert await log.append_many([b"b", b"c"]) == range(START + 1, START + 3)
    assert await log.append_if_tail(b"d", LogPosition(START + 3)) == START + 3
    with pytest.raises(TailMismatchError):
        await log.append_if_tail(b"e", LogPosition(3))

    first, *rest = [placed async for placed in log.reader(LogPosition(0), LogPosition(START + 4)).batches()]
    assert first == Gap(LogPosition(0), START, GapKind.TRIMMED)
    found = [data.payload for placed in rest if isinstance(placed, PlacedBatch) for data in placed.records()]
    assert found == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("wanted", [0, 1, START - 1, START])
async def test_what_is_below_counts_as_trimmed(later: World, wanted: int, autojump_clock: MockClock) -> None:
    """A read below the start brings one gap up to it; a trim up to it has nothing to do."""
    log = later.client()
    await log.append(b"a")

    assert await log.prefix_trim(LogPosition(wanted)) == START
    assert await log.read(LogPosition(7), LogPosition(START + 1)) == [Gap(LogPosition(7), START, GapKind.TRIMMED)]
    assert await contents(log) == [(START, b"a")]


async def test_it_is_extended_trimmed_and_truncated_as_any_other(later: World, autojump_clock: MockClock) -> None:
    """Segments come and go behind the first one, on loglets with gaps between their places as well."""
    log = later.client()
    await log.append_many([b"a", b"b"])
    await log.reconfig_extend("sparse")
    place = await log.append(b"c")
    await log.reconfig_extend("memory")
    await log.append(b"d")
    assert [segment.start for segment in later.register.chain.segments][:2] == [START, START + 2]

    assert await log.prefix_trim(place) == place
    assert later.register.chain.start == START + 2
    assert [payload for _, payload in await contents(log)] == [b"c", b"d"]


async def test_an_empty_one_is_extended_at_its_start(later: World, autojump_clock: MockClock) -> None:
    """An empty first segment is dropped, as at 0, and the log still begins at the same position."""
    log = later.client()
    for kind in ("sparse", "memory"):
        await log.reconfig_extend(kind)

    assert [segment.start for segment in later.register.chain.segments] == [START]
    assert await log.append(b"a") == START
