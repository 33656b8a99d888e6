"""The port to where archives are: one flat directory of files, somewhere.

Made for object stores: files are written whole, once, and never changed; there is no append and no lock. The adapter to
fsspec is `fsspec_files.py`; the simulator has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

NEEDS: Final = "archives need more libraries: pip install 'virtuallog[archive]'"


class Files(Protocol):
    """The files of one archive. Names have no slashes.

    Every method may raise:
        UnavailableError: no answer; a write or a delete may have happened, or may yet.
        DiskFullError: a write, for want of room; nothing is there under that name.
        StorageError: refused for good: no permission, no such place.
        UnsupportedError: the library that speaks this protocol is not installed.
    """

    async def read(self, name: str) -> bytes | None:
        """The whole file; None: there is none of this name."""
        ...

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        """Its bytes [start, stop), fewer at its end; None: there is none of this name."""
        ...

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        """Make a file, in one step where the filesystem can: nobody sees half of it, now or after a crash. Durable on return.

        Cancelling the wait does not say whether it happened.

        Args:
            name: of the file.
            content: all of it.
            replace: what stands there under this name; otherwise that stays.

        Returns:
            False if there is such a file, and it was to stay. Where a filesystem cannot tell in one step, two writers at the
            same time may both be told True.
        """
        ...

    async def list(self) -> Mapping[str, int]:
        """Size of each file by name, as new as any write that returned before the call; empty if there is no directory."""
        ...

    async def delete(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        ...


class BlockingFiles(Protocol):
    """The files of one archive for whoever reads them without trio, as in a worker of Spark. Methods, and errors, as `Files`."""

    def read(self, name: str) -> bytes | None: ...

    def read_range(self, name: str, start: int, stop: int) -> bytes | None: ...

    def list(self) -> Mapping[str, int]: ...


OpenFiles: TypeAlias = Callable[[str], Files]
"""The directory with this URL; asks nobody before the first operation.

Raises:
    InvalidSettingError: not a URL that anybody here understands.
"""
