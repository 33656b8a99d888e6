"""Refusals of the tree as exceptions, one class for each that a program might want to catch.                        Pure.

A refusal is definite: nothing was changed, and the same again will be refused again while the tree is as it is. What is not
known (`UnavailableError`) is none of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from virtuallog.contract.errors import TerminalError
from virtuallog_database.tree.results import Error, Result


class DatabaseError(TerminalError):
    """The tree has refused; `error` says why in ZooKeeper's words, `path` where."""

    def __init__(self, error: Error, path: str) -> None:
        super().__init__(f"{path}: {error.name.lower().replace('_', ' ')}" if path else error.name.lower())
        self.error = error
        self.path = path


class NoNodeError(DatabaseError):
    """There is no znode of this path, or of its parent's."""


class NodeExistsError(DatabaseError):
    """There is one already."""


class BadVersionError(DatabaseError):
    """The znode has another version than the one that was expected."""


class NotEmptyError(DatabaseError):
    """It has children."""


class NoAuthError(DatabaseError):
    """Its ACL does not allow this."""


class NoChildrenForEphemeralsError(DatabaseError):
    """An ephemeral has no children."""


class SessionExpiredError(DatabaseError):
    """The session is over, and its ephemerals are gone."""


class QuotaExceededError(DatabaseError):
    """A quota that is enforced would be exceeded."""


class InvalidAclError(DatabaseError):
    """The ACL is empty, or names what does not exist."""


class BadArgumentsError(DatabaseError):
    """Not a path, or flags that do not go together."""


class TransactionError(DatabaseError):
    """None of the operations was carried out. `index` is the first one that was refused; `results` has all, as the
    tree answered them."""

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
    """The exception for `error`, which is not OK."""
    return _CLASSES.get(error, DatabaseError)(error, path)
