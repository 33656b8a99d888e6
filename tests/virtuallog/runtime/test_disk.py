"""Every promise of `Storage`: the same tests on a real directory and on the simulated disk."""

from __future__ import annotations

import pytest
import trio

from tests.virtuallog.runtime.disk_beds import Bed
from virtuallog.contract.errors import InvalidSettingError, StorageError, VirtualLogError
from virtuallog.contract.ports import Storage


async def written(storage: Storage, name: str, content: bytes) -> None:
    file = await storage.create(name, len(content))
    await file.write_synced(0, [content])
    await file.close()


async def test_a_new_file_is_all_zeros_and_listed(bed: Bed) -> None:
    """`create` returns a file of the requested size, and its name is listed."""
    file = await bed.mount().create("a", 1000)

    assert (file.name, file.size, await file.read(0, 2000)) == ("a", 1000, bytes(1000))
    assert bed.names() == ["a"]


async def test_chunks_are_written_back_to_back(bed: Bed) -> None:
    """Chunks are written back to back, empty and many ones too; other bytes stay."""
    file = await bed.mount().create("a", 20)
    await file.write_synced(3, [b"one", b"", b"two", b"three"])

    assert await file.read(0, 20) == b"\0\0\0onetwothree" + bytes(6)


async def test_more_chunks_than_one_system_call_takes(bed: Bed) -> None:
    """Thousands of chunks, more than are joined in memory, arrive whole."""
    chunks = [bytes([i % 251]) * (100 + i % 7) for i in range(5000)]
    file = await bed.mount().create("a", 0)
    await file.write_synced(0, chunks)

    assert await file.read(0, 1 << 20) == b"".join(chunks)


async def test_a_read_ends_at_the_end_of_the_file(bed: Bed) -> None:
    """A read returns fewer bytes only at the end of the file, and none past it."""
    storage = bed.mount()
    await written(storage, "a", b"0123456789")
    file = await storage.open("a")

    assert [await file.read(0, 4), await file.read(7, 9), await file.read(10, 1), await file.read(99, 1)] == [
        b"0123", b"789", b"", b"",
    ]  # fmt: skip


async def test_a_long_read_is_whole(bed: Bed) -> None:
    """A read that is too long for the event loop is whole."""
    content = bytes(range(256)) * 4096
    storage = bed.mount()
    await written(storage, "a", content)

    assert await (await storage.open("a")).read(0, len(content)) == content


async def test_a_file_grows_by_writes_past_its_end(bed: Bed) -> None:
    """A hole reads as zeros, and `size` follows."""
    file = await bed.mount().create("a", 2)
    await file.write_synced(4, [b"x"])

    assert (file.size, await file.read(0, 9)) == (5, b"\0\0\0\0x")


async def test_truncate_cuts(bed: Bed) -> None:
    """Truncated bytes are gone, also after growing again."""
    file = await bed.mount().create("a", 0)
    await file.write_synced(0, [b"0123456789"])
    await file.truncate(4)
    await file.write_synced(6, [b"x"])

    assert await file.read(0, 99) == b"0123\0\0x"


async def test_rename_replaces(bed: Bed) -> None:
    """After a rename one name is left, with the content of the old one."""
    storage = bed.mount()
    await written(storage, "old", b"content")
    await written(storage, "new", b"gone")
    await storage.rename("old", "new")

    assert await storage.names() == ["new"]
    assert await (await storage.open("new")).read(0, 99) == b"content"


async def test_remove_is_no_error_when_there_is_nothing(bed: Bed) -> None:
    """Removing a missing file is no error."""
    storage = bed.mount()
    await written(storage, "a", b"x")
    await storage.remove("a")
    await storage.remove("a")

    assert await storage.names() == []


async def test_names_are_sorted(bed: Bed) -> None:
    """Names are sorted, in any order of creation."""
    storage = bed.mount()
    for name in ("b", "c", "a"):
        await written(storage, name, b"")

    assert await storage.names() == ["a", "b", "c"]


async def test_errors_are_ours(bed: Bed) -> None:
    """A missing file, a taken name and a closed file give `StorageError`, and nothing has changed."""
    storage = bed.mount()
    await written(storage, "a", b"content")
    file = await storage.open("a")
    await file.close()
    await file.close()

    with pytest.raises(StorageError):
        await storage.open("missing")
    with pytest.raises(StorageError):
        await storage.rename("missing", "other")
    with pytest.raises(StorageError):
        await storage.create("a", 10)
    with pytest.raises(StorageError):
        await file.read(0, 1)
    assert bed.image("a") == b"content"


async def test_what_was_written_is_there_after_a_reboot(bed: Bed) -> None:
    """A new incarnation sees names and contents."""
    await written(bed.mount(), "a", b"content")
    storage = bed.mount()

    assert await storage.names() == ["a"]
    assert await (await storage.open("a")).read(0, 99) == b"content"


async def test_one_owner_at_a_time(bed: Bed) -> None:
    """A second owner is refused with a typed error and harms nothing; after the first has ended it
    is admitted."""
    storage = bed.mount()
    await written(storage, "a", b"content")

    with pytest.raises(InvalidSettingError, match="in use by another process"):
        bed.mount_second()
    assert await (await storage.open("a")).read(0, 99) == b"content"


async def test_cancelled_before_it_starts_or_not_at_all(bed: Bed) -> None:
    """A write in a cancelled scope does nothing; one that has begun runs to its end."""
    file = await bed.mount().create("a", 4)
    with trio.CancelScope() as scope:
        scope.cancel()
        await file.write_synced(0, [b"lost"])
    assert scope.cancelled_caught
    assert await file.read(0, 4) == bytes(4)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.write_synced, 0, [b"kept"])
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()  # by now the write has been handed over, in any order of the tasks
        nursery.cancel_scope.cancel()
    assert await file.read(0, 4) == b"kept"


async def test_a_write_that_does_not_wait(bed: Bed) -> None:
    """`write_soon` cuts after it returns, so that what the rest of the turn brings is written with
    the same sync; and calls back when that is durable."""
    file = await bed.mount().create("a", 8)
    queue, outcomes = [b"one"], list[VirtualLogError | None]()
    is_cut, is_done = trio.Event(), trio.Event()

    def cut() -> tuple[int, list[bytes]]:
        is_cut.set()
        return 1, queue

    def done(failure: VirtualLogError | None) -> None:
        outcomes.append(failure)
        is_done.set()

    file.write_soon(cut, done)
    assert not is_cut.is_set()
    queue.append(b"two")
    await is_done.wait()

    assert (outcomes, bed.image("a")) == ([None], b"\0onetwo\0")


async def test_a_write_that_does_not_wait_and_fails(bed: Bed) -> None:
    """The error of a write goes to its callback: here the file has been closed."""
    file = await bed.mount().create("a", 8)
    await file.close()
    outcomes, is_done = list[VirtualLogError | None](), trio.Event()

    def done(failure: VirtualLogError | None) -> None:
        outcomes.append(failure)
        is_done.set()

    file.write_soon(lambda: (0, [b"x"]), done)
    await is_done.wait()

    assert [type(outcome) for outcome in outcomes] == [StorageError]
    assert bed.image("a") == bytes(8)
