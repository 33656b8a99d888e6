"""The DurableMap port: promises of RocksDB and of the simulated disk, common ones and those of one
only."""

from __future__ import annotations

import random
import resource
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from virtuallog.contract.errors import CorruptionError, StorageError, VirtualLogError
from virtuallog.contract.ports import DurableMap
from virtuallog.contract.types import NodeId
from virtuallog.runtime.rocks_map import RocksMap, RocksMapSettings, open_rocks_map
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.disk import DiskFaults
from virtuallog.testing.sim.key_values import SimulatedKeyValues, SimulatedKeyValuesDisk
from virtuallog.testing.sim.process import CrashedError, Process

NODE = NodeId(1)

Opener = Callable[[], AbstractAsyncContextManager[DurableMap]]
"""Opens the same store again and again."""


@pytest.fixture(params=["rocksdb", "simulated"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "rocksdb":
        return lambda: open_rocks_map(tmp_path / "store")
    disk = SimulatedKeyValuesDisk(random.Random(1))

    @asynccontextmanager
    async def simulated() -> AsyncIterator[DurableMap]:
        yield disk.open(Process(NODE), SimulatedClock(Process(NODE)))

    return simulated


async def test_pairs_survive(opener: Opener) -> None:
    """Pairs are there after the store was closed and opened again, byte for byte."""
    async with opener() as store:
        await store.write({b"a": b"1", b"empty": b"", b"\x00\xff": bytes(range(256))})
    async with opener() as store:
        assert await store.get(b"a") == b"1"
        assert await store.get(b"empty") == b""
        assert await store.get(b"\x00\xff") == bytes(range(256))
        assert await store.get(b"absent") is None


async def test_none_deletes(opener: Opener) -> None:
    """One write puts and deletes; deleting a missing key is no error."""
    async with opener() as store:
        await store.write({b"a": b"1", b"b": b"2"})
        await store.write({b"a": None, b"absent": None, b"b": b"3"})

        assert await store.scan(b"") == [(b"b", b"3")]


async def test_scan_is_a_sorted_range(opener: Opener) -> None:
    """All keys with the prefix in the order of their bytes, and no other; an empty prefix means all."""
    async with opener() as store:
        keys = [b"b", b"b\xff", b"b\x00", b"a", b"c", b"bb", b"\xff\xff"]
        await store.write({key: key[::-1] for key in keys})

        assert [key for key, _ in await store.scan(b"b")] == [b"b", b"b\x00", b"bb", b"b\xff"]
        assert await store.scan(b"\xff") == [(b"\xff\xff", b"\xff\xff")]
        assert [key for key, _ in await store.scan(b"")] == sorted(keys)
        assert await store.scan(b"d") == []


async def test_a_span_is_read_in_pieces(opener: Opener) -> None:
    """A span ends before its second key; a read of it returns at least one pair, then as many as fit."""
    async with opener() as store:
        await store.write({bytes([key]): bytes(100) for key in range(10)})

        assert [key for key, _ in await store.scan_span((b"\x02", b"\x05"), 1 << 20)] == [b"\x02", b"\x03", b"\x04"]
        assert [key for key, _ in await store.scan_span((b"\x02", b"\xff"), 1)] == [b"\x02"]
        assert [key for key, _ in await store.scan_span((b"\x02", b"\xff"), 250)] == [b"\x02", b"\x03"]
        assert await store.scan_span((b"\x0a", b"\xff"), 250) == []
        assert await store.scan_span((b"\x05", b"\x05"), 250) == []


async def test_spans_are_dropped_before_pairs_are_put(opener: Opener) -> None:
    """One write drops the spans first and then puts; opening the store again shows the same."""
    async with opener() as store:
        await store.write({bytes([key]): b"old" for key in range(10)})
        await store.write(
            {b"\x03": b"new", b"\x08": None}, [(b"\x02", b"\x05"), (b"\x09", b"\xff"), (b"\xf0", b"\xf0")]
        )
    left = [(bytes([key]), b"new" if key == 3 else b"old") for key in (0, 1, 3, 5, 6, 7)]
    async with opener() as store:
        assert await store.scan(b"") == left


async def test_a_huge_span_takes_no_time_per_key(tmp_path: Path) -> None:
    """Dropping a span of 600 million numbers, most of them absent, takes no time per key."""
    async with open_rocks_map(tmp_path / "store") as store:
        await store.write({(600_020_000).to_bytes(8): b"kept", (1).to_bytes(8): b"dropped"})
        await store.write({}, [((0).to_bytes(8), (600_000_000).to_bytes(8))])

        assert await store.scan(b"") == [((600_020_000).to_bytes(8), b"kept")]


async def test_room_comes_back_without_more_writes(tmp_path: Path) -> None:
    """`reclaim` frees the room of dropped keys, and only that."""
    async with open_rocks_map(tmp_path / "store") as store:
        for number in range(20):
            await store.write({bytes([number]): random.Random(number).randbytes(1 << 20)})
        await store.write({}, [(b"\x00", b"\x12")])
        await store.reclaim((b"\x00", b"\x12"))

        assert [key for key, _ in await store.scan(b"")] == [b"\x12", b"\x13"]
        assert room_taken(tmp_path / "store") < 10 << 20


def room_taken(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


async def test_a_store_of_bulk_tells_when_the_disk_gets_full(tmp_path: Path) -> None:
    """A store that needs more headroom than the disk has reports that from the start; small stores
    need none."""
    taken = shutil.disk_usage(tmp_path)
    async with open_rocks_map(tmp_path / "bulk", RocksMapSettings(headroom_bytes=taken.total * 2)) as store:
        assert not store.has_room
        await store.write({b"a": b"1"})
        assert not store.has_room
    async with open_rocks_map(tmp_path / "small") as store:
        assert store.has_room


async def test_reads_go_on_beside_writes(opener: Opener) -> None:
    """A long read holds up no write, and sees each write whole."""
    async with opener() as store, trio.open_nursery() as nursery:
        await store.write({b"%03d" % key: b"0" for key in range(100)})

        async def write_all() -> None:
            for round_ in range(20):
                await store.write({b"%03d" % key: b"%d" % round_ for key in range(100)})
            nursery.cancel_scope.cancel()

        nursery.start_soon(write_all)
        while True:
            pairs = await store.scan_span((b"0", b"1"), 1 << 20)
            assert len({value for _, value in pairs}) == 1
            assert len(pairs) == 100


async def test_large_value(opener: Opener) -> None:
    """A register of the largest size fits into one pair."""
    value = random.Random(1).randbytes(1 << 20)
    async with opener() as store:
        await store.write({b"large": value})

        assert await store.get(b"large") == value


async def test_writes_of_many_tasks_happen_one_by_one(opener: Opener) -> None:
    """Readers see both pairs of a write or none."""
    async with opener() as store, trio.open_nursery() as nursery:

        async def write(number: int) -> None:
            await store.write({b"left": b"%d" % number, b"right": b"%d" % number})
            left, right = await store.scan(b"")
            assert left[1] == right[1]

        for number in range(20):
            nursery.start_soon(write, number)


async def test_writes_without_a_task_share_what_comes_in_their_turn(opener: Opener) -> None:
    """Such a write takes in what is added until the end of the turn. It calls back when all is durable, and the next
    one may begin there."""
    outcomes: list[VirtualLogError | None] = []
    async with opener() as store:
        pairs, over = {b"a": b"1"}, trio.Event()

        def go_on(failure: VirtualLogError | None) -> None:
            outcomes.append(failure)
            store.write_soon(lambda: ({b"c": b"3"}, [(b"a", b"b")]), end)

        def end(failure: VirtualLogError | None) -> None:
            outcomes.append(failure)
            over.set()

        store.write_soon(lambda: (pairs, []), go_on)
        pairs[b"b"] = b"2"
        assert not outcomes
        await over.wait()

        assert outcomes == [None, None]
        assert await store.scan(b"") == [(b"b", b"2"), (b"c", b"3")]


async def test_directory_belongs_to_one(tmp_path: Path) -> None:
    """An open store cannot be opened again; closing twice is harmless; a closed store cannot be used."""
    async with open_rocks_map(tmp_path) as store:
        with pytest.raises(StorageError):
            await RocksMap.open(tmp_path)
        await store.close()
        with pytest.raises(StorageError):
            await store.get(b"a")
        async with open_rocks_map(tmp_path) as successor:
            assert await successor.get(b"a") is None


async def test_first_failure_poisons_the_store(tmp_path: Path) -> None:
    """After a first failed write no later operation is tried: the content of the store is unknown."""
    async with open_rocks_map(tmp_path) as store:
        await store.write({b"a": b"1"})
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, limits[1]))
        try:
            with pytest.raises(StorageError):
                await store.write({b"a": b"2" * (1 << 20)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        with pytest.raises(StorageError, match="no longer"):
            await store.get(b"a")
        outcomes: list[VirtualLogError | None] = []
        store.write_soon(lambda: ({b"a": b"3"}, []), outcomes.append)
        while not outcomes:
            await trio.lowlevel.checkpoint()
        assert isinstance(outcomes[0], StorageError)
    async with open_rocks_map(tmp_path) as store:
        assert await store.get(b"a") == b"1"


async def crashed_copy(directory: Path) -> tuple[Path, Path]:
    """Return a copy as a crash after ten writes leaves it, all in the write-ahead log; and that log."""
    crashed = directory / "crashed"
    async with open_rocks_map(directory / "store") as store:
        for number in range(10):
            await store.write({b"key %d" % number: b"value %d" % number * 50})
        shutil.copytree(directory / "store", crashed)
    (log,) = crashed.glob("*.log")
    return crashed, log


async def test_damage_is_reported_on_opening(tmp_path: Path) -> None:
    """A damaged record in the middle of the write-ahead log is reported: acknowledged writes would
    be lost silently."""
    crashed, log = await crashed_copy(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    log.write_bytes(damaged)

    with pytest.raises(CorruptionError):
        await RocksMap.open(crashed)


async def test_torn_tail_is_forgiven(tmp_path: Path) -> None:
    """A cut last record is forgiven: that write was never acknowledged. All before it is there."""
    crashed, log = await crashed_copy(tmp_path)
    log.write_bytes(log.read_bytes()[:-3])

    async with open_rocks_map(crashed) as store:
        assert len(await store.scan(b"")) == 9


def simulated(disk: SimulatedKeyValuesDisk) -> tuple[Process, SimulatedKeyValues]:
    process = Process(NODE)
    return process, disk.open(process, SimulatedClock(process))


async def test_write_under_way_at_a_crash_happens_wholly_or_not(autojump_clock: trio.testing.MockClock) -> None:
    """A write in progress at a crash happens wholly or not, both over the seeds; the dead store
    cannot be used."""
    outcomes = set()
    for seed in range(20):
        disk = SimulatedKeyValuesDisk(random.Random(seed), write_seconds=1.0)
        disk.pairs.update({b"a": b"old", b"b": b"old"})
        process, store = simulated(disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.write, {b"a": b"new", b"b": b"new"})
            await trio.sleep(0.5)
            process.crash()
            nursery.cancel_scope.cancel()
        disk.crash()
        with pytest.raises(CrashedError):
            await store.get(b"a")
        _, successor = simulated(disk)
        outcomes.add(tuple(value for _, value in await successor.scan(b"")))
        assert await successor.scan(b"") == await successor.scan(b"")

    assert outcomes == {(b"old", b"old"), (b"new", b"new")}


async def test_a_write_without_a_task_ends_with_its_process(autojump_clock: trio.testing.MockClock) -> None:
    """At a crash it calls back with an error at once, so that what waits for it can end; it happened or not."""
    stored = set()
    for seed in range(20):
        disk = SimulatedKeyValuesDisk(random.Random(seed), write_seconds=1000.0)
        process, store = simulated(disk)
        outcomes: list[VirtualLogError | None] = []
        store.write_soon(lambda: ({b"a": b"1"}, []), outcomes.append)
        await trio.sleep(0.5)
        process.crash()
        disk.crash()
        await trio.testing.wait_all_tasks_blocked()

        assert [type(outcome) for outcome in outcomes] == [StorageError]
        stored.add(disk.pairs.get(b"a"))

    assert stored == {None, b"1"}
    assert trio.current_time() < 20


async def test_finished_writes_survive_a_crash(autojump_clock: trio.testing.MockClock) -> None:
    """A finished write is durable, and slow on request."""
    disk = SimulatedKeyValuesDisk(random.Random(1), write_seconds=2.0)
    process, store = simulated(disk)
    before = trio.current_time()
    await store.write({b"a": b"1"})
    assert trio.current_time() - before == 2.0
    process.crash()
    disk.crash()

    assert await simulated(disk)[1].get(b"a") == b"1"


async def test_injected_failure_poisons_one_life() -> None:
    """An injected failure of a write, which happened or not, ends one life; the next life finds a
    working disk."""
    outcomes = set()
    for seed in range(20):
        disk = SimulatedKeyValuesDisk(random.Random(seed))
        process, store = simulated(disk)
        disk.fail_write(after=1)
        await store.write({b"a": b"1"})
        with pytest.raises(StorageError):
            await store.write({b"a": b"2"})
        with pytest.raises(StorageError):
            await store.get(b"a")
        process.crash()
        outcomes.add(await simulated(disk)[1].get(b"a"))

    assert outcomes == {b"1", b"2"}


async def test_wipe_and_damage() -> None:
    """A wiped disk is empty; a damaged value differs in one bit."""
    disk = SimulatedKeyValuesDisk(random.Random(1))
    await simulated(disk)[1].write({b"a": b"12345678"})
    disk.damage(b"a")
    (damaged,) = disk.pairs.values()
    assert sum((one ^ other).bit_count() for one, other in zip(damaged, b"12345678", strict=True)) == 1

    disk.wipe()
    assert await simulated(disk)[1].scan(b"") == []


@pytest.mark.parametrize(
    ("faults", "counted"),
    [
        (DiskFaults(write_error=1.0), "store write error"),
        (DiskFaults(sync_error=1.0), "store sync error"),
        (DiskFaults(free_bytes=2), "store full"),
    ],
)
async def test_a_bad_disk_fails_a_write_and_ends_the_store(faults: DiskFaults, counted: str) -> None:
    """After a failed write, which happened or not, nothing else is tried in this life; the next one
    works."""
    outcomes = set()
    for seed in range(20):
        disk = SimulatedKeyValuesDisk(random.Random(seed), faults=attrs.evolve(faults))
        process, store = simulated(disk)
        with pytest.raises(StorageError):
            await store.write({b"a": b"12345678"})
        with pytest.raises(StorageError, match="before"):
            await store.get(b"a")
        assert disk.fired == {counted: 1}

        process.crash()
        disk.faults = DiskFaults()
        successor = simulated(disk)[1]
        outcomes.add(await successor.get(b"a"))
        await successor.write({b"a": b"new"})

    assert outcomes == {None, b"12345678"}


async def test_a_bad_disk_fails_a_read_and_ends_the_store() -> None:
    """A failed read ends the store, as in a real one: more may be unreadable."""
    disk = SimulatedKeyValuesDisk(random.Random(1))
    _, store = simulated(disk)
    await store.write({b"a": b"1"})
    disk.faults.read_error = 1.0
    with pytest.raises(StorageError):
        await store.scan(b"")
    disk.faults.read_error = 0.0
    with pytest.raises(StorageError, match="before"):
        await store.get(b"a")

    assert disk.fired == {"store read error": 1}


async def test_a_store_shares_the_room_and_the_pace_of_its_machine(autojump_clock: trio.testing.MockClock) -> None:
    """A store takes bytes from its machine's free ones, and takes as long as the disk does."""
    faults = DiskFaults(free_bytes=100, write_seconds=(2.0, 2.0))
    _, store = simulated(SimulatedKeyValuesDisk(random.Random(1), faults=faults))
    before = trio.current_time()
    await store.write({b"key": b"1234567"})

    assert (faults.free_bytes, trio.current_time() - before) == (90, 2.0)


async def test_rot_in_a_store() -> None:
    """Rot flips one bit of one value; an empty store has nothing to flip."""
    disk = SimulatedKeyValuesDisk(random.Random(1))
    assert disk.rot() is None
    await simulated(disk)[1].write({b"a": b"1", b"b": b"", b"c": b"3"})
    key = disk.rot()

    assert key in {b"a", b"c"}
    assert disk.pairs != {b"a": b"1", b"b": b"", b"c": b"3"}
    assert disk.fired == {"store bit flipped": 1}


async def test_a_pair_that_is_written_over_and_over_takes_no_more_room(tmp_path: Path) -> None:
    """A vote per change of the chain, for years, keeps the directory within a few MiB."""
    async with open_rocks_map(tmp_path / "store") as store:
        for number in range(1000):
            await store.write({b"decision": number.to_bytes(4, "little") * 4096})
        assert await store.get(b"decision") == (999).to_bytes(4, "little") * 4096
        taken = sum(file.stat().st_size for file in (tmp_path / "store").iterdir())
    assert taken < 8 << 20
