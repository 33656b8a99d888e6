"""The directory on RocksDB: crashes, damage, full disks, two owners."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from virtuallog.contract.errors import CorruptionError, DiskFullError, InvalidSettingError, MalformedError, StorageError
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.rocks import StoreSettings, checkpoint_listing, open_store_directory

SMALL = StoreSettings(buffer_bytes=64 << 10, file_bytes=64 << 10, cache_bytes=1 << 20)


async def test_a_crash_takes_what_was_not_flushed(tmp_path: Path) -> None:
    """The files as a killed process leaves them: what was flushed is there, in order, and no write by halves."""
    directory = await open_store_directory(tmp_path / "live", SMALL)
    store = await directory.open()
    store.write({b"a": b"1", b"b": b"1"})
    await store.flush()
    store.write({b"a": b"2", b"b": b"2"})
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    await directory.close()

    directory = await open_store_directory(tmp_path / "crashed", SMALL)
    store = await directory.open()
    assert (store.get(b"a"), store.get(b"b")) == (b"1", b"1")
    await directory.close()


async def test_a_checkpoint_shares_what_the_former_one_had(tmp_path: Path) -> None:
    """Tables are linked, and their checksums taken over: a checkpoint of a large store costs what has changed."""
    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    store.write({b"%05d" % number: os.urandom(50) for number in range(500)})
    await directory.checkpoints.take("1")
    store.write({b"a": b"1"})
    await directory.checkpoints.take("2")
    first, second = [
        {file: (tmp_path / "generation-000001/checkpoints" / name / file.name).stat().st_ino for file in files}
        for name, files in [(name, await directory.checkpoints.files(name)) for name in ("1", "2")]
    ]
    tables = {file for file in first if file.name.endswith(".sst")}
    assert tables and all(second[file] == first[file] for file in tables)
    assert {file for file in second if file.name.endswith(".sst")} > tables
    await directory.close()


async def test_a_store_says_that_it_is_behind_before_a_write_has_to_wait(tmp_path: Path) -> None:
    """RocksDB brakes once three of four buffers are full; it is said at two, and not any more once they are flushed."""
    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    said = [store.is_behind]
    while not said[-1]:
        store.write({b"a": os.urandom(SMALL.buffer_bytes)})
        said.append(store.is_behind)
    await store.flush()
    said.append(store.is_behind)
    await directory.close()
    assert said[-2:] == [True, False] and not store.is_behind, "who writes is told that it is closed"


@pytest.mark.parametrize("left", [".taking", ".taking.tmp"])
async def test_a_checkpoint_that_was_cut_short_is_none(tmp_path: Path, left: str) -> None:
    """A crash in the middle leaves an unlisted directory, and the next start removes it."""
    directory = await open_store_directory(tmp_path, SMALL)
    await directory.open()
    unfinished = tmp_path / "generation-000001/checkpoints" / left
    unfinished.mkdir()
    (unfinished / "000001.sst").write_bytes(b"half")
    assert await directory.checkpoints.names() == []
    await directory.close()
    directory = await open_store_directory(tmp_path, SMALL)
    assert not unfinished.exists()
    await directory.close()


async def test_a_crash_between_the_rename_and_the_removal_leaves_one_store(tmp_path: Path) -> None:
    """The higher generation counts; what is below is removed, and so is its checkpoints' room."""
    directory = await open_store_directory(tmp_path, SMALL)
    (await directory.open()).write({b"old": b"1"})
    await directory.close()
    shutil.copytree(tmp_path / "generation-000001", tmp_path / "kept")
    (tmp_path / "generation-000001").rename(tmp_path / "generation-000002")
    (tmp_path / "kept").rename(tmp_path / "generation-000001")
    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    assert store.get(b"old") == b"1" and not (tmp_path / "generation-000001").exists()
    await directory.close()


async def test_a_snapshot_that_was_kept_does_not_keep_the_store(tmp_path: Path) -> None:
    """The store closes, and can be opened again; a reader of the snapshot gets an error."""
    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    store.write({b"a": b"1"})
    kept = store.snapshot()
    assert kept.get(b"a") == b"1" and kept.get(b"b") is None
    await store.close()
    assert (await directory.open()).get(b"a") == b"1"
    with pytest.raises(StorageError):
        kept.get(b"a")
    await directory.close()


async def test_one_owner_at_a_time(tmp_path: Path) -> None:
    """The second one is refused, until the first has let go."""
    first = await open_store_directory(tmp_path, SMALL)
    with pytest.raises(InvalidSettingError):
        await open_store_directory(tmp_path, SMALL)
    await first.close()
    await (await open_store_directory(tmp_path, SMALL)).close()


async def filled(path: Path) -> Path:
    """A directory that was closed in order, and its largest table."""
    directory = await open_store_directory(path, SMALL)
    (await directory.open()).write({b"%05d" % number: os.urandom(50) for number in range(500)})
    await directory.close()
    return max((path / "generation-000001/store").glob("*.sst"), key=lambda table: table.stat().st_size)


async def test_a_damaged_block_is_found_when_it_is_read(tmp_path: Path) -> None:
    """A CorruptionError, and from then on nothing of this store is believed."""
    table = await filled(tmp_path)
    with table.open("r+b") as file:
        file.seek(2000)
        content = file.read(1)
        file.seek(2000)
        file.write(bytes([content[0] ^ 1]))
    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    with pytest.raises(CorruptionError):
        store.scan((b"", b"\xff"), 1000)
    with pytest.raises(CorruptionError):
        store.write({b"a": b"1"})
    await directory.close()


@pytest.mark.parametrize("harm", ["table is missing", "manifest is damaged", "CURRENT is empty"])
async def test_damaged_files_are_not_opened(tmp_path: Path, harm: str) -> None:
    """A store with damage is not opened; a missing one is never taken for an empty one."""
    table = await filled(tmp_path)
    store = table.parent
    if harm == "table is missing":
        table.unlink()
    elif harm == "CURRENT is empty":
        (store / "CURRENT").write_bytes(b"")
    else:
        manifest = next(store.glob("MANIFEST-*"))
        content = bytearray(manifest.read_bytes())
        content[len(content) // 2] ^= 1
        manifest.write_bytes(content)
    directory = await open_store_directory(tmp_path, SMALL)
    with pytest.raises(CorruptionError):
        await directory.open()
    await directory.close()


async def test_a_listing_that_was_damaged_is_refused(tmp_path: Path) -> None:
    """No peer is offered what is noted wrongly."""
    directory = await open_store_directory(tmp_path, SMALL)
    (await directory.open()).write({b"a": b"1"})
    await directory.checkpoints.take("1")
    path = tmp_path / "generation-000001/checkpoints/1" / checkpoint_listing.LISTING
    path.write_bytes(path.read_bytes().replace(b"CURRENT", b"CURRENS"))
    with pytest.raises(CorruptionError):
        await directory.checkpoints.files("1")
    await directory.close()


async def test_a_full_disk_refuses_checkpoints_and_staging_and_harms_nothing(tmp_path: Path) -> None:
    """Room is looked for before RocksDB would meet its end, and some is left for the log."""
    greedy = StoreSettings(buffer_bytes=64 << 10, headroom_bytes=1 << 60)
    directory = await open_store_directory(tmp_path, greedy)
    store = await directory.open()
    store.write({b"a": b"1"})
    with pytest.raises(DiskFullError):
        await directory.checkpoints.take("1")
    with pytest.raises(DiskFullError):
        await directory.staging.write("000001.sst", 0, b"abc")
    assert await directory.checkpoints.names() == [] and await directory.staging.files() == []
    store.write({b"a": b"2"})
    assert store.get(b"a") == b"2"
    await directory.close()


async def test_a_store_that_has_met_a_full_disk_is_no_longer_used(tmp_path: Path) -> None:
    """RocksDB takes no more writes then, so it is no disk that is full for the moment: the replica must stop."""

    def fail(_: object) -> None:
        raise Exception("IO error: No space left on device: While appending to file")  # noqa: TRY002 -- as the library does

    directory = await open_store_directory(tmp_path, SMALL)
    store = await directory.open()
    with pytest.raises(StorageError, match="No space"):
        await store.perform(fail)
    with pytest.raises(StorageError, match="No space"):
        await directory.checkpoints.take("1")
    await directory.close()


async def test_an_open_store_is_not_replaced(tmp_path: Path) -> None:
    """Its user would write into files that do not exist any more."""
    source = await open_store_directory(tmp_path / "source", SMALL)
    (await source.open()).write({b"a": b"1"})
    await source.checkpoints.take("1")
    target = await open_store_directory(tmp_path / "target", SMALL)
    store = await target.open()
    for file in await source.checkpoints.files("1"):
        content = await source.checkpoints.read("1", file.name, 0, file.size)
        await target.staging.write(file.name, 0, content)
    with pytest.raises(StorageError):
        await target.staging.install()
    await store.close()
    await target.staging.install()
    assert (await target.open()).get(b"a") == b"1"
    await source.close()
    await target.close()


def test_a_listing_reads_back_and_refuses_every_flipped_bit() -> None:
    """The format is text, with a checksum over all of it."""
    files = [CheckpointFile("000001.sst", 123, 0xDEADBEEF), CheckpointFile("CURRENT", 0, 0)]
    text = checkpoint_listing.encode(files)
    assert checkpoint_listing.decode_untrusted(text) == files
    for at in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[at] ^= 1 << bit
            with pytest.raises(CorruptionError):
                checkpoint_listing.decode_untrusted(bytes(flipped))
    for length in range(len(text)):
        with pytest.raises(CorruptionError):
            checkpoint_listing.decode_untrusted(text[:length])


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "LOCK", checkpoint_listing.LISTING, ".x", "x" * 101, "a\nb", "a b"]
)
def test_names_that_no_file_of_a_checkpoint_has(name: str) -> None:
    """They come from peers, and become parts of paths."""
    with pytest.raises(MalformedError):
        checkpoint_listing.check_name_untrusted(name)
