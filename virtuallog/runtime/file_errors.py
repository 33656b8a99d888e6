"""Translation of file system errors, for code that reads and writes files of a cluster without a port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from virtuallog.contract.errors import StorageError


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Translate errors of the file system into ours.

    Raises:
        StorageError: an error of the file system; names `path`.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error}") from error
