"""What the serving of connections is given from beside it: who clients are, whether anybody is served, words of four letters."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog_database.tree.commands import Origin
from virtuallog_database.tree.results import Result
from virtuallog_server.zookeeper.auth.sasl import SaslExchange
from virtuallog_server.zookeeper.auth.schemes import Authentication
from virtuallog_server.zookeeper.wire.quorum_config import QuorumChange


class ServiceMode(enum.Enum):
    """Whom this server serves now. At a change all connections are closed: clients find out by a handshake."""

    FULL = "full"
    READ_ONLY = "read-only"
    """Who asked for it, in a session of this server alone."""
    NONE = "none"


class WordHandler(Protocol):
    """See `virtuallog_server.zookeeper.admin.four_letter_words`."""

    def is_word(self, prefix: bytes) -> bool: ...

    def answer(self, word: bytes) -> bytes:
        """The whole answer; the connection is closed after it."""
        ...


@attrs.frozen
class NoWordHandler:
    """Answers none: the four bytes are the length of a frame, and over the limit."""

    def is_word(self, prefix: bytes) -> bool:
        return False

    def answer(self, word: bytes) -> bytes:
        return b""


Reconfigured: TypeAlias = Callable[[Result | VirtualLogError], None]
"""Called once. The value of a Result that is OK: the data of /zookeeper/config, as bytes, and its Stat."""


@attrs.frozen(kw_only=True)
class SessionHooks:
    """See above. The defaults are enough for tests and for an open server on loopback."""

    authentication: Authentication = attrs.field(factory=Authentication)
    new_exchange: Callable[[], SaslExchange] | None = None
    """Of SASL, for one connection; None: nobody can log in."""
    sasl_required: bool = False
    """A connection that has not logged in may do nothing but that."""
    words: WordHandler = attrs.field(factory=NoWordHandler)
    standing: Callable[[], ServiceMode] = lambda: ServiceMode.FULL
    """Asked for each handshake, and about once a second for all connections."""
    reconfigure: Callable[[QuorumChange, Origin, Reconfigured], None] | None = None
    """None: UNIMPLEMENTED."""
