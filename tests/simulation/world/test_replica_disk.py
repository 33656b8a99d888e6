"""The disk of a simulated replica: what a crash takes, what checkpoints hold, and what rot is met."""

from __future__ import annotations

import random

import pytest
from trio.testing import MockClock

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk


@pytest.fixture
def disk() -> StoreDisk:
    return StoreDisk(random=random.Random(1))


@pytest.fixture
def directory(disk: StoreDisk, autojump_clock: MockClock) -> SimulatedDirectory:
    process = Process(NodeId(1))
    return SimulatedDirectory.of(disk, process, SimulatedClock(process))


def at(cursor: int) -> dict[bytes, bytes | None]:
    """A write that moves the cursor, and says so elsewhere."""
    return {CURSOR: cursor.to_bytes(8, "big"), b"effect": b"%d" % cursor}


async def test_a_crash_takes_the_store_back_to_some_moment(disk: StoreDisk, directory: SimulatedDirectory) -> None:
    """Between the last flush and now; cursor and effects stay together, and the digest is that of what is left."""
    seen = set()
    for _ in range(20):
        disk.wipe()
        store = await directory.open()
        store.write(at(1))
        await store.flush()
        assert disk.durable_cursor == 1
        for cursor in (2, 3, 4):
            store.write(at(cursor))
        disk.crash()
        cursor = disk.durable_cursor
        assert disk.content.get(b"effect") == b"%d" % cursor
        other = StoreDisk()
        other.write(at(cursor), ())
        assert disk.digest == other.digest
        seen.add(cursor)

    assert seen == {1, 2, 3, 4}


async def test_a_checkpoint_becomes_the_store_of_somebody_else(disk: StoreDisk, directory: SimulatedDirectory) -> None:
    """Files in staging, put together in any order, are the map that was."""
    store = await directory.open()
    for number in range(10):
        store.write({b"key %d" % number: b"value", **at(number)})
    await directory.checkpoints.take("one")
    other = StoreDisk()
    process = Process(NodeId(2))
    target = SimulatedDirectory.of(other, process, SimulatedClock(process))
    for file in reversed(await directory.checkpoints.files("one")):
        content = await directory.checkpoints.read("one", file.name, 0, file.size)
        await target.staging.write(file.name, 3, content[3:])
        await target.staging.write(file.name, 0, content[:3])
    await target.staging.install()

    assert other.content.pairs == disk.content.pairs
    assert other.digest == disk.digest
    assert disk.durable_cursor == 9


async def test_rot_is_met_and_never_served(disk: StoreDisk, directory: SimulatedDirectory) -> None:
    """A read of what has rotted fails, and so does installing it."""
    store = await directory.open()
    store.write(at(1))
    await directory.checkpoints.take("one")
    intact = dict(disk.checkpoints["one"])
    while not disk.rotten or disk.checkpoints["one"] == intact:
        assert disk.rot() is not None
    for name, content in disk.checkpoints["one"].items():
        await directory.staging.write(name, 0, content)

    with pytest.raises(CorruptionError):
        await directory.staging.install()
    with pytest.raises(CorruptionError):
        store.get(min(disk.rotten))


async def test_whoever_comes_later_hears_why_the_store_has_failed(
    disk: StoreDisk, directory: SimulatedDirectory
) -> None:
    """A failed store reports the reason to later callers, as RocksDB does. A reader may be the first to meet rot; the replica
    meets it next and must stop for that reason."""
    store = await directory.open()
    store.write(at(1))
    while not disk.rotten:
        disk.rot()
    with pytest.raises(CorruptionError, match="checksum"):
        store.get(min(disk.rotten))
    with pytest.raises(CorruptionError, match="checksum"):
        store.write(at(2))
