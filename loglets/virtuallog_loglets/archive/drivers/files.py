"""Port to the place of an archive: one flat directory of files.

Made for object stores: files are written whole, once, and never changed. There is no append and no
lock. The adapter to fsspec is `fsspec_files.py`; the simulator has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

NEEDS: Final = "archives need more libraries: pip install 'virtuallog[archive]'"


class Files(Protocol):
    """Files of one archive. Names have no slashes.

    Every method may raise:
        UnavailableError: no answer; a write or a delete may have happened, or may yet.
        DiskFullError: a write, for want of room; nothing is there under that name.
        StorageError: refused for good: no permission, no such place.
        UnsupportedError: the library that speaks this protocol is not installed.
    """

    async def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is none of this name."""
        ...

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        """Bytes [start, stop) of a file, fewer at its end; None if there is none of this name."""
        ...

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        """Write a file, atomically if the filesystem can: no reader sees half of it, now or after a
        crash. Durable on return.

        Cancelling the wait does not say if it happened.

        Args:
            name: name of the file.
            content: all of it.
            replace: True to replace a file of this name; otherwise that stays.

        Returns:
            False if there is such a file, and it was to stay. If a filesystem cannot tell atomically, two concurrent
            writers may both get True.
        """
        ...

    async def list(self) -> Mapping[str, int]:
        """Size of each file by name, as new as any write that returned before the call; empty if
        there is no directory."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a file; a missing one is no error."""
        ...


class Directory(Files, Protocol):
    """Files of a directory that has others in it."""

    async def directories(self) -> Sequence[str]:
        """Names of the directories in this one, in order; empty if it does not exist."""
        ...


class BlockingFiles(Protocol):
    """Files of one archive for callers without trio, as in a worker of Spark. Methods and errors
    are those of `Files`."""

    def read(self, name: str) -> bytes | None: ...

    def read_range(self, name: str, start: int, stop: int) -> bytes | None: ...

    def list(self) -> Mapping[str, int]: ...


OpenDirectory: TypeAlias = Callable[[str], Directory]
"""As `OpenFiles`, for directories with others in them."""
OpenFiles: TypeAlias = Callable[[str], Files]
"""Opens the directory with this URL; makes no request before the first operation.

Raises:
    InvalidSettingError: the URL is not understood.
"""
