"""Test beds: one disk each, real or simulated, that outlives the storages opened on it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Protocol

from virtuallog.contract.ports import Storage
from virtuallog.runtime.disk import DiskStorage
from virtuallog.testing.sim.disk import Disk


class Bed(Protocol):
    """What the conformance tests of `Storage` and of the log need of a disk."""

    def mount(self) -> Storage:
        """The next boot; the one before ends in good order."""
        ...

    def mount_second(self) -> Storage:
        """A second owner, while the first lives."""
        ...

    def unmount(self) -> None: ...

    def image(self, name: str) -> bytes:
        """The bytes of a file."""
        ...

    def names(self) -> list[str]: ...

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Change a file behind the back of its owner, or make one."""
        ...

    def delete(self, name: str) -> None:
        """Remove a file behind the back of its owner; it may be missing."""
        ...


class RealBed:
    """A directory."""

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
    """A `Disk`."""

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
