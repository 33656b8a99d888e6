"""Requests, answers and events of database clients, as they are in a history.

A connection is the unit: its requests are answered in order, and its events come in between. So each action names the
connection, and the order in which its answers and events stand in the history is the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from virtuallog_database.tree.commands import Check, Create, Delete, SetAcl, SetData
from virtuallog_database.tree.results import ChangeKind


@attrs.frozen
class Transaction:
    """A multi."""

    operations: tuple[Create | Delete | SetData | Check, ...]


@attrs.frozen
class Close:
    """Ends the session."""


@attrs.frozen
class Exists:
    """Answer: `Stat`, or NO_NODE. The watch is set in both cases."""

    path: str
    watch: bool = False


@attrs.frozen
class GetData:
    """Answer: (data, `Stat`)."""

    path: str
    watch: bool = False


@attrs.frozen
class GetChildren:
    """Answer: (names, sorted, `Stat`)."""

    path: str
    watch: bool = False


@attrs.frozen
class Sync:
    """Answer: None, once this server has everything that was acknowledged to any client before."""

    path: str = "/"


@attrs.frozen
class Ping:
    """Answer: None."""


@attrs.frozen
class AddWatch:
    """One that stays: of this path, or of everything from it on."""

    path: str
    recursive: bool


@attrs.frozen
class SetWatches:
    """Sent after a reconnect: the watches of the former connection, and the last zxid it had seen.
    Changes since then are reported at once."""

    since: int
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()
    persistent: tuple[str, ...] = ()
    recursive: tuple[str, ...] = ()


@attrs.frozen
class CheckWatches:
    """Answer: None, or NO_WATCHER. `kind` 1 stands for watches of children, 2 for those of data."""

    path: str
    kind: int


@attrs.frozen
class RemoveWatches:
    """Like `CheckWatches`, and removes them."""

    path: str
    kind: int


@attrs.frozen
class GetAcl:
    """Answer: (ACL, `Stat`)."""

    path: str


@attrs.frozen
class GetEphemerals:
    """Answer: the paths of the session's own that begin so, sorted."""

    prefix: str


@attrs.frozen
class CountAll:
    """Answer: how many znodes are below this one, however far."""

    path: str


@attrs.frozen
class MultiRead:
    """Answer: one `Answer` for each read. A list of names comes without a stat."""

    reads: tuple[GetData | GetChildren, ...]


@attrs.frozen
class Auth:
    """Answer: None, or AUTH_FAILED and the end of the connection."""

    scheme: str
    credential: bytes


@attrs.frozen
class Login:
    """One token of SASL DIGEST-MD5, an empty one first. Answer: the server's token."""

    user: str
    password: str = attrs.field(repr=False)
    """Password that the second token proves."""
    token: bytes = attrs.field(repr=False)


@attrs.frozen
class WhoAmI:
    """Answer: pairs of scheme and user, sorted."""


@attrs.frozen
class Reconfig:
    """A change of the list of servers. Answer: (data, `Stat`) of /zookeeper/config."""

    joining: str | None
    leaving: str | None
    from_version: int


Write: TypeAlias = Create | Delete | SetData | SetAcl | Transaction | Close
Read: TypeAlias = Exists | GetData | GetChildren
OtherRead: TypeAlias = GetAcl | GetEphemerals | CountAll | MultiRead | WhoAmI
Request: TypeAlias = (
    Write
    | Read
    | OtherRead
    | Sync
    | Ping
    | AddWatch
    | SetWatches
    | CheckWatches
    | RemoveWatches
    | Auth
    | Login
    | Reconfig
)


@attrs.frozen
class Rules:
    """The settings of all servers, as far as they decide who may do what."""

    super_digest: str = ""
    users: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    """Passwords by user."""
    sasl_required: bool = False


@attrs.frozen
class Connect:
    """A handshake. Result: `Granted`; an end without one says nothing, also not that no session was made."""

    connection: int
    session: int
    """0: a new one."""
    last_zxid: int
    """The newest state that the client has seen."""
    timeout_ms: int
    password: bytes = attrs.field(default=b"", repr=False)
    read_only: bool = False
    """Reads will do."""


@attrs.frozen
class Granted:
    """Session parameters in the server's answer."""

    session: int
    """0: the session that was asked for is gone."""
    timeout_ms: int
    password: bytes = attrs.field(repr=False)
    read_only: bool = False


@attrs.frozen
class Asked:
    """One request on a connection. Result: `Answer`."""

    connection: int
    session: int
    request: Request


@attrs.frozen
class Answer:
    """A reply."""

    zxid: int
    error: int
    value: Any = None


@attrs.frozen
class Event:
    """A watch has fired. Result: None."""

    connection: int
    session: int
    kind: ChangeKind
    path: str
