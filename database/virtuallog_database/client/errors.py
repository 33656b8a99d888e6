"""Refusals of the database as exceptions, one class for each that a program might want to catch.

A refusal is definite: nothing was changed, and the same operation is refused again while the tree
is as it is. An unknown outcome (`UnavailableError`) is none of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from virtuallog.contract.errors import TerminalError
from virtuallog_database.tree.results import Error, Result


class DatabaseError(TerminalError):
    """The database has refused. `error` gives the reason in ZooKeeper's words, `path` the znode."""

    def __init__(self, error: Error, path: str) -> None:
        super().__init__(f"{path}: {error.name.lower().replace('_', ' ')}" if path else error.name.lower())
        self.error = error
        self.path = path


class NoNodeError(DatabaseError):
    """The znode, or its parent, does not exist."""


class NodeExistsError(DatabaseError):
    """The znode exists already."""


class BadVersionError(DatabaseError):
    """The znode has another version than the expected one."""


class NotEmptyError(DatabaseError):
    """The znode has children."""


class NoAuthError(DatabaseError):
    """The ACL of the znode does not allow this."""


class NoChildrenForEphemeralsError(DatabaseError):
    """The parent is an ephemeral, which cannot have children."""


class SessionExpiredError(DatabaseError):
    """The session is over, and its ephemerals are deleted."""


class QuotaExceededError(DatabaseError):
    """An enforced quota would be exceeded."""


class InvalidAclError(DatabaseError):
    """The ACL is empty, or names an unknown scheme or identity."""


class BadArgumentsError(DatabaseError):
    """Not a valid path, or flags that exclude each other."""


class TransactionError(DatabaseError):
    """No operation of the transaction was carried out. `index` is the first refused operation;
    `results` has the result of each, as the database returned them."""

    def __init__(self, error: Error, path: str, index: int, results: Sequence[Result]) -> None:
        super().__init__(error, path)
        self.index = index
        self.results = results


_CLASSES: Final = {
    Error.NO_NODE: NoNodeError,
    Error.NODE_EXISTS: NodeExistsError,
    Error.BAD_VERSION: BadVersionError,
    Error.NOT_EMPTY: NotEmptyError,
    Error.NO_AUTH: NoAuthError,
    Error.NO_CHILDREN_FOR_EPHEMERALS: NoChildrenForEphemeralsError,
    Error.SESSION_EXPIRED: SessionExpiredError,
    Error.UNKNOWN_SESSION: SessionExpiredError,
    Error.SESSION_MOVED: SessionExpiredError,
    Error.QUOTA_EXCEEDED: QuotaExceededError,
    Error.INVALID_ACL: InvalidAclError,
    Error.BAD_ARGUMENTS: BadArgumentsError,
}


def refusal(error: Error, path: str) -> DatabaseError:
    """The exception for `error`, which must not be OK."""
    return _CLASSES.get(error, DatabaseError)(error, path)
