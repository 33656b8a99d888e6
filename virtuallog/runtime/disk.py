"""The `Storage` port on a real directory. Linux: the reads need `preadv2`, the lock needs `flock`.

Two threads work for one directory. The writer only writes and syncs, so that a group commit never
waits for anything else; it leaves that to the event loop while the disk is fast. The helper
creates, deletes, and reads what is not in the page cache.
Cached bytes are read on the event loop: a system call of some microseconds, where two changes of
threads cost fifty.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import outcome
import trio

from virtuallog.contract.errors import DiskFullError, InvalidSettingError, StorageError, VirtualLogError
from virtuallog.contract.ports import Cut, File, Storage
from virtuallog.runtime.sync_worker import SyncWorker
from virtuallog.runtime.worker import Worker

ResultT = TypeVar("ResultT")

LOCK: Final = "LOCK"
"""Name of the file in each directory that is held while a process uses the directory."""
_IOV_MAX: Final = os.sysconf("SC_IOV_MAX")
_JOIN_BYTES_MAX: Final = 256 << 10
"""Up to this size joining chunks in memory is cheaper than handing over a list of them."""
_LOOP_READ_BYTES_MAX: Final = 256 << 10
"""Longest read tried on the event loop: even from the cache, copying more would hold up other tasks."""
_ZEROS: Final = bytes(1 << 20)
"""Step in which files are filled and synced: a sync of the writer waits for no more zeros of other
files than this."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskStorage(Storage):
    """A directory, created if needed and locked against a second owner. Use `with`, or call `close`."""

    def __init__(self, path: Path) -> None:
        """Blocks for a moment: meant for the start of a process.

        Raises:
            InvalidSettingError: another process (or another `DiskStorage`) owns the directory.
            StorageError: it cannot be created or opened.
        """
        self.path = path.absolute()
        self.writer = SyncWorker(f"writer of {path.name}")
        self.helper = Worker(f"helper of {path.name}")
        self._files: set[DiskFile] = set()
        try:
            self._directory, self._lock = _lock_directory(path)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> DiskStorage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Finish the jobs of the threads, close every file, release the lock."""
        self._stop()
        for file in self._files:
            file.forget()
        os.close(self._directory)
        os.close(self._lock)

    async def close_files(self) -> None:
        """Close every open file, after the jobs in progress."""
        for file in list(self._files):
            await file.close()

    async def names(self) -> list[str]:
        found = await self.on_helper(lambda: [entry.name for entry in self.path.iterdir()])
        return sorted(name for name in found if name != LOCK)

    async def create(self, name: str, size: int) -> File:
        """Create a file and write its zeros.

        A sync of bytes that were only reserved takes longer: the file system must record each time
        that they have been written now. Reserving first makes a full disk fail at once.

        The zeros are written in steps. Other jobs of the helper come in between: a node that founds
        its stores, or a cold read, waits for one step of a new segment and not for all of it. A
        failure or a cancellation leaves no file behind.
        """
        descriptor = await self.on_helper(lambda: self._reserve(name, size))
        try:
            for offset in range(0, size - len(_ZEROS), len(_ZEROS)):
                await self.on_helper(partial(_fill, descriptor, offset, _ZEROS))
            await self.on_helper(lambda: self._finish(descriptor, size))
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.on_helper(lambda: self._discard(name, descriptor))
            raise
        return self._opened(name, descriptor, size)

    async def open(self, name: str) -> File:
        def open_file() -> tuple[int, int]:
            descriptor = os.open(name, os.O_RDWR, dir_fd=self._directory)
            return descriptor, os.fstat(descriptor).st_size

        return self._opened(name, *await self.on_helper(open_file))

    async def rename(self, old: str, new: str) -> None:
        def rename() -> None:
            os.rename(old, new, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            os.fsync(self._directory)

        await self.on_helper(rename)

    async def remove(self, name: str) -> None:
        def remove() -> None:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._directory)
            os.fsync(self._directory)

        await self.on_helper(remove)

    async def on_helper(self, job: Callable[[], ResultT]) -> ResultT:
        """Run a job that is not a synced write. Errors of the operating system become ours."""
        return await self.helper.do(lambda: _translated(job))

    def file_closed(self, file: DiskFile) -> None:
        self._files.discard(file)

    def _opened(self, name: str, descriptor: int, size: int) -> DiskFile:
        file = DiskFile(self, name, descriptor, size)
        self._files.add(file)
        return file

    def _reserve(self, name: str, size: int) -> int:
        """Create a file of reserved bytes; return its descriptor."""
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._directory)
        try:
            if size:
                os.posix_fallocate(descriptor, 0, size)
        except BaseException:
            self._discard(name, descriptor)
            raise
        return descriptor

    def _finish(self, descriptor: int, size: int) -> None:
        """Write the zeros of the last step; make file and name durable."""
        rest = size % len(_ZEROS) or min(size, len(_ZEROS))
        _write_all(descriptor, size - rest, [_ZEROS[:rest]])
        os.fsync(descriptor)
        os.fsync(self._directory)

    def _discard(self, name: str, descriptor: int) -> None:
        os.close(descriptor)
        os.unlink(name, dir_fd=self._directory)

    def _stop(self) -> None:
        self.writer.stop()
        self.helper.stop()


class DiskFile(File):
    """An open file of a `DiskStorage`."""

    def __init__(self, storage: DiskStorage, name: str, descriptor: int, size: int) -> None:
        self._storage = storage
        self._name = name
        self._descriptor = descriptor
        self._size = size

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return self._size

    async def write_synced(self, offset: int, chunks: Sequence[bytes]) -> None:
        # Never cancelled half-way (see `Worker.do`): at no moment could a later write overtake this
        # one.
        self._written_to(await self._storage.writer.do(self._write_job(offset, chunks)))

    def write_soon(self, cut: Cut, done: Callable[[VirtualLogError | None], None]) -> None:
        def cut_job() -> tuple[Callable[[], int], int]:
            offset, chunks = cut()
            return self._write_job(offset, chunks), sum(map(len, chunks))

        def finished(result: outcome.Outcome[int]) -> None:
            failure: VirtualLogError | None = None
            try:
                self._written_to(result.unwrap())
            except VirtualLogError as error:
                failure = error
            done(failure)

        self._storage.writer.write_soon(cut_job, finished)

    def _write_job(self, offset: int, chunks: Sequence[bytes]) -> Callable[[], int]:
        """Job of the writer that returns where the written bytes end, and raises errors of ours."""

        def write() -> int:
            descriptor = self._require_open()
            written = _write_all(descriptor, offset, chunks)
            _sync(descriptor)
            return offset + written

        return lambda: _translated(write)

    def _written_to(self, end: int) -> None:
        self._size = max(self._size, end)

    async def read(self, offset: int, length: int) -> bytes:
        descriptor = self._require_open()
        wanted = max(0, min(length, self._size - offset))
        if wanted <= _LOOP_READ_BYTES_MAX:
            cached = _read_cached(descriptor, offset, wanted)
            if cached is not None:
                return cached
        return await self._storage.on_helper(lambda: _read_all(descriptor, offset, wanted))

    async def truncate(self, size: int) -> None:
        descriptor = self._require_open()

        def truncate() -> None:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)

        await self._storage.writer.do(lambda: _translated(truncate))
        self._size = size

    async def close(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        self._storage.file_closed(self)
        # After the writes and the reads in progress: a descriptor must not be reused under them.
        await self._storage.writer.do(lambda: None)
        await self._storage.on_helper(lambda: os.close(descriptor))

    def forget(self) -> None:
        """Close at once. The threads must have ended."""
        os.close(self._descriptor)
        self._descriptor = -1

    def _require_open(self) -> int:
        if self._descriptor < 0:
            raise StorageError(f"{self._name} is closed")
        return self._descriptor


def sync_names(directory: Path) -> None:
    """Make the names in a directory durable: of files created, renamed or removed. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _translated(job: Callable[[], ResultT]) -> ResultT:
    """Run a job and translate errors of the operating system. The only place that does."""
    try:
        return job()
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(str(error)) from error
        raise StorageError(str(error)) from error


def _lock_directory(path: Path) -> tuple[int, int]:
    """Open and lock a directory; return (directory, lock) as descriptors.

    The sync covers names that a killed process created and did not sync.
    """
    lock = directory = -1
    try:
        path.mkdir(parents=True, exist_ok=True)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=directory)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fsync(directory)
    except OSError as error:
        for descriptor in (directory, lock):
            if descriptor >= 0:
                os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise InvalidSettingError(where=str(path), reason="in use by another process") from error
        raise StorageError(f"{path}: {error}") from error
    return directory, lock


def _write_all(descriptor: int, offset: int, chunks: Sequence[bytes]) -> int:
    """Write the chunks back to back; return the number of bytes.

    Raises:
        OSError: ENOSPC only if nothing has been written; EIO for a disk that became full half-way.
    """
    total = sum(map(len, chunks))
    pending: list[bytes | memoryview] = [b"".join(chunks)] if total <= _JOIN_BYTES_MAX else list(chunks)
    done = first = 0
    while done < total:
        try:
            written = os.pwritev(descriptor, pending[first : first + _IOV_MAX], offset + done)
        except OSError as error:
            if done and error.errno in _FULL:
                raise OSError(errno.EIO, f"the disk ran full after {done} of {total} bytes") from error
            raise
        done += written
        while first < len(pending) and written >= len(pending[first]):
            written -= len(pending[first])
            first += 1
        if written:
            pending[first] = memoryview(pending[first])[written:]
    return total


def _fill(descriptor: int, offset: int, zeros: bytes) -> None:
    _write_all(descriptor, offset, [zeros])
    os.fdatasync(descriptor)


def _sync(descriptor: int) -> None:
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        # Even "no space" means here that written bytes are lost: never `DiskFullError`.
        raise OSError(errno.EIO, f"the sync failed: {error}") from error


def _read_cached(descriptor: int, offset: int, length: int) -> bytes | None:
    """Read bytes that can be had without waiting; None if some cannot: then the helper must read."""
    if not length:
        return b""
    buffer = bytearray(length)
    try:
        count = os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT)
    except OSError:
        return None  # EAGAIN: not cached; EOPNOTSUPP: not on this file system; others come again from the helper
    return bytes(buffer) if count == length else None


def _read_all(descriptor: int, offset: int, length: int) -> bytes:
    """Read at most `length` bytes; fewer only at the end of the file."""
    parts = []
    while length and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]
