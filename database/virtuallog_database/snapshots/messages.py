"""Messages between replicas to fetch a snapshot in pieces, when the log no longer has all that a
replica lacks.

The caller names its cluster: state of another cluster would be as well-formed, and wrong
throughout. (Connections check that, too, but they do so before a directory knows its cluster.)
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.ports import Request
from virtuallog_database.ports import CheckpointFile

PIECE_BYTES_MAX: Final = 1 << 20
"""Bytes of one `ReadPiece`: reading and copying more would block the event loops at both ends."""
NAME_LENGTH_MAX: Final = 64
"""Longest name of a replica in a hold: it comes from a peer, and goes into the state."""


@attrs.frozen(kw_only=True)
class SnapshotOffer:
    """Snapshot of a replica. The position is 0, and there are no files, if it has none."""

    position: int
    """Everything below this position is in the snapshot, perhaps some later effects as well."""
    files: tuple[CheckpointFile, ...]


@attrs.frozen(kw_only=True)
class Piece:
    """Bytes of one file of a snapshot."""

    content: bytes
    checksum: int
    """CRC32C of `content`."""


@attrs.frozen(kw_only=True)
class GetSnapshot(Request[SnapshotOffer]):
    """Replica to replica: ask for the newest snapshot, or the newest one that is old enough. If there is one, the log is held for the
    caller from its position on, for a limited time. Fails with WrongRecipientError for another
    cluster."""

    cluster: bytes
    replica: str
    """Name of the calling replica, used in the name of the hold."""
    at_most: int = 0
    """Highest position that the snapshot may have; 0 for any. Servers of a former version offer the newest one all the
    same."""


@attrs.frozen(kw_only=True)
class ReadPiece(Request[Piece]):
    """Replica to replica: read bytes of one file; fewer than `length` only at its end. Renews the
    hold of the log. Fails with UnavailableError if the snapshot is not kept any more: ask for a
    newer one."""

    cluster: bytes
    replica: str
    position: int
    file: str
    offset: int
    length: int


def hold_name(replica: str) -> str:
    """Name of the hold for a replica that restores a snapshot."""
    return f"restore {replica[:NAME_LENGTH_MAX]}"
