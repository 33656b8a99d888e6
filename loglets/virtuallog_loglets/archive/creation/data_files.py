"""Data files of an archive: read the segment, build row groups in memory, name the whole file by
range and checksum.

File borders are free: a writer cuts where a file is large enough, or where another writer
continues. So several may work on one segment. While a file is made it is in memory, compressed,
with one uncompressed row group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap
from virtuallog_loglets.archive.core.content_digest import ContentDigest, trimmed_up_to
from virtuallog_loglets.archive.core.manifest import DataFile, RowGroup, checksum
from virtuallog_loglets.archive.core.parquet import ParquetPart, footer_bytes_untrusted
from virtuallog_loglets.archive.core.rows import rows_of
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment, joined

SUFFIX: Final = ".parquet"
DIGITS_OF_CHECKSUM: Final = 16
_ROW_BYTES: Final = 64
"""Approximate bytes of a row besides its payload."""


@attrs.frozen(kw_only=True)
class DataFileSizes:
    """Target sizes in uncompressed bytes; one more batch may come on top."""

    group_bytes: int = 1 << 20
    """Bytes of a row group: what one read brings, so reading one entry costs no more than some milliseconds."""
    file_bytes: int = 96 << 20
    """Bytes of a file, which is in memory while it is made."""


@attrs.frozen
class WrittenFile:
    """A data file that is durable."""

    file: DataFile
    trimmed: int
    """End of its last gap of trimmed positions; 0 if it has none."""


async def make_file(source: ReadableSegment, start: int, stop: int, sizes: DataFileSizes) -> tuple[bytes, WrittenFile]:
    """Make the content of a file from `start`, up to `stop` or to where it is large enough. Nothing
    is written.

    Raises:
        CorruptionError: the source has left out something.
        VirtualLogError: as the source.
    """
    part = _Part(start, sizes)
    while part.stop < stop and not part.is_full():
        for item in await source.read(part.stop, stop):
            part.add(item)
            if part.is_full():
                break  # the rest is read once more, for the next file
    return part.finish()


@attrs.define(eq=False)
class _Part:
    """One file under construction."""

    start: int
    sizes: DataFileSizes
    stop: int = attrs.field(init=False)
    entries: int = 0
    gaps: int = 0
    size: int = 0
    trimmed: int = 0
    made: list[Placed] = attrs.field(factory=list)
    """Items that are in no row group yet."""
    _made_bytes: int = 0
    _parquet: ParquetPart = attrs.field(factory=ParquetPart)
    _digest: ContentDigest = attrs.field(factory=ContentDigest)

    def __attrs_post_init__(self) -> None:
        self.stop = self.start

    def is_full(self) -> bool:
        return self.size >= self.sizes.file_bytes

    def add(self, item: Placed) -> None:
        """Add the next batch or gap, or a part of it."""
        if item.start != self.stop:
            raise CorruptionError(f"a segment was read up to {self.stop}, then from {item.start} on")
        self.stop = item.stop
        self._digest.feed([item])
        self.trimmed = trimmed_up_to([item], self.trimmed)
        gap = joined(self.made, item)
        if gap is not None:
            self.made[-1] = gap
            return
        self.made.append(item)
        self._made_bytes += _size(item)
        if self._made_bytes >= self.sizes.group_bytes:
            self._end_group()

    def finish(self) -> tuple[bytes, WrittenFile]:
        if self.made:
            self._end_group()
        content, groups = self._parquet.finish()
        file = data_file(content, self.stop, groups, self.entries, self.gaps, self._digest.checksum())
        return content, WrittenFile(file, self.trimmed)

    def _end_group(self) -> None:
        self._parquet.add(self.made)
        entries, gaps = rows_of(self.made)
        self.entries, self.gaps = self.entries + entries, self.gaps + gaps
        self.size, self._made_bytes = self.size + self._made_bytes, 0
        self.made = []


def data_file(
    content: bytes, stop: int, groups: tuple[RowGroup, ...], entries: int, gaps: int, digest: str
) -> DataFile:
    """Manifest entry of a file.

    Its name has its range, for people, and its checksum. So different content never has the same
    name, even if several writers archive at the same time.
    """
    whole, footer_bytes, start = checksum(content), footer_bytes_untrusted(content), groups[0].start
    return DataFile(
        name=f"{start:020d}-{stop:020d}-{checksum_prefix(whole)}{SUFFIX}", start=start, stop=stop, entries=entries, gaps=gaps,
        bytes=len(content), checksum=whole, footer_bytes=footer_bytes, footer_checksum=checksum(content[-footer_bytes:]),
        groups=groups, content=digest,
    )  # fmt: skip


def checksum_prefix(whole: str) -> str:
    """The part of a checksum that is in the name of a file."""
    return whole.partition(":")[2][:DIGITS_OF_CHECKSUM]


def uncompressed_bytes(items: Sequence[Placed]) -> int:
    """Approximate uncompressed bytes of these items, as `DataFileSizes` counts them."""
    return sum(_size(item) for item in items)


def _size(item: Placed) -> int:
    if isinstance(item, Gap):
        return _ROW_BYTES
    return len(item.places) * (_ROW_BYTES + len(item.batch.blob) // item.batch.count)
