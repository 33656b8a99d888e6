"""The file `pid` in a data directory: the number of the process that uses it.

The process that holds LOCK writes it, and removes it at an orderly end. A process that was killed leaves it; `virtuallog up`,
which has started that process, removes it (`drop`). So `find` checks that the process exists and LOCK is held: after a while,
above all in containers, another process has the number.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from virtuallog.runtime.disk import LOCK
from virtuallog.runtime.file_errors import file_errors

NAME: Final = "pid"


@contextmanager
def written(folder: Path) -> Iterator[None]:
    """Write the number of this process, which holds LOCK in `folder`, for the length of the block.

    Raises:
        StorageError: the file cannot be written.
    """
    own = os.getpid()
    with file_errors(folder):
        new = folder / f"{NAME}.new"
        new.write_text(f"{own}\n")
        new.replace(folder / NAME)
    try:
        yield
    finally:
        drop(folder, own)


def read(folder: Path) -> int | None:
    """The number in the file. None if there is no file."""
    with suppress(OSError, ValueError):
        return int((folder / NAME).read_text())
    return None


def find(folder: Path) -> int | None:
    """The number in the file, if a process has that number, and the directory is in use. None otherwise."""
    pid = read(folder)
    if pid is None or pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # the process of another user
    return pid if _is_locked(folder) else None


def _is_locked(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be found out
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def drop(folder: Path, pid: int) -> None:
    """Remove the file if it names the process `pid`, which has ended or is about to."""
    if read(folder) == pid:
        with suppress(OSError):
            (folder / NAME).unlink()
