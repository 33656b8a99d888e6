"""Adapter of `Files` to fsspec: any filesystem that it knows, each call in a thread of its own.

Credentials, endpoints and options come from where fsspec and the library behind it look for them
(environment, their files). On a local filesystem files are written beside, synced and then renamed,
because the hot copy is dropped once these are trusted to stay. An object store does as much by
itself. A killed program may leave a file whose name begins with a dot.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from virtuallog.contract.errors import (
    DiskFullError,
    InvalidSettingError,
    StorageError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.runtime.disk import sync_names
from virtuallog_loglets.archive.config import check_url
from virtuallog_loglets.archive.drivers.files import NEEDS

ResultT = TypeVar("ResultT")

THREADS_MAX: Final = 8
"""Most calls in flight at a place that does not answer. Further ones wait, and their callers give
up in time."""
_HERE: Final = Path()
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSED: Final = (PermissionError, NotADirectoryError, IsADirectoryError, FileNotFoundError, FileExistsError)


def absolute_url(place: str, folder: Path = _HERE) -> str:
    """URL of a place that is given as a URL or as a path relative to `folder`.

    The result means the same in all processes on this machine.

    Raises:
        InvalidSettingError: as `check_url`.
    """
    if "://" not in place and "::" not in place:
        # The path as it is: fsspec decodes no %20, and would make another directory.
        place = f"file://{(folder / place).resolve()}"
    check_url(place)
    return place


class FsspecDirectory:
    """One directory, in the thread of the caller. Implements
    `virtuallog_loglets.archive.drivers.files.BlockingFiles`."""

    def __init__(self, url: str) -> None:
        """Open the directory; makes no request yet."""
        self._url = url
        self._opened: tuple[Any, str] | None = None

    def read(self, name: str) -> bytes | None:
        return self._run(lambda fs, path: _read(fs, f"{path}/{name}", None, None))

    def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        return self._run(lambda fs, path: _read(fs, f"{path}/{name}", start, stop))

    def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        return self._run(lambda fs, path: _write(fs, path, name, content, replace))

    def list(self) -> Mapping[str, int]:
        return self._run(_list)

    def delete(self, name: str) -> None:
        self._run(lambda fs, path: _delete(fs, f"{path}/{name}"))

    def directories(self) -> Sequence[str]:
        """Names of the directories in this one, in order: each may be an archive. None if this one
        does not exist."""
        return self._run(_directories)

    def _run(self, function: Callable[[Any, str], ResultT]) -> ResultT:
        with _translated(self._url):
            self._opened = self._opened or _open(self._url)
            return function(*self._opened)


class FsspecFiles:
    """The same for trio. Implements `virtuallog_loglets.archive.drivers.files.Files`."""

    def __init__(self, url: str) -> None:
        """Open the directory; makes no request yet."""
        self._directory = FsspecDirectory(url)
        self._threads = trio.CapacityLimiter(THREADS_MAX)

    async def read(self, name: str) -> bytes | None:
        return await self._run(lambda: self._directory.read(name))

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        return await self._run(lambda: self._directory.read_range(name, start, stop))

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        return await self._run(lambda: self._directory.write(name, content, replace=replace))

    async def list(self) -> Mapping[str, int]:
        return await self._run(self._directory.list)

    async def delete(self, name: str) -> None:
        await self._run(lambda: self._directory.delete(name))

    async def directories(self) -> Sequence[str]:
        """Names of the directories in this one, in order: each may be an archive. None if this one
        does not exist."""
        return await self._run(self._directory.directories)

    async def _run(self, function: Callable[[], ResultT]) -> ResultT:
        """Run in a thread, which goes on after a cancellation: every call here may happen twice, or
        too late."""
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._threads)


def _open(url: str) -> tuple[Any, str]:
    try:
        import fsspec.core  # not before it is needed: processes without archives do without it
    except ImportError as error:
        raise UnsupportedError(NEEDS) from error
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except ValueError as error:
        raise InvalidSettingError("url", f"{url}: {error}") from error
    return filesystem, str(path).rstrip("/")


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Translate any error of fsspec and the libraries behind it."""
    try:
        yield
    except VirtualLogError:
        raise
    except ImportError as error:
        raise UnsupportedError(f"{url} needs a library that is not installed: {error}") from error
    except _REFUSED as error:
        raise StorageError(f"{url}: {error}") from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFullError(f"{url}: {error}") from error
        raise UnavailableError(f"{url}: {type(error).__name__}: {error}") from error
    except Exception as error:  # those of object stores, HTTP clients and so on: unknown
        raise UnavailableError(f"{url}: {type(error).__name__}: {error}") from error


def _read(filesystem: Any, path: str, start: int | None, stop: int | None) -> bytes | None:
    try:
        return bytes(filesystem.cat_file(path, start=start, end=stop))
    except FileNotFoundError:
        return None
    except OSError as error:
        # S3 refuses a range that begins at the end of a file, such as any range of an empty one.
        if start is not None and error.errno == errno.EINVAL and filesystem.size(path) <= start:
            return b""
        raise


def _write(filesystem: Any, path: str, name: str, content: bytes, replace: bool) -> bool:
    if "file" in _protocols(filesystem):
        return _write_locally(Path(path), name, content, replace)
    filesystem.makedirs(path, exist_ok=True)
    try:
        filesystem.pipe_file(f"{path}/{name}", content, mode="overwrite" if replace else "create")
    except FileExistsError:
        return False
    return True


def _write_locally(folder: Path, name: str, content: bytes, replace: bool) -> bool:
    _make_folder(folder)
    descriptor, beside = tempfile.mkstemp(prefix=f".{name}-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            Path(beside).replace(folder / name)
        else:
            os.link(beside, folder / name)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            Path(beside).unlink()
    sync_names(folder)
    return True


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it, durably."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_names(folder.parent)


def _umask() -> int:
    """Umask of the process. Files of `tempfile` are for their owner only, but an archive is for all
    who may read the directory."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)


def _list(filesystem: Any, path: str) -> Mapping[str, int]:
    return {name: int(entry.get("size") or 0) for name, entry in _entries(filesystem, path, "file")}


def _directories(filesystem: Any, path: str) -> Sequence[str]:
    return [name for name, _ in _entries(filesystem, path, "directory")]


def _entries(filesystem: Any, path: str, kind: str) -> Sequence[tuple[str, Any]]:
    """Entries of a kind, in order of names, without hidden ones."""
    filesystem.invalidate_cache()  # object stores remember what they have listed
    try:
        found = filesystem.ls(path, detail=True)
    except FileNotFoundError:
        return []
    named = [(str(entry["name"]).rstrip("/").rsplit("/", 1)[-1], entry) for entry in found if entry["type"] == kind]
    return sorted(((name, entry) for name, entry in named if not name.startswith(".")), key=lambda pair: pair[0])


def _delete(filesystem: Any, path: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.rm_file(path)


def _protocols(filesystem: Any) -> tuple[str, ...]:
    found = filesystem.protocol
    return (found,) if isinstance(found, str) else tuple(found)
