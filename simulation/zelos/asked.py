"""What clients of a Zelos ask and hear, as it stands in a history.                                                Pure.

A connection is the unit: its requests are answered in order, and its events come in between. So each action names the
connection, and the order in which its answers and events stand in the history is the order in which they came.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from database.kv.commands import Check, Create, Delete, SetData
from database.kv.results import ChangeKind


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
    """Answer: None, once this server has everything that was acknowledged to anybody before."""

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
    """After a reconnect: those that the former connection had, and what it had seen. What has changed since is told at once."""

    since: int
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()


Write: TypeAlias = Create | Delete | SetData | Transaction | Close
Read: TypeAlias = Exists | GetData | GetChildren
Request: TypeAlias = Write | Read | Sync | Ping | AddWatch | SetWatches


@attrs.frozen
class Connect:
    """A handshake. Result: `Granted`; an end without one says nothing, also not that no session was made."""

    connection: int
    session: int
    """0: a new one."""
    last_zxid: int
    """The newest state that the client has seen."""
    timeout_ms: int


@attrs.frozen
class Granted:
    """What the server answered."""

    session: int
    """0: the session that was asked for is gone."""
    timeout_ms: int
    password: bytes = attrs.field(repr=False)


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
