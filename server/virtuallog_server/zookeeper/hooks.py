"""What the serving of connections is given from beside it: who clients are, whether anybody is served, words of four letters."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from virtuallog.errors import VirtualLogError
from virtuallog_database.kv.commands import Origin
from virtuallog_database.kv.results import Result
from virtuallog_server.zookeeper.auth import Authentication
from virtuallog_server.zookeeper.quorum_config import Change
from virtuallog_server.zookeeper.sasl import Exchange


class Standing(enum.Enum):
    """Whom this server serves now. At a change all connections are closed: clients find out by a handshake."""

    FULL = "full"
    READ_ONLY = "read-only"
    """Who asked for it, in a session of this server alone."""
    NONE = "none"


class AnswersWords(Protocol):
    """See `virtuallog_server.zookeeper.words`."""

    def is_word(self, prefix: bytes) -> bool: ...

    def answer(self, word: bytes) -> bytes:
        """The whole answer; the connection is closed after it."""
        ...


@attrs.frozen
class NoWords:
    """Answers none: the four bytes are the length of a frame, and over the limit."""

    def is_word(self, prefix: bytes) -> bool:
        return False

    def answer(self, word: bytes) -> bytes:
        return b""


Reconfigured: TypeAlias = Callable[[Result | VirtualLogError], None]
"""Called once. The value of a Result that is OK: the data of /zookeeper/config, as bytes, and its Stat."""


@attrs.frozen(kw_only=True)
class Hooks:
    """See above. The defaults are enough for tests and for an open server on loopback."""

    authentication: Authentication = attrs.field(factory=Authentication)
    new_exchange: Callable[[], Exchange] | None = None
    """Of SASL, for one connection; None: nobody can log in."""
    sasl_required: bool = False
    """A connection that has not logged in may do nothing but that."""
    words: AnswersWords = attrs.field(factory=NoWords)
    standing: Callable[[], Standing] = lambda: Standing.FULL
    """Asked for each handshake, and about once a second for all connections."""
    reconfigure: Callable[[Change, Origin, Reconfigured], None] | None = None
    """None: UNIMPLEMENTED."""
