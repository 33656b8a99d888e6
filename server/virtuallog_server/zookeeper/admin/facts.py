"""What four-letter words and admin pages tell of a server, as one value.                                          Pure.

Whoever answers asks for it anew each time; taking it costs a pass over the connections, but none over the tree or the watches. `words.py` makes text
of it, `admin.py` JSON.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import attrs

VERSION: Final = "3.8.0"
"""Of the protocol. Clients compare it (kazoo does), so it says ZooKeeper's number and not ours."""
BUILD: Final = "virtuallog, built on no date in particular"
"""Programs look for the words `built on`."""


class Mode(enum.Enum):
    """What a server is for its clients. No server of the database has a vote in the log; one is called leader because programs
    that watch an ensemble look for exactly one."""

    LEADER = "leader"
    FOLLOWER = "follower"
    STANDALONE = "standalone"
    READ_ONLY = "read-only"


LISTED_MAX: Final = 1000
"""Sessions, ephemerals, watches and connections that a word lists. Any connection may ask, without a session, and there may be hundreds of
thousands; the counts beside them are of all."""


@attrs.frozen(kw_only=True)
class ConnectionFacts:
    """One connection."""

    address: str
    """host:port of the other side."""
    session: int = 0
    """0: none yet."""
    timeout_ms: int = 0
    outstanding: int = 0
    received: int = 0
    sent: int = 0
    established_ms: int = 0
    """Wall clock, since the epoch."""
    last_zxid: int = 0
    """Of the last answer."""
    identities: Sequence[str] = ()
    """Without digests."""
    secure: bool = False


@attrs.frozen(kw_only=True)
class Latency:
    """Of requests since the last reset, from their arrival to their answer, in milliseconds."""

    least: float = 0.0
    mean: float = 0.0
    most: float = 0.0


@attrs.frozen(kw_only=True)
class WatchFacts:
    """Who watches what: paths by session, over all tables."""

    paths_of: Mapping[int, Sequence[str]] = attrs.field(factory=dict)
    more: int = 0
    """Watches that are not among them: at most `LISTED_MAX` are listed."""

    @property
    def sessions_of(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for session, paths in self.paths_of.items():
            for path in paths:
                found.setdefault(path, []).append(session)
        return found

    @property
    def count(self) -> int:
        """All of them."""
        return sum(len(paths) for paths in self.paths_of.values()) + self.more


@attrs.frozen(kw_only=True)
class Traffic:
    """What goes over all connections; counts are since the last reset."""

    connections: Sequence[ConnectionFacts] = ()
    watches: int = 0
    """There are as many; who has them tells `list_watches`."""
    latency: Latency = attrs.field(factory=Latency)
    received: int = 0
    sent: int = 0
    rejected: int = 0
    """Connections that were refused because there were too many."""
    outstanding: int = 0
    """Requests without an answer."""


class CountsTraffic(Protocol):
    """Whoever serves the connections."""

    def traffic(self) -> Traffic: ...

    def reset_traffic(self) -> None:
        """Start counting anew."""
        ...


@attrs.frozen(kw_only=True)
class ServerFacts:
    """See above. Everything about one server, at one moment."""

    server: int
    """Its number: the node's."""
    mode: Mode = Mode.FOLLOWER
    serving: bool = True
    """Whether it takes requests at all; when not, words that need the tree say so."""
    zxid: int = 0
    nodes: int = 0
    data_bytes: int = 0
    """Of data alone, without paths."""
    ephemerals: int = 0
    sessions: int = 0
    """Of the whole cluster."""
    list_sessions: Callable[[], Mapping[int, int]] = dict
    """Timeouts in milliseconds of the first `LISTED_MAX`."""
    list_ephemerals: Callable[[], Mapping[int, Sequence[str]]] = dict
    """Paths by session, of those that have any; `LISTED_MAX` at most."""
    list_watches: Callable[[], WatchFacts] = WatchFacts
    traffic: Traffic = attrs.field(factory=Traffic)
    uptime_ms: int = 0
    settings: Mapping[str, object] = attrs.field(factory=dict)
    """In ZooKeeper's names, as `conf` shows them."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """In Java's names, as `envi` shows them."""
    members: Sequence[str] = ()
    """Lines of /zookeeper/config."""
