"""Test beds: one disk each, real or simulated, that outlives the storages opened on it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Protocol

from virtuallog.contract.ports import Storage
from virtuallog.runtime.disk import DiskStorage
from virtuallog.testing.sim.disk import Disk


class Bed(Protocol):
    """A disk, as the conformance tests of `Storage` and of the log need it."""

    def mount(self) -> Storage:
        """Return the storage of the next boot; the one before ends in good order."""
        ...

    def mount_second(self) -> Storage:
        """Try to open a second storage, while the first lives."""
        ...

    def unmount(self) -> None: ...

    def image(self, name: str) -> bytes:
        """Return the bytes of a file."""
        ...

    def names(self) -> list[str]: ...

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Change a file, or make one, without its owner's knowledge."""
        ...

    def delete(self, name: str) -> None:
        """Remove a file without its owner's knowledge; it may be missing."""
        ...


class RealBed:
    """A bed on a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._storage: DiskStorage | None = None

    def mount(self) -> DiskStorage:
        self.unmount()
        self._storage = DiskStorage(self.path)
        return self._storage

    def mount_second(self) -> DiskStorage:
        return DiskStorage(self.path)

    def unmount(self) -> None:
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    def image(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name != "LOCK")

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        path = self.path / name
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(offset)
            file.write(data)

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


class SimulatedBed:
    """A bed on a simulated `Disk`."""

    def __init__(self) -> None:
        self.disk = Disk(Random(1))

    def mount(self) -> Storage:
        self.unmount()
        return self.disk.mount()

    def mount_second(self) -> Storage:
        return self.disk.mount()

    def unmount(self) -> None:
        if self.disk.mounted is not None:
            self.disk.mounted.close()

    def image(self, name: str) -> bytes:
        return self.disk.peek(name)

    def names(self) -> list[str]:
        return sorted(self.disk.files)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        self.disk.overwrite(name, offset, data)

    def delete(self, name: str) -> None:
        self.disk.files.pop(name, None)
