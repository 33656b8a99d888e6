"""Snapshots: when they are taken, which ones stay, and what the replica learns."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.database.snapshots.replicas import content, world
from virtuallog.contract.errors import StorageError
from virtuallog.contract.types import POSITION_MAX, LogPosition
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.policy import (
    NONE,
    SnapshotSchedule,
    SnapshotSettings,
    name_of,
    position_of,
    superfluous,
)
from virtuallog_database.snapshots.snapshotter import Snapshotter, positions

SETTINGS = SnapshotSettings(log_bytes=1000, seconds=60.0, seconds_min=5.0, keep=2)


def due(schedule: SnapshotSchedule, cursor: int, applied_bytes: int, now: float) -> bool:
    return schedule.is_due(LogPosition(cursor), applied_bytes, now)


def test_a_snapshot_is_due_after_bytes_or_after_time() -> None:
    """Never without progress, never more often than is good for the disk, and at once if there is no snapshot yet."""
    schedule = SnapshotSchedule(SETTINGS, LogPosition(10), taken_at=100.0)
    assert not due(schedule, 10, 5000, 1000.0)
    assert not due(schedule, 11, 5000, 104.0)
    assert due(schedule, 11, 1000, 105.0)
    assert not due(schedule, 11, 999, 159.0)
    assert due(schedule, 11, 1, 160.0)
    schedule.took(LogPosition(20), 1500, 200.0)
    assert not due(schedule, 21, 2499, 210.0)
    assert due(schedule, 21, 2500, 210.0)
    assert due(SnapshotSchedule(SETTINGS, NONE, taken_at=0.0), 1, 1, 0.0)
    assert not due(SnapshotSchedule(SETTINGS, NONE, taken_at=0.0), 0, 0, 1000.0)


@given(st.lists(st.integers(0, POSITION_MAX), min_size=2, unique=True))
def test_names_sort_like_positions(numbers: list[int]) -> None:
    """Names are parsed back; other names give None."""
    names = sorted(name_of(LogPosition(number)) for number in numbers)
    assert [position_of(name) for name in names] == sorted(numbers)
    assert position_of("7") is None and position_of(".taking" + "0" * 13) is None


def test_the_newest_stay_and_those_that_are_read() -> None:
    """However old they are."""
    found = [LogPosition(position) for position in (5, 1, 9, 7)]
    assert superfluous(found, 2, ()) == [1, 5]
    assert superfluous(found, 2, {LogPosition(1)}) == [5]
    assert superfluous(found[:1], 2, ()) == []


async def test_snapshots_are_taken_as_the_log_grows(autojump_clock: MockClock) -> None:
    """The replica hears of each once it is durable; two are kept."""
    async with world() as made:
        machine = made.machine(1)
        replica, snapshots = await machine.replica(5, SETTINGS)
        made.nursery.start_soon(snapshots.run, replica)
        for cursor in range(15, 65, 10):
            replica.play(cursor)
            await machine.clock.sleep(10)
        assert replica.told == [0, 15, 25, 35, 45, 55]
        assert await positions(machine.directory.checkpoints) == [45, 55]
        replica.play(56, size=1)
        await machine.clock.sleep(30)
        assert snapshots.newest == 55
        await machine.clock.sleep(60)
        assert snapshots.newest == 56


async def test_what_a_snapshot_announces_survives_a_crash(autojump_clock: MockClock) -> None:
    """The store may fall back to it, and never behind it: the log is trimmed to there."""
    async with world() as made:
        machine = made.machine(1)
        replica, snapshots = await machine.replica(20, SETTINGS)
        await snapshots.take(replica)
        replica.play(30)
        for _ in range(5):
            machine = machine.crash()
            store = await machine.directory.open()
            assert len(content(store)) >= 21
            assert (await Snapshotter.open(machine.directory.checkpoints, machine.clock)).newest == 20
        assert await (await Snapshotter.open(machine.directory.checkpoints, machine.clock)).take(replica) == 30


async def test_a_meter_tells_how_long_a_snapshot_took_and_its_size(autojump_clock: MockClock) -> None:
    """The size is what a peer would fetch. The meter goes on when the replica begins anew, on another store."""
    async with world() as made:
        machine = made.machine(1)
        machine.disk.faults = attrs.evolve(machine.disk.faults, write_seconds=(1.0, 2.0))
        replica, _ = await machine.replica(20)
        meter, began = SnapshotMetrics(), machine.clock.monotonic()
        for cursor in (20, 30):
            replica.play(cursor)
            snapshots = await Snapshotter.open(machine.directory.checkpoints, machine.clock, SETTINGS, meter)
            position = await snapshots.take(replica)
        taken = meter.snapshot_seconds.distribution()
        assert taken.count == 2 and taken.total == pytest.approx(machine.clock.monotonic() - began)
        files = await machine.directory.checkpoints.files(name_of(position))
        assert meter.newest_bytes == sum(file.size for file in files) > 30 * 100


async def test_one_at_a_time_and_none_without_progress(autojump_clock: MockClock) -> None:
    """A concurrent caller waits, and finds that the newest has everything."""
    async with world() as made:
        machine = made.machine(1)
        machine.disk.faults = attrs.evolve(machine.disk.faults, write_seconds=(1.0, 2.0))
        replica, snapshots = await machine.replica(20, SETTINGS)
        for _ in range(3):
            made.nursery.start_soon(snapshots.take, replica)
        assert await snapshots.take(replica) == 20
        assert await snapshots.take(replica) == 20
        assert replica.told == [20]


async def test_a_full_disk_makes_snapshots_wait(autojump_clock: MockClock) -> None:
    """The replica goes on; once there is room a snapshot is taken."""
    async with world() as made:
        machine = made.machine(1)
        replica, snapshots = await machine.replica(20, SETTINGS)
        machine.disk.faults.free_bytes = -1  # not even a name
        made.nursery.start_soon(snapshots.run, replica)
        await machine.clock.sleep(60)
        assert snapshots.newest == 0
        machine.disk.faults.free_bytes = None
        await machine.clock.sleep(60)
        assert snapshots.newest == 20


async def test_a_failing_disk_ends_it(autojump_clock: MockClock) -> None:
    """The owner of the replica stops it: it is unknown what is durable."""
    async with world() as made:
        machine = made.machine(1)
        replica, snapshots = await machine.replica(20, SETTINGS)
        machine.disk.faults.sync_error = 1.0
        with pytest.raises(StorageError):
            await snapshots.run(replica)
        assert replica.told == [0]


async def test_a_snapshot_that_is_being_read_stays(autojump_clock: MockClock) -> None:
    """For as long as the peer reads on, and somewhat longer."""
    async with world() as made:
        machine = made.machine(1)
        replica, snapshots = await machine.replica(10, SETTINGS)
        await snapshots.take(replica)
        for cursor in range(20, 80, 10):
            snapshots.reading(LogPosition(10))
            await machine.clock.sleep(20)
            replica.play(cursor)
            await snapshots.take(replica)
        assert await positions(machine.directory.checkpoints) == [10, 60, 70]
        await machine.clock.sleep(40)
        replica.play(80)
        await snapshots.take(replica)
        assert await positions(machine.directory.checkpoints) == [70, 80]
