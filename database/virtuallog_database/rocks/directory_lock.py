"""Lock on a directory, for one process at a time. It ends with the process, also by a crash."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_database.rocks.error_translation import guarded


def lock_directory(path: Path) -> int:
    """Lock a directory, which is created if missing. Returns a file descriptor; `os.close` releases
    the lock. May raise OSError.

    Raises:
        InvalidSettingError: another process holds the lock.
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
    """Hold the lock while the block runs.

    Raises:
        InvalidSettingError: another process holds the lock.
        StorageError: the directory cannot be created or opened.
    """
    descriptor = guarded(lambda: lock_directory(path))
    try:
        yield
    finally:
        os.close(descriptor)
