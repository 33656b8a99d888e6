"""Which batches of which sessions a log holds, as far as anybody who orders must know it.                          Pure."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from virtuallog.batch import SessionId


@attrs.frozen
class Placed:
    """One batch in the log."""

    first_sequence: int
    count: int
    position: int


@attrs.frozen
class Session:
    """What is known of one session."""

    session: SessionId
    next_sequence: int
    time_ms: int
    """When its last batch was ordered."""
    last: tuple[Placed, ...]
    """Its last batches, ascending; none of a session that has been idle for long."""


@attrs.define(eq=False)
class Digest:
    """Of all positions below `stop`."""

    stop: int = 0
    has_forgotten: bool = False
    """Some session: one that is not known may be an old one."""

    def sessions(self) -> Iterator[Session]:
        """The longest idle first."""
        raise NotImplementedError

    def take(self, position: int, value: bytes) -> None:
        """The learned value of position `stop`, checked."""
        raise NotImplementedError

    def encode(self) -> bytes:
        """For a TRUNCATE, or the disk."""
        raise NotImplementedError

    @classmethod
    def decode_untrusted(cls, encoded: bytes, stop: int) -> Digest:
        raise NotImplementedError
