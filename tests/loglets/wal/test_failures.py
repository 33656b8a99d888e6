"""Disks that fail and disks that fill up: poisoned for good, or read-only for a while."""

from __future__ import annotations

from random import Random

import attrs
import pytest
import trio
import trio.testing

from tests.loglets.wal.recorded_log import DATA, SMALL, User, opened, put, put_data, running, until
from tests.loglets.wal.test_index import Keeper
from tests.virtuallog.runtime.test_disk_simulated import CLOCK
from virtuallog.contract.errors import DiskFullError, StorageError
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog_loglets.wal import WalRecord, WriteAheadLog


def payloads(count: int) -> list[bytes]:
    return [str(number).encode().rjust(700, b".") for number in range(count)]


async def run_until_poisoned(user: User) -> None:
    with pytest.raises(StorageError):
        await user.wal.run(user.snapshot)


@pytest.mark.parametrize("fault", ["write_error", "sync_error"])
async def test_a_failed_write_or_sync_poisons_the_log(fault: str) -> None:
    """The group fails, so does what was queued behind it, so does all that comes later; `run` ends with the error.

    The simulated disk raises an assertion should the file be written once more.
    """
    disk = Disk(Random(1))
    user = await opened(disk.mount())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_poisoned, user)
        await put_data(user, b"good")
        setattr(disk.faults, fault, 1.0)
        user.append(b"bad")
        await trio.lowlevel.checkpoint()
        user.append(b"queued behind")
    user.append(b"later", essential=True)

    assert [payload for payload, _ in user.called_back] == [b"good", b"bad", b"queued behind", b"later"]
    assert [type(error) for error in user.refused] == [StorageError] * 3
    assert user.wal.statistics().poisoned
    assert user.data == []
    assert sum(disk.fired.values()) == 1


async def test_what_was_acknowledged_before_the_poison_can_be_read() -> None:
    """Records acknowledged before the failure can be read, and are there when the log is opened again."""
    disk = Disk(Random(1))
    user = await opened(disk.mount())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_poisoned, user)
        (address,) = await put_data(user, b"good")
        disk.faults.sync_error = 1.0
        user.append(b"bad")
    assert (await user.wal.read(address)).payload == b"good"

    disk.crash()
    disk.faults.sync_error = 0.0
    assert (await opened(disk.mount())).data in ([b"good"], [b"good", b"bad"])


async def test_bytes_behind_a_failed_sync_are_made_durable_or_not_replayed() -> None:
    """The process dies of a failed sync; the next one reads the bytes from the cache. If it counts them, they stay."""
    replayed = 0
    for seed in range(20):
        disk = Disk(Random(seed))
        user = await opened(disk.mount())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_until_poisoned, user)
            await put_data(user, b"good")
            disk.faults.sync_error = 1.0
            user.append(b"bad")
        disk.kill()
        disk.faults.sync_error = 0.0
        seen = (await opened(disk.mount())).data
        replayed += b"bad" in seen
        disk.crash()
        assert (await opened(disk.mount())).data == seen

    assert replayed == 20


async def test_a_segment_that_cannot_be_made_does_not_hang_the_log() -> None:
    """FailedLogPreAllocation: an error of the disk reaches every append, waiting or new."""
    disk = Disk(Random(1))
    user = await opened(disk.mount())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_poisoned, user)
        await put_data(user, b"good")
        await until(lambda: len(disk.files) == 2)
        disk.faults.create_error = 1.0
        for payload in payloads(40):
            user.append(payload)
    assert user.acknowledged[:1] == [b"good"]
    assert len(user.called_back) == 41
    assert isinstance(user.refused[-1], StorageError)


async def test_a_failing_removal_poisons_the_log() -> None:
    """A disk that fails in the background is no better than one that fails under a write."""
    disk = Disk(Random(1))
    user = await opened(disk.mount())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_poisoned, user)
        addresses = await put_data(user, *payloads(40))
        disk.mounted = None  # every further use of the storage raises
        user.wal.drop_before(addresses[-1])
    user.append(b"later")

    assert isinstance(user.refused[-1], StorageError)


async def fill(user: User) -> None:
    """Append until the disk is full."""
    while not user.refused:
        count = len(user.called_back)
        user.append(bytes(700))
        await until(lambda count=count: len(user.called_back) > count)  # type: ignore[misc]


async def put_for_ever(wal: WriteAheadLog) -> None:
    while True:
        await put(wal, WalRecord(DATA, bytes(700)))


def three_segments() -> Disk:
    return Disk(Random(1), DiskFaults(capacity_bytes=3 * SMALL.segment_bytes))


async def test_a_full_disk_refuses_ordinary_records_and_takes_essential_ones() -> None:
    """DiskSpaceCheck: read-only but for seals and trims, for which there is room; reads work; nothing hangs."""
    disk = three_segments()
    async with running(disk.mount()) as user:
        await fill(user)
        assert isinstance(user.refused[0], DiskFullError)
        assert user.wal.statistics().full
        assert not user.wal.statistics().poisoned
        essential = [b"seal %d" % number for number in range(10)]
        addresses = await put_data(user, *essential, essential=True)
        assert [(await user.wal.read(address)).payload for address in addresses] == essential
        known = user.known
    assert disk.fired["disk full"] > 0

    disk.crash()
    assert (await opened(disk.mount())).known == known


async def test_an_index_for_which_there_is_no_room_does_not_end_the_log() -> None:
    """Indexes save time only; the disk is full of segments, and the log serves on."""
    disk, keeper = three_segments(), Keeper()
    wal = await WriteAheadLog.open(disk.mount(), SMALL, keeper.replay, indexes=keeper)
    async with trio.open_nursery() as nursery:
        await nursery.start(wal.run, list)
        with pytest.raises(DiskFullError):
            await put_for_ever(wal)
        await trio.testing.wait_all_tasks_blocked()
        (address,) = await put(wal, WalRecord(DATA, b"seal"), essential=True)
        assert (await wal.read(address)).payload == b"seal"
        nursery.cancel_scope.cancel()


async def test_essential_records_are_refused_when_the_headroom_is_used_up() -> None:
    """Even then nothing hangs and nothing is poisoned."""
    async with running(three_segments().mount()) as user:
        await fill(user)
        with pytest.raises(DiskFullError):
            await put_data(user, *[bytes(700)] * 10, essential=True)
        assert not user.wal.statistics().poisoned


async def test_a_full_disk_recovers_when_the_log_is_trimmed() -> None:
    """Dropping a segment makes room for the next spare; ordinary records are welcome again."""
    async with running(three_segments().mount()) as user:
        await fill(user)
        (address,) = await put_data(user, b"trim", essential=True)
        user.wal.drop_before(address)
        await until(lambda: not user.wal.statistics().full)
        await put_data(user, *payloads(8))

        assert user.acknowledged[-9:] == [b"trim", *payloads(8)]


async def test_a_full_disk_recovers_when_somebody_else_makes_room() -> None:
    """The retries of the callers are what looks for room again."""
    disk = three_segments()
    async with running(disk.mount()) as user:
        await fill(user)
        disk.faults.capacity_bytes = None
        with pytest.raises(DiskFullError):
            await put_data(user, bytes(700))
        await until(lambda: not user.wal.statistics().full)
        await put_data(user, *payloads(8))

        assert user.acknowledged[-8:] == payloads(8)


async def test_a_full_disk_at_the_very_start() -> None:
    """No room for a first segment: the log opens, refuses, and begins once there is room."""
    disk = Disk(Random(1), DiskFaults(capacity_bytes=100))
    async with running(disk.mount()) as user:
        with pytest.raises(DiskFullError):
            await put_data(user, b"x", essential=True)
        disk.faults.capacity_bytes = None
        user.append(b"y")
        await until(lambda: not user.wal.statistics().full)
        await put_data(user, b"z")

    disk.crash()
    assert (await opened(disk.mount())).data in ([b"z"], [b"y", b"z"])


async def test_a_reopened_full_disk_is_still_full_and_still_has_its_headroom() -> None:
    """The reserve is not given away by a restart."""
    disk = three_segments()
    async with running(disk.mount()) as user:
        await fill(user)
    disk.crash()
    async with running(disk.mount()) as user:
        await fill(user)
        await put_data(user, b"seal", essential=True)

        assert isinstance(user.refused[0], DiskFullError)
        assert user.acknowledged[-1] == b"seal"


async def test_an_append_that_waits_for_a_spare_is_told_when_there_is_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It was queued while the spare was being made; then the disk turned out to be full. Others behind it go on."""
    faults = DiskFaults(capacity_bytes=2 * SMALL.segment_bytes, change_seconds=(1.0, 1.0))
    async with running(Disk(Random(1), faults, CLOCK).mount(), attrs.evolve(SMALL, headroom_bytes=2048)) as user:
        await put_data(user, b"first")
        await CLOCK.sleep(5.0)
        for payload in payloads(22):
            user.append(payload)
        user.append(b"essential", essential=True)
        await CLOCK.sleep(5.0)

        assert len(user.called_back) == 24
        assert {type(error) for error in user.refused} == {DiskFullError}
        assert user.acknowledged[-1] == b"essential"


async def test_appends_of_a_stream_behind_one_that_is_refused_are_refused_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They rest on it: a smaller one, or an essential one, for which there is room, would leave a hole."""
    faults = DiskFaults(capacity_bytes=2 * SMALL.segment_bytes, change_seconds=(1.0, 1.0))
    async with running(Disk(Random(1), faults, CLOCK).mount(), attrs.evolve(SMALL, headroom_bytes=2048)) as user:
        await put_data(user, b"first")
        await CLOCK.sleep(5.0)
        stream = object()
        for payload in payloads(22):
            user.append(payload, stream=stream)
        user.append(b"small", stream=stream)
        user.append(b"essential", essential=True, stream=stream)
        user.append(b"other", essential=True, stream=object())
        await CLOCK.sleep(5.0)

        outcomes = dict(user.called_back)
        assert len(user.called_back) == 26
        assert {type(error) for error in user.refused} == {DiskFullError}
        assert isinstance(outcomes[b"small"], DiskFullError)
        assert isinstance(outcomes[b"essential"], DiskFullError)
        assert user.acknowledged[-1] == b"other"
