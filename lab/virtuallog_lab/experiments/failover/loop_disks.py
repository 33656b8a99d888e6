"""Disks that a program can stall: a file system for each host, in a file of its own. Needs root.

A frozen file system takes no write and no sync until it is thawed: to a process that writes, the disk stands still.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

DISK_BYTES: Final = 2 << 30
"""Size of each file system; its file takes only what is written."""


@attrs.define(eq=False)
class LoopDisks:
    """Mounted file systems, by host."""

    _mounts: dict[str, Path]
    _frozen: set[str] = attrs.field(factory=set, init=False)

    def folder(self, host: str) -> Path:
        """Folder on the disk of a host."""
        return self._mounts[host] / "data"

    def freeze(self, host: str) -> None:
        """Have every write and sync wait, from now on."""
        self._frozen.add(host)
        _run("fsfreeze", "--freeze", str(self._mounts[host]))

    def thaw(self, host: str) -> None:
        """Let writes go on."""
        _run("fsfreeze", "--unfreeze", str(self._mounts[host]))
        self._frozen.discard(host)

    def thaw_all(self) -> None:
        """Thaw what is frozen: a process that waits for a frozen disk cannot be ended."""
        for host in list(self._frozen):
            self.thaw(host)


@contextmanager
def open_loop_disks(folder: Path, hosts: Sequence[str]) -> Iterator[LoopDisks]:
    """Make and mount a file system for each host in `folder`, for the length of the block.

    Raises:
        subprocess.CalledProcessError: this process may not.
    """
    mounts: dict[str, Path] = {}
    disks = LoopDisks(mounts)
    try:
        for host in hosts:
            image, mount = folder / f"disk-{host}.img", folder / f"disk-{host}"
            with image.open("wb") as file:
                file.truncate(DISK_BYTES)
            _run("mkfs.ext4", "-q", str(image))
            mount.mkdir()
            _run("mount", "-o", "loop", str(image), str(mount))
            mounts[host] = mount
        yield disks
    finally:
        disks.thaw_all()
        for mount in mounts.values():
            _run("umount", "--lazy", str(mount))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
