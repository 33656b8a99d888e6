"""Results of the tree: stats, errors, and the changes that watches fire on.

Numbers are ZooKeeper's own, so that its wire protocol needs no table.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog_database.tree.commands import Acl


class Error(enum.IntEnum):
    """Reason of a refusal. A refusal is a result like any other: it has a zxid, and all replicas
    agree on it."""

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
    """Stat of a znode for clients. Times in milliseconds since the epoch.

    A tuple, in the order in which ZooKeeper's protocol has these fields: one call packs it, and
    most commands make one.
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
"""Change of the znode at a path. It implies the change of its parent's children."""


StoredAcl: TypeAlias = tuple[Acl, ...] | bytes
"""An ACL, or its unparsed record: only a watch on a removed znode needs the content of a long one."""
Rights: TypeAlias = tuple[StoredAcl, StoredAcl]
"""ACLs of a changed znode (the removed one for a deletion) and of its parent, as of that change: a
later command of the same transaction may have changed them."""


class Result(NamedTuple):
    """Result of one command. A tuple, as one is made for each command at each replica: a frozen
    class takes 0.3 us longer."""

    zxid: int
    error: Error
    value: Any = None
    """create: `Created`; set_data, set_acl: `Stat`; multi: a tuple of `Result`, one for each
    operation, with its own error; create_session, attach: `Attached`; else None."""
    changes: tuple[Change, ...] = ()
    """Changes in the order in which they happened; watches fire on them."""
    touched: tuple[int, ...] = ()
    """Sessions that the command touched."""
    ended: tuple[int, ...] = ()
    """Sessions that the command ended."""
    rights: tuple[Rights, ...] = ()
    """ACLs for each of `changes`."""


@attrs.frozen
class Created:
    path: str
    """Path of the created znode, with its sequence number if it has one."""
    stat: Stat


@attrs.frozen
class Attached:
    """A session that can go on at the connection that asked for it."""

    session: int
    generation: int
    """Generation for the `Origin` of its commands."""
    timeout_ms: int


class RefusedError(VirtualLogError):
    """A refused read or operation; `error` is the reason."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error
