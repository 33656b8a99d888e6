"""Whether this server can still serve as a full one: whether it reaches the log.                                  Pure.

ZooKeeper's servers notice a lost quorum as connections to their leader that break. A database server has no such connection: it knows
that the log answers when a tail check does, or an append of its own. So it is *in contact* while the last of either is younger than a
patience. Beyond that, what it could serve is old by more than that, and no write would come to an end:

    in contact                 every client; isro -> rw
    out of contact, allowed    clients that ask for it (readOnly in the handshake): reads of what has been applied, in local
                               sessions; writes are answered NOT_READ_ONLY; isro -> ro; all others are closed
    out of contact, else       nobody; new connections are closed, so that clients go on to another server

All connections are closed at each change: a client must find out by a handshake what it is connected to now. Sessions outlive that, as
they are in the log; a local session does not.

Reads from a server that is in contact are at most `patience` behind, as far as this clock runs true: how stale a read can be is
bounded here, which ZooKeeper leaves open.
"""

from __future__ import annotations

from typing import Final

import attrs

PATIENCE_SECONDS: Final = 5.0
"""As long as ZooKeeper's own default waits for a follower (syncLimit 5 ticks of 2 s; half of it, as nobody has to be elected)."""


@attrs.define
class Contact:
    """See above. Times are of one monotonic clock, in seconds."""

    allowed: bool
    """Whether clients may read here without contact."""
    _seen: float
    """When the log has last answered."""
    patience: float = PATIENCE_SECONDS

    def answered(self, asked: float) -> None:
        """The log has answered what was asked at `asked`. That moment counts: the answer may have been under way for long."""
        self._seen = max(self._seen, asked)

    def lost(self, now: float) -> bool:
        """Whether it has been silent for too long."""
        return now - self._seen > self.patience

    def serves(self, now: float) -> bool:
        """Whether anybody at all is served."""
        return self.allowed or not self.lost(now)

    def admits(self, now: float, *, read_only: bool) -> bool:
        """Whether a client that would (or would not) be content with reads is served."""
        return not self.lost(now) or (self.allowed and read_only)
