"""What a replica asks another one for when the log no longer has all that it lacks: a snapshot, in pieces.        Pure.

The asker names the cluster that it belongs to: state of another one would be as well-formed, and wrong throughout. (Connections
check that, too, but they do so before a directory knows its cluster.)
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.ports import Request
from virtuallog_database.ports import CheckpointFile

PIECE_BYTES_MAX: Final = 1 << 20
"""Of one `ReadPiece`: reading and copying more would hold up the event loops at both ends."""
NAME_LENGTH_MAX: Final = 64
"""Of a replica, in a hold: it comes from a peer, and goes into the state."""


@attrs.frozen(kw_only=True)
class SnapshotOffer:
    """The newest snapshot of a replica. The position is 0, and there are no files, if it has none."""

    position: int
    """All that the log holds below is in it, perhaps something from above."""
    files: tuple[CheckpointFile, ...]


@attrs.frozen(kw_only=True)
class Piece:
    """Bytes of one file of a snapshot."""

    content: bytes
    checksum: int
    """CRC32C of `content`."""


@attrs.frozen(kw_only=True)
class GetSnapshot(Request[SnapshotOffer]):
    """Replica to replica: what could I restore? If there is something, the log is held for the asker from its position
    on, for a while. Fails with WrongRecipientError for another cluster."""

    cluster: bytes
    replica: str
    """Who asks, for the name of the hold."""


@attrs.frozen(kw_only=True)
class ReadPiece(Request[Piece]):
    """Replica to replica: bytes of one file; fewer than `length` only at its end. The log is held on. Fails with UnavailableError
    if the snapshot is not kept any more: ask for a newer one."""

    cluster: bytes
    replica: str
    position: int
    file: str
    offset: int
    length: int


def hold_name(replica: str) -> str:
    """Of the hold for a replica that restores a snapshot."""
    return f"restore {replica[:NAME_LENGTH_MAX]}"
