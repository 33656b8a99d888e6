"""Segments come and go: rolling over, snapshots, dropping from the front, the spare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.loglets.wal.recorded_log import DATA, SMALL, STATE, opened, put, put_data, running, until
from tests.virtuallog.runtime.disk_beds import Bed
from tests.virtuallog.runtime.test_disk_simulated import CLOCK
from virtuallog.contract.errors import StorageError, TrimmedError
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog_loglets.wal import Address, WalRecord
from virtuallog_loglets.wal.core.record import address_of, sequence_of
from virtuallog_loglets.wal.core.segment_format import name_of


def payloads(count: int) -> list[bytes]:
    return [str(number).encode().rjust(700, b".") for number in range(count)]


async def test_roll_over(bed: Bed) -> None:
    """SegmentRollover: more than one segment holds; every record can be read where it was put, then and later."""
    async with running(bed.mount()) as user:
        addresses = await put_data(user, *payloads(50))
        assert user.wal.statistics().segments >= 5
        assert [(await user.wal.read(address)).payload for address in addresses] == payloads(50)

    again = await opened(bed.mount())
    assert again.data == payloads(50)
    assert [(await again.wal.read(address)).payload for address in addresses] == payloads(50)


async def test_each_segment_begins_with_a_snapshot(bed: Bed) -> None:
    """It is the first record of every segment, and it is the state after all records of those before."""
    async with running(bed.mount()) as user:
        for payload in payloads(50):
            await put_data(user, payload)
        segments = user.wal.statistics().segments
        assert user.snapshots == segments

    replayed = (await opened(bed.mount())).replayed
    first_of_segment = {}
    for address, record in reversed(replayed):
        first_of_segment[sequence_of(address)] = record
    assert len(first_of_segment) == segments
    assert all(record.kind == STATE for record in first_of_segment.values())
    # That each snapshot is the state at its place is checked by `opened`, whenever a log is replayed.


async def test_a_snapshot_sees_every_earlier_call_back(bed: Bed) -> None:
    """Also with many appends in the queue: none that comes behind the snapshot is in it, all before it are."""
    async with running(bed.mount()) as user:
        await put_data(user, *payloads(60))
        assert user.snapshots > 5

    assert (await opened(bed.mount())).known == 60


async def test_dropping_frees_files(bed: Bed) -> None:
    """GCWithLogRunning: files below go, reads below say where the log starts now, the rest is untouched."""
    async with running(bed.mount()) as user:
        addresses = await put_data(user, *payloads(50))
        keep = addresses[30]
        user.wal.drop_before(keep)
        with pytest.raises(TrimmedError) as caught:
            await user.wal.read(addresses[0])
        assert sequence_of(Address(caught.value.first)) == sequence_of(keep)
        await until(lambda: bed.names()[0] == name_of(sequence_of(keep)))
        kept = [address for address in addresses if sequence_of(address) >= sequence_of(keep)]
        assert len(kept) < 50
        assert [await user.wal.read(address) for address in kept] == [
            WalRecord(DATA, p) for p in payloads(50)[-len(kept) :]
        ]
        await put_data(user, b"after")

    again = await opened(bed.mount())
    assert again.data == [*payloads(50)[-len(kept) :], b"after"]
    assert again.known == 51
    assert again.wal.statistics().segments == user.wal.statistics().segments


async def test_the_active_segment_is_never_dropped(bed: Bed) -> None:
    """For any given address, a log that is reopened knows its state."""
    async with running(bed.mount()) as user:
        user.wal.drop_before(address_of(100, 0))
        await put_data(user, *payloads(30))
        user.wal.drop_before(address_of(1 << 30, 0))
        assert user.wal.statistics().segments == 1
        await put_data(user, b"after")
        user.wal.drop_before(address_of(0, 0))

    assert (await opened(bed.mount())).known == 31


async def test_a_segment_that_was_not_yet_durable_does_not_let_its_predecessor_go(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Dropping while the first group of a new segment is on its way, then a crash: the state is still there."""
    disk = Disk(Random(5), DiskFaults(write_seconds=(1.0, 1.0), change_seconds=(0.01, 0.01)), CLOCK)
    user = await opened(disk.mount())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_until_crash, user.wal.run, user.snapshot)
        for payload in payloads(20):
            user.append(payload)
            while user.wal.statistics().queued_bytes:
                user.wal.drop_before(address_of(1 << 30, 0))
                await CLOCK.sleep(0.1)
            if user.snapshots == 2:
                break
        assert user.snapshots == 2
        user.wal.drop_before(address_of(1 << 30, 0))
        await CLOCK.sleep(0.3)
        disk.crash()
    assert min(disk.files) == "wal-0000000001"

    assert (await opened(disk.mount())).known >= len(user.acknowledged) > 0


async def _run_until_crash(run: Callable[[Any], Awaitable[None]], snapshot: object) -> None:
    with pytest.raises(StorageError, match="ended"):
        await run(snapshot)


async def test_dropping_goes_on_after_a_reopening(bed: Bed) -> None:
    """LogReopenAndGC: addresses of an earlier boot are as good."""
    async with running(bed.mount()) as user:
        addresses = await put_data(user, *payloads(40))
    async with running(bed.mount()) as user:
        user.wal.drop_before(addresses[25])
        await until(lambda: bed.names()[0] == name_of(sequence_of(addresses[25])))
        assert await user.wal.read(addresses[25]) == WalRecord(DATA, payloads(40)[25])

    assert (await opened(bed.mount())).data[-1] == payloads(40)[-1]


async def test_readers_while_segments_are_dropped(bed: Bed) -> None:
    """Every read gets its record or `TrimmedError`; more closed segments than files that may be open are read."""
    async with running(bed.mount()) as user:
        addresses = await put_data(user, *payloads(60))
        outcomes: list[bytes | None] = []

        async def read(index: int) -> None:
            try:
                outcomes.append((await user.wal.read(addresses[index])).payload)
            except TrimmedError:
                outcomes.append(None)
            else:
                assert outcomes[-1] == payloads(60)[index]

        async with trio.open_nursery() as nursery:
            for index in range(0, 60, 2):
                nursery.start_soon(read, index)
            await trio.lowlevel.checkpoint()
            user.wal.drop_before(addresses[40])
            for index in range(1, 60, 2):
                nursery.start_soon(read, index)

    assert len(outcomes) == 60
    assert None in outcomes


async def test_the_next_segment_is_made_ahead(autojump_clock: trio.testing.MockClock) -> None:
    """A slow disk makes the spare while records go on into the present segment; rolling does not wait for it."""
    disk = Disk(Random(1), DiskFaults(write_seconds=(0.01, 0.01), change_seconds=(1.0, 1.0)), CLOCK)
    async with running(disk.mount()) as user:
        await put_data(user, b"first")
        began = CLOCK.monotonic()
        for payload in payloads(6):
            await put_data(user, payload)
        assert CLOCK.monotonic() - began < 0.1
        await CLOCK.sleep(2.0)
        began = CLOCK.monotonic()
        for payload in payloads(6):
            await put_data(user, payload)
        assert CLOCK.monotonic() - began < 0.1
        assert user.wal.statistics().segments == 2


async def test_a_snapshot_too_large_stops_the_log() -> None:
    """It could never be written: told by name, and before anything is lost."""
    user = await opened(Disk(Random(1)).mount(), attrs.evolve(SMALL, record_bytes_max=100))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expect_stop, user.wal.run, lambda: [WalRecord(STATE, bytes(SMALL.segment_bytes // 4))])
        with pytest.raises(StorageError, match="enlarge segment_bytes"):
            await put(user.wal, WalRecord(DATA, b"x"))


async def _expect_stop(run: Callable[[Any], Awaitable[None]], snapshot: object) -> None:
    with pytest.raises(StorageError, match="snapshot"):
        await run(snapshot)
