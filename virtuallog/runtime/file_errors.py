"""Errors of the file system, for those who read and write files of a cluster without a port in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from virtuallog.contract.errors import StorageError


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turns errors of the file system into ours.

    Raises:
        StorageError: names `path`.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error}") from error
