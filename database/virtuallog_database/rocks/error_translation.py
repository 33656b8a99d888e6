"""Translation of RocksDB's and the operating system's errors into ours; the only place in this
package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from virtuallog.contract.errors import CorruptionError, DiskFullError, StorageError, VirtualLogError

ResultT = TypeVar("ResultT")

_FULL: Final = ("No space left on device", "Disk quota exceeded")


def translated(error: Exception) -> VirtualLogError:
    """Our error for one of the library, which raises plain exceptions with RocksDB's status as
    text."""
    if isinstance(error, VirtualLogError):
        return error
    reason = f"RocksDB: {error}" if type(error) is Exception else str(error)
    if any(full in reason for full in _FULL):
        return DiskFullError(reason)
    return CorruptionError(reason) if "Corruption" in reason else StorageError(reason)


def guarded(job: Callable[[], ResultT]) -> ResultT:
    """Run `job`, and translate the errors that it raises."""
    try:
        return job()
    except Exception as error:
        raise translated(error) from error
