"""Fetches one snapshot, a peer's or a compaction, into staging, in pieces. Each piece is checked on
arrival, each file when complete.

Files that are there already, from an attempt that was cut short or from an older snapshot of the
same peer, are kept if their checksums are those of the offer. So a new attempt resumes to within a
file.
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
"""Files fetched at a time, with one piece of each in flight: enough to keep both disks and the wire
busy, few enough to leave the peer time for its clients."""
PIECE_SECONDS: Final = 10.0
"""Timeout of one piece. A peer that is so slow should not be loaded further."""


class SnapshotSource(Protocol):
    """Source of an offered snapshot."""

    @property
    def name(self) -> str:
        """Name for log lines; unique for each source."""
        ...

    @property
    def offer(self) -> SnapshotOffer: ...

    async def read(self, file: str, offset: int, length: int) -> bytes:
        """Bytes of one file, at least one.

        Raises:
            UnavailableError: no reply in time, a damaged one, or a refusal, with its reason.
        """
        ...


@attrs.frozen(kw_only=True)
class PeerSource:
    """A snapshot that a peer has offered. Implements `SnapshotSource`."""

    services: Services
    peer: NodeId
    cluster: bytes
    replica: str
    """Name of the fetching replica."""
    offer: SnapshotOffer
    fetched: Counter
    """Counts bytes as they arrive, also those of failed and unfinished attempts."""

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
        except (
            VirtualLogError
        ) as error:  # the peer's disk: its error must not be taken for a failure of this replica's disk
            raise UnavailableError(f"{self.name}: {error}") from error
        if crc32c(piece.content) != piece.checksum or not 0 < len(piece.content) <= length:
            raise UnavailableError(f"a piece of {file} from {self.name} did not arrive as it was sent")
        self.fetched.value += len(piece.content)
        return piece.content


async def fetch(source: SnapshotSource, staging: StagingArea) -> None:
    """Make staging equal to the offered files. Cancelled or failed, complete files stay.

    Raises:
        UnavailableError: the source did not give all of it, or not what it had offered.
        MalformedError: the offer has a file with an invalid name.
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
    """Files to fetch, largest first, so that the last ones are short."""
    return sorted(set(wanted).difference(present), key=lambda file: (-file.size, file.name))


def superfluous(present: Sequence[CheckpointFile], wanted: Sequence[CheckpointFile]) -> list[str]:
    """Names of staged files to remove: other files, and other content."""
    return [file.name for file in present if file not in wanted]


async def _fetch_some(
    source: SnapshotSource,
    staging: StagingArea,
    queue: Iterator[CheckpointFile],
    scope: trio.CancelScope,
    failures: list[BaseException],
) -> None:
    """One of several workers: fetches files from the queue until it is empty. The first error ends
    all workers, and is raised alone."""
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
