"""Makes an archive of a closed segment: data files, then the manifest.

    read the segment ---> row groups in memory ---> a whole file, named by its range and checksum ---> ... ---> manifest.json

Killed anywhere it is started again: files are made in the same way from the same entries, and one that is there, and is the
same, is not written again. There is an archive once there is a manifest, and the first one stays: whoever comes later takes
what it names, unless it is damaged and no chain names it. One file is in memory at a time, compressed, and one row group before that. What a former attempt has left is
never opened, only compared: whoever may write there could have put anything.

Nothing here tells the chain. What is written is believed only after it was read back (`verifying.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs

from loglets.archive import manifest as manifests
from loglets.archive.digest import ContentDigest
from loglets.archive.files import Files
from loglets.archive.manifest import DataFile, Manifest, RowGroup, checksum
from loglets.archive.parquet import ParquetPart, footer_bytes_untrusted
from loglets.archive.source import Readable, joined
from virtuallog.api import Placed
from virtuallog.crash_points import CrashPoint
from virtuallog.errors import CorruptionError, TooLargeError, UnavailableError
from virtuallog.types import Gap, GapKind, PlacedBatch

SUFFIX: Final = ".parquet"
_FILE = CrashPoint("archive: one file more is written, there is no manifest")
_MANIFEST = CrashPoint("archive: the manifest is written, nothing is read back")

_DIGITS_OF_CHECKSUM: Final = 16
_ROW_BYTES: Final = 64
"""About what a row costs besides its payload."""


@attrs.frozen(kw_only=True)
class Sizes:
    """Uncompressed bytes; a batch more may come on top."""

    group_bytes: int = 1 << 20
    """Of a row group: what one read brings, so reading one entry costs some milliseconds and not more."""
    file_bytes: int = 96 << 20
    """Of a file, which is in memory while it is made."""


@attrs.define(eq=False)
class _Part:
    """One file in the making."""

    start: int
    sizes: Sizes
    stop: int = attrs.field(init=False)
    entries: int = 0
    gaps: int = 0
    size: int = 0
    made: list[Placed] = attrs.field(factory=list)
    """What is in no row group yet."""
    _made_bytes: int = 0
    _parquet: ParquetPart = attrs.field(factory=ParquetPart)

    def __attrs_post_init__(self) -> None:
        self.stop = self.start

    def is_full(self) -> bool:
        return self.size >= self.sizes.file_bytes

    def add(self, item: Placed) -> None:
        """The next batch or gap, or a part of it."""
        if item.start != self.stop:
            raise CorruptionError(f"a segment was read up to {self.stop}, then from {item.start} on")
        self.stop = item.stop
        gap = joined(self.made, item)
        if gap is not None:
            self.made[-1] = gap
            return
        self.made.append(item)
        self._made_bytes += _size(item)
        if self._made_bytes >= self.sizes.group_bytes:
            self._end_group()

    def finish(self) -> tuple[bytes, DataFile]:
        if self.made:
            self._end_group()
        content, groups = self._parquet.finish()
        return content, data_file(content, self.stop, groups, self.entries, self.gaps)

    def _end_group(self) -> None:
        self._parquet.add(self.made)
        self.gaps += sum(isinstance(item, Gap) for item in self.made)
        self.entries += sum(len(item.places) for item in self.made if isinstance(item, PlacedBatch))
        self.size, self._made_bytes = self.size + self._made_bytes, 0
        self.made = []


async def _never() -> bool:
    return False


@attrs.define(eq=False, kw_only=True)
class Writing:
    """Of one archive."""

    source: Readable
    files: Files
    cluster: str
    start: int
    stop: int
    writer: str
    """The program, as the manifest has it."""
    tell: Callable[[int], None] = lambda position: None
    """Told up to where it is done."""
    sizes: Sizes = attrs.field(factory=Sizes)
    unusable: bytes | None = None
    """A manifest that is to be replaced: it, or what it names, is damaged, and no chain names it."""
    may_replace: Callable[[], Awaitable[bool]] = _never
    """Whether that still holds; asked once all files are there, which may take an hour."""
    _digest: ContentDigest = attrs.field(factory=ContentDigest, init=False)
    _trimmed: int = attrs.field(default=0, init=False)

    async def run(self) -> bytes:
        """The manifest of an archive that is whole, as far as the writer knows; as it is published.

        Raises:
            MalformedError: another archive is in the way.
            TooLargeError: too many files for one manifest.
            UnavailableError: the segment, or the place for the files, does not answer; may be run again.
            VirtualLogError: as `Files` and as the segment's loglet; may be run again once the reason is removed.
        """
        blob = await self.files.read(manifests.NAME)
        if blob is not None and not self._is_unusable(blob):
            self._check_untrusted(blob)
            return blob
        names, made, at = await self.files.list(), list[DataFile](), self.start
        self._trimmed = self.start
        while at < self.stop:
            file = await self._make(at, names)
            made.append(file)
            at = file.stop
            self.tell(at)
        manifest = Manifest(
            cluster=self.cluster, start=self.start, stop=self.stop, trimmed=self._trimmed, files=tuple(made),
            content=self._digest.checksum(), writer=self.writer,
        )  # fmt: skip
        return await self._publish(manifest.encode())

    async def _publish(self, blob: bytes) -> bytes:
        """The manifest that stands there in the end: ours, or that of somebody who was faster."""
        if len(blob) > manifests.BYTES_MAX:
            raise TooLargeError(what="bytes in the manifest of an archive", size=len(blob), limit=manifests.BYTES_MAX)
        there = await self.files.read(manifests.NAME)  # as it is now: files take their time, and others may be done
        if there is None or manifests.is_damaged_untrusted(there) or await self._gives_way(there, blob):
            await self.files.write(manifests.NAME, blob, replace=there is not None)
        _MANIFEST.reached()
        published = await self.files.read(manifests.NAME)
        if published is None:
            raise UnavailableError("the manifest of an archive is not there, though it was written")
        self._check_untrusted(published)
        return published

    async def _gives_way(self, there: bytes, blob: bytes) -> bool:
        return there == self.unusable and there != blob and await self.may_replace()

    def _is_unusable(self, blob: bytes) -> bool:
        return blob == self.unusable or manifests.is_damaged_untrusted(blob)

    def _check_untrusted(self, blob: bytes) -> None:
        manifests.decode_untrusted(blob).check_range(self.cluster, self.start, self.stop)

    # -- files --------------------------------------------------------------------------------------------------------

    async def _make(self, at: int, names: Mapping[str, int]) -> DataFile:
        part = _Part(at, self.sizes)
        while part.stop < self.stop and not part.is_full():
            for item in await self.source.read(part.stop, self.stop):
                part.add(item)
                self._include([item])
                if part.is_full():
                    break  # the rest is read once more, for the next file
        content, file = part.finish()
        if names.get(file.name) != file.bytes or await self.files.read(file.name) != content:
            await self.files.write(file.name, content)
        _FILE.reached()
        return file

    def _include(self, items: list[Placed]) -> None:
        self._digest.feed(items)
        for item in items:
            if isinstance(item, Gap) and item.kind is GapKind.TRIMMED:
                self._trimmed = max(self._trimmed, item.stop)


def data_file(content: bytes, stop: int, groups: tuple[RowGroup, ...], entries: int, gaps: int) -> DataFile:
    """What the manifest says of a file. Its name has its range, for people, and its checksum: so no other content is ever under
    the same name, whoever else archives at the same time."""
    whole, footer_bytes, start = checksum(content), footer_bytes_untrusted(content), groups[0].start
    return DataFile(
        name=f"{start:020d}-{stop:020d}-{_short(whole)}{SUFFIX}", start=start, stop=stop, entries=entries, gaps=gaps,
        bytes=len(content), checksum=whole, footer_bytes=footer_bytes, footer_checksum=checksum(content[-footer_bytes:]),
        groups=groups,
    )  # fmt: skip


def _short(whole: str) -> str:
    return whole.partition(":")[2][:_DIGITS_OF_CHECKSUM]


def _size(item: Placed) -> int:
    if isinstance(item, Gap):
        return _ROW_BYTES
    return len(item.places) * (_ROW_BYTES + len(item.batch.blob) // item.batch.count)
