"""What clients ask of the tree: the commands that travel through the log.                                        Pure.

A command is executed by every replica at its position, never before (OSDI'20, section 4), so it carries all that its outcome
depends on: who asks, and what time it is.
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
    """Somebody that a connection has proved to be: ("ip", "127.0.0.1"), ("digest", "user:hash"), ("world", "anyone")."""

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
"""ZooKeeper keeps 40 bits of it."""
PASSWORD_BYTES = 16
"""Of a session, as ZooKeeper's clients expect it."""


@attrs.frozen(cache_hash=True)
class Origin:
    """On whose behalf a command is executed. Make one for each connection rather than one for each command: its encoding is
    remembered."""

    session: int = 0
    """0: none. Such a command creates no ephemerals."""
    generation: int = 0
    """How often the session has been attached to a server; one of a former server is refused: SESSION_MOVED."""
    identities: tuple[Identity, ...] = ()


@attrs.frozen
class Create:
    path: str
    data: bytes | None
    acl: tuple[Acl, ...] = OPEN_ACL
    mode: int = Mode.PERSISTENT
    """A `Mode`; anything else is refused when it is applied, as ZooKeeper does."""
    ttl_ms: int = 0
    """Of TTL znodes, and of no others: from 1 to `TTL_MS_MAX`."""


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
    """Only within a multi."""

    path: str
    version: int = ANY_VERSION


@attrs.frozen
class Multi:
    """All or nothing, under one zxid; later ones see what earlier ones did."""

    operations: tuple[Create | Delete | SetData | Check, ...]


@attrs.frozen
class CreateSession:
    """The proposer draws id and password; an id that is taken is refused: NODE_EXISTS. The first generation is 1."""

    session: int
    password: bytes
    timeout_ms: int


@attrs.frozen
class Attach:
    """The session goes on at another connection: it gets the next generation. Refused if it is unknown or the password wrong:
    SESSION_EXPIRED."""

    session: int
    password: bytes
    timeout_ms: int


@attrs.frozen
class CloseSession:
    """Ends the session and deletes its ephemerals, under one zxid."""

    session: int


@attrs.frozen
class Touch:
    """For the database itself. A server has heard of these sessions since its last Touch."""

    sessions: tuple[int, ...]


@attrs.frozen
class ExpireSessions:
    """For the database itself. A server has not seen these sessions touched for as long as their timeouts: pairs of session and the number of
    touches then. One that was touched in between lives on."""

    sessions: tuple[tuple[int, int], ...]


@attrs.frozen
class Reap:
    """For the database itself. Delete these containers and TTL nodes, where they still have no children, and their time is still over."""

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
    """One operation in the log. Not to be changed; a frozen class takes 0.2 us longer, and each replica makes one for each command."""

    operation: Operation
    origin: Origin
    time_ms: int
    """The proposer's wall clock."""
    size: int = attrs.field(default=0, eq=False, repr=False)
    """Bytes that it takes in the log: what it may cost goes by them."""
