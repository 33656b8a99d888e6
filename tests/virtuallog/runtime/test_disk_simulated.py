"""The simulated disk loses, tears, fails, fills up and rots, always alike on the same seed."""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs
import pytest
import trio
import trio.testing

from virtuallog.contract.errors import DiskFullError, StorageError
from virtuallog.contract.ports import Clock
from virtuallog.testing.sim.disk import Disk, DiskFaults, SimulatedFile


@attrs.frozen
class TrioClock:
    """Simulated time: trio's own, under a `MockClock`."""

    def wall(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def timeout(self, seconds: float) -> trio.CancelScope:
        return trio.move_on_after(seconds)


CLOCK: Clock = TrioClock()


async def crash_during_write(seed: int) -> tuple[bytes, Disk]:
    """Return the result of a crash half-way through a write of 8 sectors of ones over zeros."""
    disk = Disk(Random(seed), DiskFaults(write_seconds=(1.0, 1.0)), CLOCK)
    file = await disk.mount().create("a", 4096)

    async def write() -> None:
        with pytest.raises(StorageError, match="ended"):
            await file.write_synced(0, [b"\x01" * 4096])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await CLOCK.sleep(0.5)
        disk.crash()
    return disk.peek("a"), disk


async def test_a_crash_loses_tears_or_keeps_what_was_not_synced(autojump_clock: trio.testing.MockClock) -> None:
    """A crash loses, tears or keeps unsynced sectors in any order; over some seeds every fate is
    met and counted."""
    fired = Disk(Random(0)).fired
    images = set()
    for seed in range(40):
        image, disk = await crash_during_write(seed)
        assert all(len(set(image[at : at + 512])) == 1 for at in range(0, 4096, 512))
        fired.update(disk.fired)
        images.add(image)

    assert {bytes(4096), b"\x01" * 4096} < images
    assert any(image.lstrip(b"\x01").rstrip(b"\0").strip(b"\x01") for image in images), "never out of order"
    assert min(fired[fate] for fate in ("unsynced lost", "unsynced torn", "unsynced kept")) > 0
    assert (await crash_during_write(7))[0] == (await crash_during_write(7))[0]


async def test_a_crash_ends_the_incarnation() -> None:
    """After a crash every use of an earlier port raises."""
    disk = Disk(Random(1))
    storage = disk.mount()
    file = await storage.create("a", 10)
    disk.crash()

    for use in (
        storage.names, lambda: storage.create("b", 1), lambda: storage.open("a"), lambda: storage.remove("a"),
        lambda: storage.rename("a", "b"), lambda: file.read(0, 1), lambda: file.write_synced(0, [b"x"]),
        lambda: file.truncate(0),
    ):  # fmt: skip
        with pytest.raises(StorageError, match="ended"):
            await use()
    assert await disk.mount().names() == ["a"]


async def test_synced_bytes_survive_any_crash() -> None:
    """Synced bytes survive any crash."""
    disk = Disk(Random(1))
    for number in range(20):
        storage = disk.mount()
        file = await storage.create(str(number), 0)
        await file.write_synced(0, [str(number).encode()])
        disk.crash()

    assert [disk.peek(str(number)) for number in range(20)] == [str(number).encode() for number in range(20)]


async def failing_write(disk: Disk) -> SimulatedFile:
    file = await disk.mount().create("a", 4096)
    with pytest.raises(StorageError):
        await file.write_synced(0, [b"\x01" * 4096])
    return file


async def test_a_failed_sync_is_not_made_good_by_a_later_one() -> None:
    """Bytes of a failed sync can be read until power is lost; a sync of other bytes does not save
    them."""
    lost = 0
    for seed in range(20):
        disk = Disk(Random(seed), DiskFaults(sync_error=1.0))
        file = await failing_write(disk)
        assert await file.read(0, 4096) == b"\x01" * 4096

        disk.kill()
        disk.faults.sync_error = 0.0
        again = await disk.mount().open("a")
        assert await again.read(0, 4096) == b"\x01" * 4096
        await again.write_synced(4096, [b"\x02"])
        disk.crash()
        assert disk.peek("a")[4096:] == b"\x02"
        assert disk.fired["sync error"] == 1
        lost += disk.peek("a")[:4096] == bytes(4096)

    assert lost > 0


async def test_what_a_failed_sync_left_never_comes_back_over_newer_bytes() -> None:
    """Bytes of a failed sync never come back over newer synced bytes, after any crash."""
    for seed in range(40):
        disk = Disk(Random(seed), DiskFaults(sync_error=1.0))
        file = await disk.mount().create("a", 1024)
        with pytest.raises(StorageError):
            await file.write_synced(0, [b"\x01" * 1024])
        disk.kill()
        disk.faults.sync_error = 0.0
        await (await disk.mount().open("a")).write_synced(100, [b"\x02" * 600])
        disk.crash()

        assert disk.peek("a")[100:700] == b"\x02" * 600


async def test_a_file_that_failed_must_not_be_written_again() -> None:
    """A write after a failed write is a bug of the caller, which the simulated disk shows loudly."""
    disk = Disk(Random(1), DiskFaults(write_error=1.0))
    file = await failing_write(disk)
    disk.faults.write_error = 0.0

    with pytest.raises(AssertionError, match="written again"):
        await file.write_synced(0, [b"x"])
    assert disk.fired["write error"] == 1


async def test_a_disk_has_a_size() -> None:
    """A file that does not fit, or that would grow too far, is refused; removing one makes room."""
    disk = Disk(Random(1), DiskFaults(capacity_bytes=1000))
    storage = disk.mount()
    file = await storage.create("a", 800)

    with pytest.raises(DiskFullError):
        await storage.create("b", 300)
    with pytest.raises(DiskFullError):
        await file.write_synced(900, [bytes(200)])
    assert (await storage.names(), file.size) == (["a"], 800)
    await storage.remove("a")
    await storage.create("b", 300)
    assert disk.fired["disk full"] == 2


async def test_reads_and_creates_can_fail() -> None:
    """Failed reads and creates are counted."""
    disk = Disk(Random(1))
    storage = disk.mount()
    file = await storage.create("a", 10)
    disk.faults = DiskFaults(read_error=1.0, create_error=1.0)

    with pytest.raises(StorageError):
        await file.read(0, 1)
    with pytest.raises(StorageError):
        await storage.create("b", 1)
    assert (disk.fired["read error"], disk.fired["create error"], await storage.names()) == (1, 1, ["a"])


async def test_a_slow_sync_takes_its_time_even_when_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """A write that has begun ends as it would have: the real adapter cannot call it back either."""
    disk = Disk(Random(1), DiskFaults(write_seconds=(2.0, 2.0)), CLOCK)
    file = await disk.mount().create("a", 1)
    with CLOCK.timeout(1.0):
        await file.write_synced(0, [b"x"])

    assert (CLOCK.monotonic() >= 2.0, disk.peek("a"), disk.fired["write stalled"]) == (True, b"x", 1)


async def test_changes_under_way_happen_or_not(autojump_clock: trio.testing.MockClock) -> None:
    """A crash in the middle of a create leaves no file, or one of any size, all zeros."""
    sizes: set[int | None] = set()
    for seed in range(40):
        disk = Disk(Random(seed), DiskFaults(change_seconds=(1.0, 1.0)), CLOCK)
        storage = disk.mount()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect_end, storage.create, "a", 1000)
            await CLOCK.sleep(0.5)
            disk.crash()
        names = await disk.mount().names()
        sizes.add(len(disk.peek("a")) if names else None)

    assert {None, 0, 1000} < sizes


async def _expect_end(operation: object, *arguments: object) -> None:
    with pytest.raises(StorageError, match="ended"):
        await operation(*arguments)  # type: ignore[operator]


async def test_rot_flips_one_bit_and_says_where() -> None:
    """Rot flips a bit of a byte that holds something; an empty or wiped disk has nothing to flip."""
    disk = Disk(Random(1))
    assert disk.rot() is None
    file = await disk.mount().create("a", 1000)
    await file.write_synced(0, [b"\xff" * 100])
    found = disk.rot()

    assert found is not None
    assert int.from_bytes(disk.peek("a"), "little").bit_count() == 799
    assert await file.read(found[1], 1) == disk.peek("a")[found[1] : found[1] + 1] != b"\xff"
    disk.wipe()
    assert await disk.mount().names() == []
    assert (disk.fired["bit flipped"], disk.fired["wiped"]) == (1, 1)


async def test_rot_can_be_noticed() -> None:
    """Rot spares the newest durable write of a file: in a log, its damage looks like a torn write."""
    disk = Disk(Random(1))
    file = await disk.mount().create("a", 1000)
    await file.write_synced(0, [b"\xff" * 100])
    await file.write_synced(100, [b"\xff" * 300])
    places = [disk.rot("a") for _ in range(200)]

    assert {at for _, at in filter(None, places)} <= set(range(100))
    assert disk.peek("a")[100:] == b"\xff" * 300 + bytes(600)


async def test_what_is_left_is_left_for_all_stores_of_a_machine() -> None:
    """Files and the small store of a machine share the free bytes; removing a file or a new disk
    gives them back."""
    faults = DiskFaults(free_bytes=1000)
    one, other = (Disk(Random(seed), faults).mount() for seed in (1, 2))
    await one.create("a", 800)
    with pytest.raises(DiskFullError):
        await other.create("b", 300)
    await one.remove("a")
    file = await other.create("b", 900)
    assert faults.free_bytes == 100

    await file.truncate(400)
    assert faults.free_bytes == 600
    faults.free_bytes = None
    await one.create("c", 1 << 20)
    assert (one.disk.fired["disk full"], other.disk.fired["disk full"]) == (0, 1)


async def test_a_disk_that_stands_still_is_counted_apart(autojump_clock: trio.testing.MockClock) -> None:
    """Stalled and slow writes are counted apart, a good disk's are not; counts may be those of the
    whole machine."""
    counts: Counter[str] = Counter()
    disk = Disk(Random(1), DiskFaults(), CLOCK, counts)
    file = await disk.mount().create("a", 1)
    for seconds, counted in ((0.0005, {}), (0.01, {"slow": 1}), (0.5, {"slow": 1, "write stalled": 1})):
        disk.faults.write_seconds = (seconds, seconds)
        await file.write_synced(0, [b"x"])
        assert counts == counted


def test_faults_know_whether_anything_may_fail() -> None:
    """Slowness does not count as failing."""
    assert not DiskFaults(write_seconds=(1.0, 2.0)).failing
    for faults in (DiskFaults(write_error=0.1), DiskFaults(create_error=0.1), DiskFaults(sync_error=0.1),
                   DiskFaults(read_error=0.1), DiskFaults(free_bytes=0), DiskFaults(capacity_bytes=1)):  # fmt: skip
        assert faults.failing
