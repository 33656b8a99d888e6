"""Reasons for which a node, or a role of one, stopped for good: there are few good ones.

A disk that failed, filled up, rotted or was replaced is a reason. Anything else at best looks like
one. No other check would notice, as a stopped node endangers nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    MalformedError,
    RetryableError,
    StorageError,
    WrongRecipientError,
)
from virtuallog.runtime.restart_backoff import is_bug
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation

ROT: Final = ("bit flipped", "store bit flipped")
"""Counter of unreadable disks that are not the product's fault: of files, and of key-value stores."""
STORE_LOST: Final = "store gone"
"""Counted where the directory of a store is deleted: its role is refused for good, unless it recovers it from others."""
BEGAN_ANEW: Final = "role begun anew"
"""Counted each time that the judge sees one."""
HALF_IMPORTED: Final = "import cut short"
"""Counter of nodes started on a directory whose register is of another cluster than its identity
(`virtuallog_server.storage.register_import`)."""
REPLACEMENT_ASKED: Final = "replacement asked for"
"""Counted where an operator asks to replace the directory of a node, which may run until it hears of it."""
_FAILED: Final = (
    "write error", "create error", "sync error", "read error", "disk full",
    "store write error", "store sync error", "store read error", "store full",
)  # fmt: skip
_UNREADABLE: Final = (CorruptionError, MalformedError)
"""Error texts that rot explains. A flipped bit of a magic number makes the file that of another
program."""


def stopped_for_a_reason(
    history: History, who: str, error: BaseException, happened: Collection[str]
) -> Iterator[Violation]:
    """A good one.

    Args:
        history: so far.
        who: has stopped.
        error: that it stopped with.
        happened: what was ever counted of the disks of its machine.
    """
    if isinstance(error, RetryableError) and is_bug(error):
        yield from began_anew_for_a_reason(history, who, error, happened)
    elif not _is_good(error, set(happened)):
        told = f"after {', '.join(sorted(happened))}" if happened else "with disks that have never failed"
        message = f"{who} has stopped for good, {told}: {type(error).__name__}: {error}"
        yield Violation("no unexpected error", message, (len(history.events) - 1,))


def began_anew_for_a_reason(
    history: History, who: str, error: RetryableError, happened: Collection[str]
) -> Iterator[Violation]:
    """A full disk is the only one: any other retryable error is for the caller of one operation, and ends no role.

    Args: as above.
    """
    if is_bug(error) or not _is_good(error, set(happened)):
        message = f"{who} was ended by a retryable error: {type(error).__name__}: {error}"
        yield Violation("no role closes by a retryable error", message, (len(history.events) - 1,))


def refuses_rot(error: BaseException, happened: Collection[str]) -> bool:
    """True if a flipped bit was noticed, as far as one can tell."""
    return isinstance(error, _UNREADABLE) and not set(happened).isdisjoint(ROT)


def _is_good(error: BaseException, happened: set[str]) -> bool:
    match error:
        case CorruptionError() | MalformedError():
            return not happened.isdisjoint((*ROT, STORE_LOST))
        case StorageError() | DiskFullError():
            return not happened.isdisjoint(_FAILED)
        case WrongRecipientError():
            return not happened.isdisjoint(("wiped", HALF_IMPORTED, REPLACEMENT_ASKED))
        case _:
            return False
