"""Commands of clients and servers to the tree, as they travel through the log.

Every replica executes a command at its position, never before (OSDI'20, section 4). So a command
carries everything that its outcome depends on: its origin, and the time.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs


class Mode(enum.IntEnum):
    """Kinds of znodes; ZooKeeper's flags."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    TTL = 5
    TTL_SEQUENTIAL = 6


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


@attrs.frozen
class Identity:
    """An identity that a connection has proved: ("ip", "127.0.0.1"), ("digest", "user:hash"),
    ("world", "anyone")."""

    scheme: str
    id: str


@attrs.frozen
class Acl:
    permissions: int
    scheme: str
    id: str


OPEN_ACL = (Acl(int(Permission.ALL), "world", "anyone"),)
ANY_VERSION = -1
TTL_MS_MAX = (1 << 40) - 1
"""Longest time to live: ZooKeeper keeps 40 bits of it."""
PASSWORD_BYTES = 16
"""Bytes of a session's password, as ZooKeeper's clients expect it."""


@attrs.frozen(cache_hash=True)
class Origin:
    """Session and identities on whose behalf a command is executed. Make one for each connection
    rather than one for each command: its encoding is cached."""

    session: int = 0
    """Id of the session; 0 if there is none. Such a command creates no ephemerals."""
    generation: int = 0
    """Number of the session's attachments to servers. A command from a former server is refused:
    SESSION_MOVED."""
    identities: tuple[Identity, ...] = ()


@attrs.frozen
class Create:
    path: str
    data: bytes | None
    acl: tuple[Acl, ...] = OPEN_ACL
    mode: int = Mode.PERSISTENT
    """A `Mode`; any other value is refused when it is applied, as in ZooKeeper."""
    ttl_ms: int = 0
    """Time to live of a TTL znode, from 1 to `TTL_MS_MAX`; 0 for other znodes."""


@attrs.frozen
class Delete:
    path: str
    version: int = ANY_VERSION


@attrs.frozen
class SetData:
    path: str
    data: bytes | None
    version: int = ANY_VERSION


@attrs.frozen
class SetAcl:
    path: str
    acl: tuple[Acl, ...]
    version: int = ANY_VERSION


@attrs.frozen
class Check:
    """Refuse the multi unless the znode has this version. Only within a multi."""

    path: str
    version: int = ANY_VERSION


@attrs.frozen
class Multi:
    """Several operations under one zxid, all or none; later ones see the effects of earlier ones."""

    operations: tuple[Create | Delete | SetData | Check, ...]


@attrs.frozen
class CreateSession:
    """Create a session, with an id and password drawn by the proposer. A taken id is refused:
    NODE_EXISTS. The first generation is 1."""

    session: int
    password: bytes
    timeout_ms: int


@attrs.frozen
class Attach:
    """Continue a session at another connection: it gets the next generation. Refused if it is
    unknown or the password is wrong: SESSION_EXPIRED."""

    session: int
    password: bytes
    timeout_ms: int


@attrs.frozen
class CloseSession:
    """End the session and delete its ephemerals, under one zxid."""

    session: int


@attrs.frozen
class Touch:
    """From a server: it has heard of these sessions since its last Touch."""

    sessions: tuple[int, ...]


@attrs.frozen
class ExpireSessions:
    """From a server: it has not seen these sessions touched for their timeouts. Pairs of a session
    and the number of its touches then. A session that was touched in between lives on."""

    sessions: tuple[tuple[int, int], ...]


@attrs.frozen
class Reap:
    """From a server: delete these containers and TTL nodes, if they still have no children and
    their time is still over."""

    paths: tuple[str, ...]


Operation: TypeAlias = (
    Create
    | Delete
    | SetData
    | SetAcl
    | Check
    | Multi
    | CreateSession
    | Attach
    | CloseSession
    | Touch
    | ExpireSessions
    | Reap
)


@attrs.define
class Command:
    """One operation in the log. Must not be changed. Not frozen: a frozen class takes 0.2 us
    longer, and each replica makes one for each command."""

    operation: Operation
    origin: Origin
    time_ms: int
    """Wall clock of the proposer, in milliseconds."""
    size: int = attrs.field(default=0, eq=False, repr=False)
    """Bytes in the log, which bound the command's work."""
