"""Scratch folders of jobs: private, removed at the end, and by the next job if the process was killed.

    FOLDER/virtuallog-KIND-XXXXXXXX/LOCK     locked while its process lives; removed last
    FOLDER/virtuallog-KIND-XXXXXXXX/work     the job's own

A folder without a lock file is left alone: another program's, one of a former version, or one that is being made.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from virtuallog.runtime import log
from virtuallog.runtime.file_errors import file_errors

_NAME: Final = re.compile(r"virtuallog-[a-z]+-[a-z0-9_]{8}", re.ASCII)
_LOCK: Final = "LOCK"
_WORK: Final = "work"


@contextmanager
def scratch_folder(kind: str, folder: Path | None = None) -> Iterator[Path]:
    """A private, empty folder. What jobs of this user have left that were killed is removed first.

    Args:
        kind: kind of the job, in small letters.
        folder: folder above. None for the system's temporary one.

    Raises:
        StorageError: it cannot be created.
    """
    above = folder or Path(tempfile.gettempdir())
    with suppress(OSError):  # without what was left there is the more room, and no more than that
        remove_remains(above)
    with file_errors(above):
        path, descriptor = _make(above, f"virtuallog-{kind}-")
    try:
        yield path / _WORK
    finally:
        _remove(path)
        os.close(descriptor)


def remove_remains(folder: Path) -> list[Path]:
    """Remove scratch folders of this user in a folder whose processes are gone; returns them. May raise OSError."""
    return [path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name) and _remove_if_left(path)]


def _remove_if_left(path: Path) -> bool:
    try:
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            return False
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_left = _is_at(path, descriptor)
        if is_left:
            log.info("removing what a killed process has left", folder=str(path))
            _remove(path)
    except OSError:  # its process lives
        return False
    else:
        return is_left
    finally:
        os.close(descriptor)


def _make(above: Path, prefix: str) -> tuple[Path, int]:
    """A new folder, and its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another job may have locked and removed it right before.
            if _is_at(path, descriptor):
                (path / _WORK).mkdir()
                return path, descriptor
        except BaseException:
            _remove(path)
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """True if the open lock file is still the one in this folder."""
    try:
        return os.path.samestat((path / _LOCK).lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    """Remove a folder, the lock last: killed in between, the next job goes on. What cannot be removed is left to that job."""
    shutil.rmtree(path / _WORK, ignore_errors=True)
    if not (path / _WORK).exists():
        with suppress(OSError):
            (path / _LOCK).unlink()
            path.rmdir()
