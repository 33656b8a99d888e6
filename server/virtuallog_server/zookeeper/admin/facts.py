"""Facts about a server for four-letter words and admin pages, as one value.

Each answer takes them anew. That costs a pass over the connections, but none over the tree or the watches.
`four_letter_words.py` makes text of them, `admin_pages.py` JSON.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import attrs

VERSION: Final = "3.8.0"
"""Version of the protocol. Clients compare it (kazoo does), so it is ZooKeeper's number and not ours."""
BUILD: Final = "virtuallog, built on no date in particular"
"""Programs look for the words `built on`."""


class Mode(enum.Enum):
    """The mode of a server for its clients. No server of the database has a vote in the log; one is called leader because programs
    that watch an ensemble look for exactly one.
    """

    LEADER = "leader"
    FOLLOWER = "follower"
    STANDALONE = "standalone"
    READ_ONLY = "read-only"


LISTED_MAX: Final = 1000
"""Most sessions, ephemerals, watches and connections that a word lists. Any connection may ask, without a session, and there may
be hundreds of thousands. The counts beside them are complete.
"""


@attrs.frozen(kw_only=True)
class ConnectionFacts:
    """One connection."""

    address: str
    """host:port of the peer."""
    session: int = 0
    """Id of its session. 0 if there is none yet."""
    timeout_ms: int = 0
    outstanding: int = 0
    received: int = 0
    sent: int = 0
    established_ms: int = 0
    """Wall-clock milliseconds since the epoch."""
    last_zxid: int = 0
    """The zxid of the last answer."""
    identities: Sequence[str] = ()
    """Identities, without digests."""
    secure: bool = False


@attrs.frozen(kw_only=True)
class Latency:
    """Latencies of requests since the last reset, from arrival to answer, in milliseconds."""

    least: float = 0.0
    mean: float = 0.0
    most: float = 0.0


@attrs.frozen(kw_only=True)
class WatchFacts:
    """Watches: paths by session, over all tables."""

    paths_of: Mapping[int, Sequence[str]] = attrs.field(factory=dict)
    more: int = 0
    """Watches beyond the first `LISTED_MAX`, which are listed."""

    @property
    def sessions_of(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for session, paths in self.paths_of.items():
            for path in paths:
                found.setdefault(path, []).append(session)
        return found

    @property
    def count(self) -> int:
        """Number of all watches."""
        return sum(len(paths) for paths in self.paths_of.values()) + self.more


@attrs.frozen(kw_only=True)
class Traffic:
    """Traffic of all connections; counts are since the last reset."""

    connections: Sequence[ConnectionFacts] = ()
    watches: int = 0
    """Number of watches; `list_watches` tells their sessions."""
    latency: Latency = attrs.field(factory=Latency)
    received: int = 0
    sent: int = 0
    rejected: int = 0
    """Connections that were refused because there were too many."""
    outstanding: int = 0
    """Requests without an answer."""


class CountsTraffic(Protocol):
    """The server of the connections, as far as its counts go."""

    def traffic(self) -> Traffic: ...

    def reset_traffic(self) -> None:
        """Reset the counts."""
        ...


@attrs.frozen(kw_only=True)
class ServerFacts:
    """All facts about one server, at one moment."""

    server: int
    """Number of its node."""
    mode: Mode = Mode.FOLLOWER
    serving: bool = True
    """False if it takes no requests at all; then words that need the tree say so."""
    zxid: int = 0
    nodes: int = 0
    data_bytes: int = 0
    """Bytes of data alone, without paths."""
    ephemerals: int = 0
    sessions: int = 0
    """Sessions of the whole cluster."""
    list_sessions: Callable[[], Mapping[int, int]] = dict
    """Session -> timeout in milliseconds, of the first `LISTED_MAX`."""
    list_ephemerals: Callable[[], Mapping[int, Sequence[str]]] = dict
    """Session -> paths of its ephemerals; `LISTED_MAX` paths at most."""
    list_watches: Callable[[], WatchFacts] = WatchFacts
    traffic: Traffic = attrs.field(factory=Traffic)
    uptime_ms: int = 0
    settings: Mapping[str, object] = attrs.field(factory=dict)
    """Settings by ZooKeeper's names, as `conf` shows them."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """Environment by Java's names, as `envi` shows it."""
    members: Sequence[str] = ()
    """Lines of /zookeeper/config."""
