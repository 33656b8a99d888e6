"""Contact of this server with the log: without it the server is no full one.

ZooKeeper's servers notice a lost quorum by broken connections to their leader. A database server has no such connection: it knows
that the log answers when a `sync` of its own ends, which takes a tail check. It tries one after the other, and is *in contact*
unless it has waited for too many ticks. Beyond that no write would end, and the data that it could serve grows old:

    in contact                 every client; isro -> rw
    out of contact, allowed    clients that ask for it (readOnly in the handshake): reads of what has been applied, in local
                               sessions; writes are answered NOT_READ_ONLY; isro -> ro; all others are closed
    out of contact, else       no client; new connections are closed, so that clients try another server

All connections are closed at each change: only a handshake tells a client what it is connected to. Sessions outlive that, as they
are in the log; a local session does not.

Ticks are counted, not seconds: a process that was stopped for a minute has not been without an answer for a minute, and need not
send its clients away.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_server.zookeeper.session.serving_context import ServiceMode

TICK_SECONDS: Final = 0.5
"""Length of a tick, in seconds."""
TICKS_MAX: Final = 10
"""Ticks without an answer. Five seconds: about as long as ZooKeeper's followers wait for a leader (syncLimit), half of their
default, as there is no election.
"""


@attrs.define
class LogContact:
    """The state of contact with the log."""

    allowed: bool
    """True if clients may read here without contact."""
    _silent: int = attrs.field(default=0, init=False)
    """Ticks since the last answer."""

    def answered(self) -> None:
        """Note an answer of the log."""
        self._silent = 0

    def tick(self) -> None:
        """Note that `TICK_SECONDS` have passed."""
        self._silent += 1

    @property
    def standing(self) -> ServiceMode:
        if self._silent < TICKS_MAX:
            return ServiceMode.FULL
        return ServiceMode.READ_ONLY if self.allowed else ServiceMode.NONE
