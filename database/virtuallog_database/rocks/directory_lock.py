"""A directory that one process at a time works in. The lock ends with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_database.rocks.error_translation import guarded


def lock_directory(path: Path) -> int:
    """Make the directory if need be, and take it; returns what is to be closed by `os.close` to give it back. Raises OSError besides.

    Raises:
        InvalidSettingError: somebody else has it.
    """
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InvalidSettingError(str(path), "is used by another process") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """For the length of the block.

    Raises:
        InvalidSettingError: somebody else has it.
        StorageError: it cannot be made, or opened.
    """
    descriptor = guarded(lambda: lock_directory(path))
    try:
        yield
    finally:
        os.close(descriptor)
