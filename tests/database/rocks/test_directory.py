"""Contract of a store's directory, for RocksDB's and the simulated one alike."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from virtuallog.contract.errors import CorruptionError, MalformedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_database.ports import StoreDirectory
from virtuallog_database.rocks import StoreSettings, open_store_directory
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk

SMALL = StoreSettings(buffer_bytes=64 << 10, file_bytes=64 << 10, cache_bytes=1 << 20)
ALL = (b"", b"\xff")


def simulated() -> SimulatedDirectory:
    process = Process(NodeId(1))
    return SimulatedDirectory.of(StoreDisk(random=random.Random(1)), process, SimulatedClock(process))


@pytest.fixture(params=["rocks", "simulated"])
async def directory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreDirectory]:
    made: StoreDirectory = simulated() if request.param == "simulated" else await open_store_directory(tmp_path, SMALL)
    yield made
    await made.close()


@pytest.fixture(params=["rocks", "simulated"])
async def other(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreDirectory]:
    """A second one of the same kind."""
    made: StoreDirectory = (
        simulated() if request.param == "simulated" else await open_store_directory(tmp_path / "other", SMALL)
    )
    yield made
    await made.close()


async def test_writes_are_seen_at_once_in_order(directory: StoreDirectory) -> None:
    """Put, overwrite, delete, drop a span: the next read knows."""
    store = await directory.open()
    store.write({b"b": b"2", b"a": b"1", b"c": b"3", b"empty": b""})
    store.write({b"b": None, b"a": b"one"})
    assert store.get(b"a") == b"one" and store.get(b"b") is None and store.get(b"empty") == b""
    assert store.scan(ALL, 10) == [(b"a", b"one"), (b"c", b"3"), (b"empty", b"")]
    assert store.scan((b"b", b"empty"), 10) == [(b"c", b"3")]
    assert store.scan(ALL, 1) == [(b"a", b"one")]
    store.write({b"c": b"new"}, [(b"a", b"d")])
    assert store.scan(ALL, 10) == [(b"c", b"new"), (b"empty", b"")]


async def test_a_snapshot_stays_as_it_was(directory: StoreDirectory) -> None:
    """Later writes are not in it."""
    store = await directory.open()
    store.write({b"a": b"1", b"b": b"2"})
    before = store.snapshot()
    store.write({b"a": b"9", b"b": None, b"c": b"3"})
    assert before.get(b"a") == b"1" and before.get(b"c") is None
    assert before.scan(ALL, 10) == [(b"a", b"1"), (b"b", b"2")]


async def test_the_store_is_the_same_when_it_is_opened_again(directory: StoreDirectory) -> None:
    """Closed in order, nothing is lost."""
    store = await directory.open()
    store.write({b"a": b"1"})
    await store.close()
    assert (await directory.open()).get(b"a") == b"1"


async def test_a_checkpoint_is_of_the_moment_when_it_was_taken(directory: StoreDirectory) -> None:
    """It never changes, is listed until it is removed, and its files have the checksums that are listed."""
    store = await directory.open()
    store.write({b"%03d" % number: bytes(100) for number in range(50)})
    await directory.checkpoints.take("1")
    files = await directory.checkpoints.files("1")
    store.write({}, [ALL])
    await directory.checkpoints.take("2")
    assert await directory.checkpoints.names() == ["1", "2"]
    assert await directory.checkpoints.files("1") == files == sorted(files, key=lambda file: file.name)
    await directory.checkpoints.remove("1")
    await directory.checkpoints.remove("1")
    assert await directory.checkpoints.names() == ["2"]
    with pytest.raises(UnavailableError):
        await directory.checkpoints.files("1")
    with pytest.raises(UnavailableError):
        await directory.checkpoints.read("1", files[0].name, 0, 10)


async def copy(source: StoreDirectory, name: str, target: StoreDirectory, piece: int = 1000) -> None:
    """All files of a checkpoint into staging, in pieces."""
    for file in await source.checkpoints.files(name):
        for offset in range(0, max(file.size, 1), piece):
            content = await source.checkpoints.read(name, file.name, offset, piece)
            await target.staging.write(file.name, offset, content)


@pytest.mark.parametrize(("directory", "other"), [("rocks", "rocks"), ("simulated", "simulated")], indirect=True)
async def test_a_checkpoint_becomes_the_store_of_somebody_else(
    directory: StoreDirectory, other: StoreDirectory
) -> None:
    """The staged files are the listed ones; after the install the former store and its checkpoints
    are gone."""
    store = await directory.open()
    store.write({b"%03d" % number: random.Random(number).randbytes(100) for number in range(50)})
    await directory.checkpoints.take("1")
    store.write({b"later": b"1"})
    former = await other.open()
    former.write({b"former": b"1"})
    await other.checkpoints.take("0")
    await former.close()

    await copy(directory, "1", other)
    assert await other.staging.files() == await directory.checkpoints.files("1")
    assert await other.checkpoints.names() == ["0"]
    await other.staging.install()
    received = await other.open()
    assert received.scan(ALL, 100) == [pair for pair in store.scan(ALL, 100) if pair[0] != b"later"]
    assert await other.checkpoints.names() == [] == await other.staging.files()
    received.write({b"mine": b"1"})
    assert store.get(b"mine") is None


@pytest.mark.parametrize(("directory", "other"), [("rocks", "rocks"), ("simulated", "simulated")], indirect=True)
async def test_what_was_damaged_is_not_installed(directory: StoreDirectory, other: StoreDirectory) -> None:
    """One flipped bit in a table of what was received, and the store stays what it was."""
    store = await directory.open()
    store.write({b"%03d" % number: random.Random(number).randbytes(100) for number in range(50)})
    await directory.checkpoints.take("1")
    former = await other.open()
    former.write({b"former": b"1"})
    await former.close()
    await copy(directory, "1", other)
    tables = [file for file in await other.staging.files() if file.name.endswith(".sst")]
    table = max(tables, key=lambda file: file.size)
    content = await directory.checkpoints.read("1", table.name, table.size // 4, 1)
    await other.staging.write(table.name, table.size // 4, bytes([content[0] ^ 16]))
    with pytest.raises(CorruptionError):
        await other.staging.install()
    assert (await other.open()).get(b"former") == b"1"


async def test_staging_can_be_cleared_and_refuses_odd_names(directory: StoreDirectory) -> None:
    """Names come from peers: none leads out of the directory."""
    await directory.staging.write("000001.sst", 3, b"abc")
    assert [file.size for file in await directory.staging.files()] == [6]
    await directory.staging.remove("000001.sst")
    await directory.staging.write("000002.sst", 0, b"abc")
    await directory.staging.clear()
    assert await directory.staging.files() == []
    for name in ("../../x", "/etc/x", "", "a/b"):
        with pytest.raises(MalformedError):
            await directory.staging.write(name, 0, b"x")


async def test_a_store_that_is_closed_raises(tmp_path: Path) -> None:
    """A reader of the closed one gets an error, and does not reach into the next one."""
    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    await store.close()
    await store.close()
    for use in (lambda: store.get(b"a"), lambda: store.write({b"a": b"1"}), lambda: store.scan(ALL, 1), store.snapshot):
        with pytest.raises(VirtualLogError):
            use()
    with pytest.raises(VirtualLogError):
        await store.flush()
    await directory.close()
    await trio.lowlevel.checkpoint()
