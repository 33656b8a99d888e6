"""What the tree answers: stats, errors, results, and the changes that watches fire on.                           Pure.

Numbers are ZooKeeper's own, so that its wire protocol needs no table.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog_database.tree.commands import Acl


class Error(enum.IntEnum):
    """Why a command was refused. A refusal is a result like any other: it has a zxid, and all replicas agree on it."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    NO_WATCHER = -121
    SASL_REQUIRED = -124
    QUOTA_EXCEEDED = -125


class Stat(NamedTuple):
    """About a znode, as clients see it. Times in milliseconds since the epoch.

    A tuple, in the order in which ZooKeeper's protocol has these fields: one call packs it, and most commands make one.
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    children: int
    pzxid: int


class ChangeKind(enum.IntEnum):
    """ZooKeeper's event types."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


Change: TypeAlias = tuple[ChangeKind, str]
"""What happened to the znode of this path. That the children of its parent changed with it is not said again."""


StoredAcl: TypeAlias = tuple[Acl, ...] | bytes
"""An ACL, or its record: only who watches what a removal concerns needs to know what a long one says."""
Rights: TypeAlias = tuple[StoredAcl, StoredAcl]
"""The ACL of the znode that a change is about, the removed one for a deletion, and that of its parent: at that change, since a later
command of the same transaction may have changed them."""


class Result(NamedTuple):
    """What became of one command. A tuple, as one is made for each command at each replica: a frozen class takes 0.3 us longer."""

    zxid: int
    error: Error
    value: Any = None
    """create: `Created`; set_data, set_acl: `Stat`; multi: a tuple of `Result`, one for each operation, with its own error;
    create_session, attach: `Attached`; else None."""
    changes: tuple[Change, ...] = ()
    """In the order in which they happened; watches fire on them."""
    touched: tuple[int, ...] = ()
    """Sessions that were heard of with it."""
    ended: tuple[int, ...] = ()
    """Sessions that are over with it."""
    rights: tuple[Rights, ...] = ()
    """For each of `changes`."""


@attrs.frozen
class Created:
    path: str
    """With the sequence number, if it has one."""
    stat: Stat


@attrs.frozen
class Attached:
    """A session that can go on at the connection that asked for it."""

    session: int
    generation: int
    """For the `Origin` of its commands."""
    timeout_ms: int


class RefusedError(VirtualLogError):
    """A read of the tree that is answered with an error."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error
