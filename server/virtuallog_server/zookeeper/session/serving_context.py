"""Hooks of the connections: authentication, the service mode, four-letter words, `reconfig`."""

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
    """The clients that this server serves now. At a change all connections are closed: clients learn the mode by a handshake."""

    FULL = "full"
    READ_ONLY = "read-only"
    """Only clients that ask for it, in sessions of this server alone."""
    NONE = "none"


class WordHandler(Protocol):
    """Answers four-letter words (`virtuallog_server.zookeeper.admin.four_letter_words`)."""

    def is_word(self, prefix: bytes) -> bool: ...

    def answer(self, word: bytes) -> bytes:
        """The whole answer to a word; the connection is closed after it."""
        ...


@attrs.frozen
class NoWordHandler:
    """Knows no words: the four bytes are the length of a frame, which is over the limit."""

    def is_word(self, prefix: bytes) -> bool:
        return False

    def answer(self, word: bytes) -> bytes:
        return b""


Reconfigured: TypeAlias = Callable[[Result | VirtualLogError], None]
"""Called once. The value of a Result that is OK: the data of /zookeeper/config, as bytes, and its Stat."""


@attrs.frozen(kw_only=True)
class SessionHooks:
    """The hooks of one server. The defaults are enough for tests and for an open server on loopback."""

    authentication: Authentication = attrs.field(factory=Authentication)
    new_exchange: Callable[[], SaslExchange] | None = None
    """Makes the SASL exchange of one connection. None if there is no SASL."""
    sasl_required: bool = False
    """True if a connection must log in before anything else."""
    words: WordHandler = attrs.field(factory=NoWordHandler)
    standing: Callable[[], ServiceMode] = lambda: ServiceMode.FULL
    """Called for each handshake, and about once a second for all connections."""
    reconfigure: Callable[[QuorumChange, Origin, Reconfigured], None] | None = None
    """Carries out `reconfig`. None to answer UNIMPLEMENTED."""
