"""Properties of the real directory only: threads, locks between processes, errors of the operating
system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

from virtuallog.contract.errors import DiskFullError, InvalidSettingError, StorageError
from virtuallog.contract.ports import File
from virtuallog.runtime.disk import DiskStorage

MEMORY_DISK = Path("/dev/shm")


@pytest.mark.skipif(not MEMORY_DISK.is_mount(), reason="needs a tmpfs: it refuses at once, others would fill up first")
async def test_a_full_disk_leaves_no_file_behind() -> None:
    """A file larger than the file system is refused at once with `DiskFullError`; the directory is
    as before."""
    path = MEMORY_DISK / f"virtuallog-test-{os.getpid()}"
    state = os.statvfs(MEMORY_DISK)
    try:
        with DiskStorage(path) as storage:
            with pytest.raises(DiskFullError):
                await storage.create("a", state.f_blocks * state.f_frsize + (1 << 20))
            assert await storage.names() == []
            assert (await storage.create("a", 1000)).size == 1000
    finally:
        for name in ("a", "LOCK"):
            (path / name).unlink(missing_ok=True)
        path.rmdir()


def test_another_process_cannot_own_the_directory(tmp_path: Path) -> None:
    """The lock holds between processes, and ends with the process that held it."""
    script = (
        "import sys, pathlib; from virtuallog.runtime.disk import DiskStorage\n"
        "storage = DiskStorage(pathlib.Path(sys.argv[1])); print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"mine\n"
        with pytest.raises(InvalidSettingError, match="in use by another process"):
            DiskStorage(tmp_path)
        child.kill()
        child.wait()

    DiskStorage(tmp_path).close()


async def test_a_large_new_file_holds_nothing_else_up(tmp_path: Path) -> None:
    """Its zeros are written in steps: a small file that is begun later is there first."""
    done = []

    async def create(name: str, size: int) -> None:
        done.append((await storage.create(name, size)).name)

    with DiskStorage(tmp_path) as storage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, "large", (8 << 20) + 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(create, "small", 1)

        assert done == ["small", "large"]
        assert (tmp_path / "large").read_bytes() == bytes((8 << 20) + 1)


async def test_a_cancelled_creation_leaves_no_file_behind(tmp_path: Path) -> None:
    """The directory is as before, and the name can be used again at once."""
    with DiskStorage(tmp_path) as storage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(storage.create, "a", 8 << 20)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        assert await storage.names() == []
        assert (await storage.create("a", 10)).size == 10


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20])
async def test_a_new_file_is_zeros_to_its_last_byte(tmp_path: Path, size: int) -> None:
    """None is missing around the ends of the steps, and none is too many."""
    with DiskStorage(tmp_path) as storage:
        file = await storage.create("a", size)
        assert (file.size, (tmp_path / "a").read_bytes()) == (size, bytes(size))


async def test_an_error_of_the_system_is_a_storage_error(tmp_path: Path) -> None:
    """A descriptor that was closed under us gives a typed error for write and read."""
    with DiskStorage(tmp_path) as storage:
        (tmp_path / "folder").mkdir()

        with pytest.raises(StorageError):
            await storage.open("folder")
    with pytest.raises(StorageError):
        DiskStorage(tmp_path / "LOCK")


async def test_writes_of_one_directory_run_in_order(tmp_path: Path) -> None:
    """Writes of many tasks to one place run in order: the last one wins, and every reader sees
    whole writes."""
    with DiskStorage(tmp_path) as storage:
        file = await storage.create("a", 4096)
        started: list[int] = []

        async def write(number: int) -> None:
            started.append(number)
            await file.write_synced(0, [bytes([number]) * 4096])

        async with trio.open_nursery() as nursery:
            for number in range(1, 20):
                nursery.start_soon(write, number)

        assert await file.read(0, 4096) == bytes([started[-1]]) * 4096


async def test_a_reader_that_meets_a_close_gets_its_bytes_or_an_error(tmp_path: Path) -> None:
    """A read that meets a close never gets the bytes of another file with the same descriptor."""
    random = Random(1)
    with DiskStorage(tmp_path) as storage:
        for round_number in range(20):
            name = f"file-{round_number}"
            file = await storage.create(name, 0)
            await file.write_synced(0, [bytes([round_number]) * (1 << 20)])
            seen: list[bytes] = []

            async def read(length: int, file: File = file, seen: list[bytes] = seen) -> None:
                try:
                    seen.append(await file.read(0, length))
                except StorageError:
                    seen.append(b"")

            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(read, random.choice((100, 1 << 20)))
                nursery.start_soon(file.close)
                nursery.start_soon(storage.create, f"other-{round_number}", 1 << 20)

            assert {byte for content in seen for byte in set(content)} <= {round_number}
