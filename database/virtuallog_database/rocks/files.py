"""Helpers for files and directories of a store. All of them block: call them in a thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from crc32c import crc32c

from virtuallog_database.ports import CheckpointFile

_READ_BYTES: Final = 1 << 20


def names_in(directory: Path) -> list[str]:
    """Names in a directory, sorted; none if it does not exist."""
    with suppress(FileNotFoundError):
        return sorted(entry.name for entry in directory.iterdir())
    return []


def described(path: Path) -> CheckpointFile:
    """A file with its size and checksum; reads the file."""
    checksum = size = 0
    for content in _pieces(path):
        checksum = crc32c(content, checksum)
        size += len(content)
    return CheckpointFile(path.name, size, checksum)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while content := file.read(_READ_BYTES):
            yield content


def read_at(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        return file.read(length)


def write_at(path: Path, offset: int, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while content:
            written = os.pwrite(descriptor, content, offset)
            content, offset = content[written:], offset + written
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Make a file's content durable, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, content: bytes) -> None:
    write_at(path, 0, content)
    sync(path)


def sync_below(directory: Path) -> None:
    """Make every file in a directory durable, and their names."""
    for name in names_in(directory):
        sync(directory / name)
    sync(directory)


def remove(path: Path) -> None:
    """Remove a file or directory; a missing one is no error. It may come back after a crash: code
    that finds it must tolerate that."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
