"""Appending: order, group commit, call-backs, refusals. After log-test and mt-log-test of Kudu and YugabyteDB."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing

from tests.loglets.wal.recorded_log import DATA, SMALL, opened, put, put_data, running, until
from tests.virtuallog.runtime.disk_beds import Bed
from tests.virtuallog.runtime.test_disk_simulated import CLOCK
from virtuallog.contract.errors import (
    BeyondTailError,
    InvalidSettingError,
    OverloadedError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog_loglets.wal import WalRecord, WalSettings, WriteAheadLog
from virtuallog_loglets.wal.core.segment_format import RECORD_HEADER_BYTES


def numbered(start: int, stop: int, size: int = 20) -> list[bytes]:
    return [str(number).encode().rjust(size, b".") for number in range(start, stop)]


async def test_several_entries_in_a_batch(bed: Bed) -> None:
    """MultipleEntriesInABatch: each record of an append gets its own address, and all come back in order."""
    async with running(bed.mount()) as user:
        addresses = await put(user.wal, *(WalRecord(kind, bytes([kind]) * kind) for kind in (0, 7, 255)))
        assert [await user.wal.read(address) for address in addresses] == [
            WalRecord(0, b""), WalRecord(7, b"\7" * 7), WalRecord(255, b"\xff" * 255),
        ]  # fmt: skip

    replayed = (await opened(bed.mount())).replayed
    assert [(a, r) for a, r in replayed if r.kind in {0, 7, 255}] == list(
        zip(addresses, [WalRecord(0, b""), WalRecord(7, b"\7" * 7), WalRecord(255, b"\xff" * 255)], strict=True)
    )


async def test_a_payload_may_come_in_chunks(bed: Bed) -> None:
    """They are written one after the other and come back as one payload."""
    async with running(bed.mount()) as user:
        (address,) = await put(user.wal, WalRecord(DATA, b"prefix", (b"", b"middle", b"end")))

        assert await user.wal.read(address) == WalRecord(DATA, b"prefixmiddleend")


async def test_a_record_longer_than_one_read(bed: Bed) -> None:
    """Its address is enough, for any length; also in the middle of the file."""
    settings = WalSettings(segment_bytes=1 << 20, record_bytes_max=1 << 17, group_bytes_max=1 << 18, headroom_bytes=0)
    async with running(bed.mount(), settings) as user:
        payloads = [bytes([number]) * (number * 10_000) for number in range(12)]
        addresses = await put_data(user, *payloads)

        assert [(await user.wal.read(address)).payload for address in addresses] == payloads


async def test_called_back_in_order_and_only_after_the_sync(autojump_clock: trio.testing.MockClock) -> None:
    """WaitUntilAllFlushed: nothing is called back while the disk works; then everything, as it was queued."""
    disk = Disk(Random(1), DiskFaults(write_seconds=(1.0, 1.0)), CLOCK)
    async with running(disk.mount()) as user:
        user.append(b"one", b"two")
        await CLOCK.sleep(0.5)
        user.append(b"three")
        user.append(b"four")
        await CLOCK.sleep(0.4)
        assert user.called_back == []
        await CLOCK.sleep(0.2)
        assert user.acknowledged == [b"one", b"two"]
        assert b"three" not in disk.peek("wal-0000000001")
        await CLOCK.sleep(1.0)
        assert user.acknowledged == [b"one", b"two", b"three", b"four"]
        assert b"four" in disk.peek("wal-0000000001")


async def test_the_age_of_a_write_is_told_while_the_disk_is_stuck(autojump_clock: trio.testing.MockClock) -> None:
    """A histogram has nothing of a sync that does not end."""
    disk = Disk(Random(1), DiskFaults(write_seconds=(100.0, 100.0)), CLOCK)
    wal = await WriteAheadLog.open(disk.mount(), SMALL, lambda *_: None, CLOCK.monotonic)
    async with trio.open_nursery() as nursery:
        await nursery.start(wal.run, list)
        assert wal.statistics().writing_seconds == 0
        nursery.start_soon(put, wal, WalRecord(DATA, b"one"))
        await CLOCK.sleep(40)
        assert wal.statistics().writing_seconds == pytest.approx(40)
        await CLOCK.sleep(70)
        assert wal.statistics().writing_seconds == 0
        nursery.cancel_scope.cancel()


async def test_one_sync_for_all_that_is_queued(bed: Bed) -> None:
    """Group commit: a hundred appends of one scheduler turn cost one write and one sync."""
    async with running(bed.mount()) as user:
        await put_data(user, b"first")
        before = user.wal.statistics()
        await put_data(user, *numbered(0, 50))
        after = user.wal.statistics()

    assert (after.syncs - before.syncs, after.groups - before.groups, after.records - before.records) == (1, 1, 50)
    assert after.queued_bytes == 0


async def test_a_group_is_bounded(bed: Bed) -> None:
    """More than `group_bytes_max` takes several groups; no record is lost between them."""
    async with running(bed.mount()) as user:
        payloads = numbered(0, 12, size=1000)
        await put_data(user, *payloads)
        assert user.wal.statistics().groups >= 4

    assert (await opened(bed.mount())).data == payloads


async def test_concurrent_appenders_keep_their_order(bed: Bed) -> None:
    """mt-log-test Appends: all callers' records are there, in the order in which they were offered."""
    offered: list[bytes] = []
    async with running(bed.mount()) as user:

        async def appender(name: str) -> None:
            for number in range(50):
                for part in "ab":
                    offered.append(f"{name} {number} {part}".encode())
                    user.append(offered[-1])
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for name in ("one", "two", "three", "four"):
                nursery.start_soon(appender, name)
        await until(lambda: len(user.called_back) == len(offered))
        assert user.acknowledged == offered

    assert (await opened(bed.mount())).data == offered


async def test_ten_thousand_batches(bed: Bed) -> None:
    """WriteManyBatches: all of them come back, over many segments."""
    settings = WalSettings(
        segment_bytes=1 << 18, record_bytes_max=4096, group_bytes_max=1 << 16, headroom_bytes=1 << 16
    )
    payloads = numbered(0, 10_000, size=100)
    async with running(bed.mount(), settings) as user:
        await put_data(user, *payloads)
        assert user.wal.statistics().segments > 4

    assert (await opened(bed.mount(), settings)).data == payloads


async def test_reading_while_the_segment_is_written(bed: Bed) -> None:
    """WriteAndReadToAndFromInProgressSegment: what has been called back can be read, what lies beyond cannot."""
    async with running(bed.mount()) as user:
        for payload in numbered(0, 30):
            (address,) = await put_data(user, payload)
            assert await user.wal.read(address) == WalRecord(DATA, payload)
        for beyond in (address + 44, address + (1 << 32), address + (1 << 40)):
            with pytest.raises(BeyondTailError):
                await user.wal.read(type(address)(beyond))


async def test_too_large_is_refused_and_nothing_else_is_hurt(bed: Bed) -> None:
    """A record over the limit, an append over the limit: told at once; the next one is written."""
    async with running(bed.mount()) as user:
        user.append(bytes(SMALL.record_bytes_max + 1))
        user.append(*[bytes(1000)] * 5)
        assert [type(error) for error in user.refused] == [TooLargeError] * 6
        await put_data(user, bytes(SMALL.record_bytes_max))

    assert (await opened(bed.mount())).data == [bytes(SMALL.record_bytes_max)]


async def test_a_full_queue_refuses(bed: Bed) -> None:
    """Over `queue_bytes_max` nothing is queued; what was is written once the appender runs."""
    user = await opened(bed.mount())
    for _ in range(100):
        user.append(bytes(1000))
    accepted = 100 - len(user.called_back)
    assert 0 < accepted <= 64
    assert all(isinstance(error, OverloadedError) for error in user.refused)
    assert user.wal.statistics().queued_bytes == accepted * (RECORD_HEADER_BYTES + 1000)

    async with trio.open_nursery() as nursery:
        await nursery.start(user.wal.run, user.snapshot)
        await until(lambda: len(user.acknowledged) == accepted)
        nursery.cancel_scope.cancel()


async def test_nothing_is_called_back_after_the_end(bed: Bed) -> None:
    """A cancelled appender leaves the queue alone; a later append gets the error that the log has stopped."""
    async with running(bed.mount()) as user:
        await put_data(user, b"before")
        user.append(b"too late")
    assert user.acknowledged in ([b"before"], [b"before", b"too late"])
    count = len(user.called_back)
    user.append(b"after")

    assert [type(outcome) for _, outcome in user.called_back[count:]] == [UnavailableError]


async def test_the_end_waits_for_the_group_being_written(autojump_clock: trio.testing.MockClock) -> None:
    """The files may be opened anew in the same process: a write that is under way has ended by then, told to no caller."""
    disk = Disk(Random(1), DiskFaults(write_seconds=(1.0, 1.0)), CLOCK)
    async with running(disk.mount()) as user:
        await put_data(user, b"before")
        user.append(b"under way")
        await CLOCK.sleep(0.1)
        ended_at = CLOCK.monotonic()

    assert CLOCK.monotonic() - ended_at == pytest.approx(0.9)
    assert b"under way" in disk.peek("wal-0000000001")
    assert user.acknowledged == [b"before"]


async def test_an_append_wakes_the_appender_without_a_detour(bed: Bed) -> None:
    """An appender that waits does not spin: without appends the log does nothing at all."""
    async with running(bed.mount()) as user:
        await put_data(user, b"one")
        before = user.wal.statistics()
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        assert user.wal.statistics().syncs == before.syncs
        await put_data(user, b"two")
        assert user.wal.statistics().syncs == before.syncs + 1


async def test_appends_from_a_call_back(bed: Bed) -> None:
    """A call back may append: that goes into a later group."""
    async with running(bed.mount()) as user:
        chain: list[int] = []

        def done(outcome: object) -> None:
            assert not isinstance(outcome, VirtualLogError)
            chain.append(len(chain))
            if len(chain) < 20:
                user.wal.append([WalRecord(DATA, b"next")], done)

        user.wal.append([WalRecord(DATA, b"first")], done)
        await until(lambda: len(chain) == 20)
        assert user.wal.statistics().groups == 20


async def test_settings_that_cannot_work_are_refused() -> None:
    """Each bad combination is named when the settings are made."""
    for bad in (
        {"segment_bytes": 1 << 32}, {"record_bytes_max": 0}, {"record_bytes_max": 20 << 20},
        {"segment_bytes": 16 << 20}, {"queue_bytes_max": 1}, {"headroom_bytes": -1}, {"files_open_max": 0},
    ):  # fmt: skip
        with pytest.raises(InvalidSettingError):
            WalSettings(**bad)  # type: ignore[arg-type]  # a flag is among the settings, which none of these names


@pytest.mark.parametrize("kind", [-1, 256])
def test_a_kind_that_takes_more_than_a_byte(kind: int) -> None:
    """Refused where the record is made: the appender, which serves all callers, never sees it."""
    with pytest.raises(ValueError, match="kinds are 0 to 255"):
        WalRecord(kind, b"")
    assert [WalRecord(kind, b"").kind for kind in (0, 255)] == [0, 255]
