"""Sessions of the positions that a replica has learned; see `virtuallog.exactly_once.session_digest`.

The digest is stored now and then. A TRUNCATE carries what it drops, as a replica that joins later never sees those batches.
"""

from __future__ import annotations

import attrs

from virtuallog.contract.batch import glance_untrusted
from virtuallog.contract.errors import MalformedError
from virtuallog.exactly_once import bundle, session_digest
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.offsets import offset_of


@attrs.define(eq=False)
class PositionDigest(session_digest.SessionDigest):
    """Sessions of all positions below `stop`."""

    stop: int = 0
    taken_bytes: int = attrs.field(default=0, init=False)
    """Bytes of the values taken in since this object was made."""

    def take(self, position: int, value: bytes) -> None:
        """Take in the decided value of position `stop`, which has been checked."""
        assert position == self.stop, "batches of a session are taken in order"
        self.stop = position + 1
        self.taken_bytes += len(value)
        kind = values.kind_of(value)
        if kind is ValueKind.APPEND:
            self._take_batches(position, value)
        elif kind is ValueKind.TRUNCATE and (carried := values.truncation_of(value).digest):
            self._take_carried(carried)

    def skip_to(self, position: int) -> None:
        """Skip truncated positions below `position`; a TRUNCATE carries their sessions."""
        self.stop = max(self.stop, position)

    def copy(self) -> PositionDigest:
        return self.decode_untrusted_below(self.encode(), self.stop)

    def encode_below(self, position: int) -> bytes:
        """Encode for a TRUNCATE that drops everything below that position, which is at most `stop`."""
        assert position <= self.stop, "what is dropped is in the digest"
        return self.encode(offset_of(position))

    @classmethod
    def decode_untrusted_below(cls, encoded: bytes, stop: int) -> PositionDigest:
        """Decode the output of `encode`, as the digest of all positions below `stop`.

        Raises:
            MalformedError: not a digest.
        """
        digest = cls(stop)
        digest.merge_untrusted(encoded)
        return digest

    def _take_batches(self, position: int, value: bytes) -> None:
        try:
            parts = bundle.split_untrusted(value, values.BODY)
        except MalformedError:  # user bytes of a log used by itself, not batches
            return
        for part in parts:
            batch = glance_untrusted(value, part.start)
            if batch is not None:
                self.take_batch(*batch, offset_of(position) + part.index)

    def _take_carried(self, carried: bytes) -> None:
        """Take in what a TRUNCATE dropped.

        The TRUNCATE is decided, so an unreadable digest counts as forgotten sessions.
        """
        try:
            self.merge_untrusted(carried)
        except MalformedError:
            self.has_forgotten = True
