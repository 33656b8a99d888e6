"""Brings one snapshot, a peer's or a compaction, into staging: file by file, in pieces, each checked on arrival, each file once it is complete.

Files that are there already, from a former attempt that was cut short or of an older snapshot of the same peer, are kept if
their checksums are those of the offer. So whoever starts anew goes on where he was, to within a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import attrs
import trio
from crc32c import crc32c

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.metrics import Counter
from virtuallog.contract.ports import Services
from virtuallog.contract.types import NodeId
from virtuallog_database.ports import CheckpointFile, StagingArea
from virtuallog_database.snapshots.messages import PIECE_BYTES_MAX, Piece, ReadPiece, SnapshotOffer

FILES_AT_ONCE: Final = 3
"""A piece of each is under way: enough to keep both disks and the wire busy, few enough to leave the peer time for its clients."""
PIECE_SECONDS: Final = 10.0
"""For one piece. A peer that is so slow had better be left alone."""


class SnapshotSource(Protocol):
    """Who has offered a snapshot."""

    @property
    def name(self) -> str:
        """For people; another one for each source."""
        ...

    @property
    def offer(self) -> SnapshotOffer: ...

    async def read(self, file: str, offset: int, length: int) -> bytes:
        """Bytes of one file, at least one.

        Raises:
            UnavailableError: no answer in time, or one that was damaged on its way, or a refusal: then why.
        """
        ...


@attrs.frozen(kw_only=True)
class PeerSource:
    """A snapshot that a peer has offered. Implements `SnapshotSource`."""

    services: Services
    peer: NodeId
    cluster: bytes
    replica: str
    """Who fetches."""
    offer: SnapshotOffer
    fetched: Counter
    """Counts the bytes as they come: of an attempt that fails, too, and of a long one before it ends."""

    @property
    def name(self) -> str:
        return f"node {self.peer}"

    async def read(self, file: str, offset: int, length: int) -> bytes:
        """See `SnapshotSource.read`."""
        request = ReadPiece(
            cluster=self.cluster,
            replica=self.replica,
            position=self.offer.position,
            file=file,
            offset=offset,
            length=length,
        )
        try:
            piece: Piece = await self.services.call(self.peer, request, PIECE_SECONDS)
        except VirtualLogError as error:  # its disk is not ours: no error of it may be taken for one of our own
            raise UnavailableError(f"{self.name}: {error}") from error
        if crc32c(piece.content) != piece.checksum or not 0 < len(piece.content) <= length:
            raise UnavailableError(f"a piece of {file} from {self.name} did not arrive as it was sent")
        self.fetched.value += len(piece.content)
        return piece.content


async def fetch(source: SnapshotSource, staging: StagingArea) -> None:
    """Make staging what is offered. Cancelled or failed, what is complete stays.

    Raises:
        UnavailableError: the source did not give all of it, or not what it had promised.
        MalformedError: the offer has a file with an impossible name.
        DiskFullError: no room here.
        StorageError: the disk failed here.
    """
    present = await staging.files()
    for name in superfluous(present, source.offer.files):
        await staging.remove(name)
    files = missing(present, source.offer.files)
    queue = iter(files)
    failures: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        for _ in range(min(FILES_AT_ONCE, len(files))):
            nursery.start_soon(_fetch_some, source, staging, queue, nursery.cancel_scope, failures)
    if failures:
        raise failures[0]


def missing(present: Sequence[CheckpointFile], wanted: Sequence[CheckpointFile]) -> list[CheckpointFile]:
    """What has to be fetched; the largest first, so that the last ones are short."""
    return sorted(set(wanted).difference(present), key=lambda file: (-file.size, file.name))


def superfluous(present: Sequence[CheckpointFile], wanted: Sequence[CheckpointFile]) -> list[str]:
    """What must not stay: other files, and other content."""
    return [file.name for file in present if file not in wanted]


async def _fetch_some(
    source: SnapshotSource,
    staging: StagingArea,
    queue: Iterator[CheckpointFile],
    scope: trio.CancelScope,
    failures: list[BaseException],
) -> None:
    """One of several: takes files from the queue until it is empty. The first error ends them all, and is told by itself."""
    try:
        for file in queue:
            await _fetch_file(source, staging, file)
    except Exception as error:
        failures.append(error)
        scope.cancel()


async def _fetch_file(source: SnapshotSource, staging: StagingArea, file: CheckpointFile) -> None:
    offset = checksum = 0
    if not file.size:
        await staging.write(file.name, 0, b"")
    while offset < file.size:
        content = await source.read(file.name, offset, min(PIECE_BYTES_MAX, file.size - offset))
        await staging.write(file.name, offset, content)
        checksum, offset = crc32c(content, checksum), offset + len(content)
    if checksum != file.checksum:
        await staging.remove(file.name)
        raise UnavailableError(f"{file.name} from {source.name} is not what its checksum says")
