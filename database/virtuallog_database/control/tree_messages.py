"""Read-only requests about the tree to one server of a database, for the console and other programs
of operators. Each reply is bounded, and shows what this replica has applied.

The identity of a certificate is none that an ACL knows. So a client reads as ZooKeeper's `world`:
it sees what every client of ZooKeeper may see without logging in. An admin may see everything, as
it may write past all ACLs (`WriteRaw`). It asks for that with `as_admin`, so that a program with an
admin's certificate can read on behalf of callers with fewer rights.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.ports import Request

CHILDREN_MAX: Final = 256
"""Most children in one reply: a millisecond of the event loop."""
DATA_BYTES_MAX: Final = 1 << 20
"""Most bytes of data in one reply, as ZooKeeper allows in a znode."""
SESSIONS_MAX: Final = 256
"""Most sessions in one reply."""


@attrs.frozen(kw_only=True)
class AclReport:
    """One entry of an ACL. Hashes of passwords are left out."""

    permissions: int
    scheme: str
    id: str


@attrs.frozen(kw_only=True)
class ZnodeReport:
    """One znode."""

    zxid: int
    """Zxid of the last command that this replica has applied."""
    found: bool
    """False if there is no such znode; all other fields are empty then."""
    readable: bool = False
    """False if its ACL refuses the caller: `data` and `acl` are left out."""
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0
    version: int = 0
    cversion: int = 0
    aversion: int = 0
    ephemeral_owner: int = 0
    """Session of an ephemeral; 0 for other znodes."""
    children: int = 0
    data_bytes: int = 0
    """Bytes of its data, of which `data` has the first ones."""
    data: bytes = b""
    acl: tuple[AclReport, ...] = ()
    data_watches: int = 0
    """Watches on its data that clients of this server have set; for admins."""
    child_watches: int = 0
    """Watches on its children that clients of this server have set; for admins."""


@attrs.frozen(kw_only=True)
class ReadZnode(Request[ZnodeReport]):
    """Ask for one znode."""

    path: str
    data_bytes_max: int
    """Bytes of data that the caller wants, at most `DATA_BYTES_MAX`; 0: none."""
    as_admin: bool = False
    """True: read past the ACL. Ignored if the caller has the certificate of a client."""


@attrs.frozen(kw_only=True)
class ChildReport:
    """One child, with the part of its stat that lists show. Needs no right on the child, as `exists`
    needs none."""

    name: str
    data_bytes: int
    children: int
    ephemeral_owner: int
    mtime_ms: int
    version: int


@attrs.frozen(kw_only=True)
class ChildrenReport:
    """Some children of a znode, in the order of their names."""

    zxid: int
    found: bool
    readable: bool = False
    """False if the ACL refuses the caller to list them."""
    total: int = 0
    """Number of all children."""
    children: tuple[ChildReport, ...] = ()
    has_more: bool = False
    """True if there are more behind the last one."""


@attrs.frozen(kw_only=True)
class ListChildren(Request[ChildrenReport]):
    """Ask for the children behind a name."""

    path: str
    after: str = ""
    """Name behind which the list begins; empty: the first child."""
    count: int = CHILDREN_MAX
    as_admin: bool = False
    """As in `ReadZnode`."""


@attrs.frozen(kw_only=True)
class SessionReport:
    """One session."""

    session: int
    timeout_ms: int
    generation: int
    """Number of its attachments to servers."""
    ephemerals: int
    has_more_ephemerals: bool
    """True if it has more ephemerals than were counted."""
    attached: bool
    """True if a connection of this server serves it."""


@attrs.frozen(kw_only=True)
class SessionsReport:
    """Some sessions, in the order of their numbers, and the connections of this server."""

    zxid: int
    total: int
    """Number of all sessions of the database."""
    ephemerals: int
    """Number of all ephemerals of the database."""
    connections: int
    """Connections of clients to this server."""
    watches: int
    """Watches that clients of this server have set."""
    sessions: tuple[SessionReport, ...] = ()
    has_more: bool = False


@attrs.frozen(kw_only=True)
class ListSessions(Request[SessionsReport]):
    """Ask for the sessions behind a number."""

    after: int = 0
    count: int = SESSIONS_MAX
