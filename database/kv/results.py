"""What the tree answers: stats, errors, results, and the changes that watches fire on.                           Pure.

Numbers are ZooKeeper's own, so that its wire protocol needs no table.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs


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
    QUOTA_EXCEEDED = -125


@attrs.frozen(slots=True)
class Stat:
    """About a znode, as clients see it. Times in milliseconds since the epoch."""

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


@attrs.frozen
class Result:
    """What became of one command."""

    zxid: int
    error: Error
    value: Any = None
    """create: `Created`; set_data, set_acl: `Stat`; multi: a tuple of `Result`; create_session, attach: `Session`; else None."""


@attrs.frozen
class Created:
    path: str
    """With the sequence number, if it has one."""
    stat: Stat
