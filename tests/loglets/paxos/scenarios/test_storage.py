"""Storage of one replica, on a simulated disk and on RocksDB: LogStorageTest of Mesos.

Mesos tests its storage by itself. Ours is tested through a replica, which learns decisions by hand
and is checked before and after a restart. A read returns nothing where nothing is stored, or not
any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.loglets.paxos.world import SEGMENT, World, playing
from virtuallog.runtime.rocks_map import open_rocks_map
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import Learn, PaxosRecord, Status
from virtuallog_loglets.paxos.offsets import PLACE_MAX


@pytest.fixture(params=["simulated", "RocksDB"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """One machine, which knows nothing. A real store needs real time, so both have that."""
    async with playing(replicas=1, quorum=1) as world:
        if request.param == "RocksDB":
            world.open_store = lambda node: open_rocks_map(tmp_path / str(node))
        await world.start(1, status=Status.EMPTY)
        yield world


async def test_truncate(world: World) -> None:
    """A new store is empty. Of ten entries the first three are dropped, then all, each time by an entry of its own; everything
    else is there as before, the first of these two included."""
    standing = world.standing(1)
    assert (standing.status, standing.promised, standing.begin, standing.end) == (Status.EMPTY, 0, 0, 0)
    entries = [_entry(position) for position in range(10)]
    first, second = _truncation(at=10, to=3), _truncation(at=11, to=10)

    await _learn(world, entries)
    await _holds(world, entries)
    await _learn(world, [first])
    await _holds(world, [*entries[3:], first], lost=range(3))
    await _learn(world, [second])
    await _holds(world, [first, second], lost=range(10))


async def test_truncate_with_empty_log(world: World) -> None:
    """The very first entry truncates nothing: it is stored, and position 0 is not there."""
    truncation = _truncation(at=1, to=0)

    await _learn(world, [truncation])

    await _holds(world, [truncation], lost=[0])
    assert world.standing(1).begin == 0


async def test_truncate_with_many_holes(world: World) -> None:
    """Six hundred million positions that were never written are dropped, without a visit to each:
    otherwise this test would not end. Mesos demands less than a second."""
    truncation = _truncation(at=600_020_000, to=600_000_000)

    await _learn(world, [truncation])

    await _holds(world, [truncation], lost=[0, 1, 599_999_999])
    assert (world.standing(1).begin, world.standing(1).end) == (600_000_000, 600_020_000)


async def test_overflow(world: World) -> None:
    """Positions around the limits of fixed-width numbers each keep their value. Mesos ends at 2^64;
    here the last position is the one with loglet offsets below 2^63."""
    positions = [
        0, (1 << 31) - 2, (1 << 31) - 1, (1 << 32) - 1, (1 << 33) - 1, (1 << 32) - 2, 1 << 32,
        9_999_999_998, 9_999_999_999, 10_000_000_000, 9_999_999_999 + (1 << 32), 10_000_000_000 + (1 << 32),
        PLACE_MAX - 1 - (1 << 32), PLACE_MAX,
    ]  # fmt: skip
    entries = [_entry(position) for position in positions]
    assert len(set(positions)) == 14

    for entry in entries:
        await _learn(world, [entry])

    await _holds(world, entries)


async def test_overflow_truncate(world: World) -> None:
    """A truncation across the limit of ten digits, where the keys of Mesos change their form. Mesos puts the truncation over an entry; here
    what is decided never changes, so it has a place of its own."""
    positions = [9_999_999_997, 9_999_999_998, 9_999_999_999, 10_000_000_000, 10_000_000_042]
    entries = [_entry(position) for position in positions]
    truncation = _truncation(at=10_000_000_001, to=9_999_999_999)
    await _learn(world, entries)

    await _learn(world, [truncation])

    await _holds(world, [*entries[2:], truncation], lost=positions[:2])
    assert (world.standing(1).begin, world.standing(1).end) == (positions[2], positions[-1])


async def _learn(world: World, records: Sequence[PaxosRecord]) -> None:
    await world.replica(1).perform(Learn(segment=SEGMENT, records=tuple(records)))


async def _holds(world: World, records: Sequence[PaxosRecord], lost: Sequence[int] = ()) -> None:
    """Check now, and after a restart."""
    await _reads(world, records, lost)
    world.kill(1)
    await world.start(1, status=Status.EMPTY)
    await _reads(world, records, lost)


async def _reads(world: World, records: Sequence[PaxosRecord], lost: Sequence[int]) -> None:
    for record in records:
        assert await world.read(1, record.position, record.position) == [record]
    for position in lost:
        assert await world.read(1, position, position) == []


def _entry(position: int) -> PaxosRecord:
    return _decided(position, values.append(str(position).encode(), 0))


def _truncation(at: int, to: int) -> PaxosRecord:
    return _decided(at, values.truncate(to, 0))


def _decided(position: int, value: bytes) -> PaxosRecord:
    return PaxosRecord(position=position, promised=1, performed=1, value=value, learned=True)
