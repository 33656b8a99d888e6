"""Reads an archive back, all of it, and compares it with the loglet that it is to replace.

Every byte is checked against the manifest, every row against the rules of the format, and what the rows hold against what the
loglet holds: positions, payloads, sessions, sequence numbers, times, headers and gaps. The loglet may be trimmed meanwhile;
what is gone there is not compared. What the manifest says was trimmed must be a gap in the files. A file at a time is in memory.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from loglets.archive.digest import ContentDigest, clipped, trimmed_up_to
from loglets.archive.files import Files
from loglets.archive.manifest import DataFile, Manifest
from loglets.archive.parquet import read_file_untrusted
from loglets.archive.source import Readable
from loglets.archive.trimming import trim_point
from virtuallog.api import Placed
from virtuallog.errors import CorruptionError, MalformedError
from virtuallog.types import Gap, PlacedBatch


@attrs.frozen(kw_only=True)
class Verified:
    """What was read, and was right."""

    start: int
    """What is below was trimmed, in the archive or in the hot copy."""
    stop: int
    files: int
    entries: int
    bytes: int
    compared: bool
    """With the hot copy."""


@attrs.define(eq=False, kw_only=True)
class Verifying:
    """Of one archive."""

    manifest: Manifest
    files: Files
    source: Readable | None
    """The hot copy, if there is one."""
    tell: Callable[[int], None] = lambda position: None
    """Told up to where it is done."""
    _whole: ContentDigest = attrs.field(factory=ContentDigest, init=False)
    _trimmed: int = attrs.field(default=0, init=False)
    _read: list[DataFile] = attrs.field(factory=list, init=False)

    async def run(self) -> Verified:
        """On return every file was read and was right.

        Raises:
            CorruptionError: something is missing, damaged, or not what the hot copy has.
            MalformedError: a file is none of an archive.
            UnavailableError: no answer; may be run again.
            VirtualLogError: as `Files`, and as the loglet of the hot copy.
        """
        manifest = self.manifest
        self._trimmed = trim_point(manifest, await self.files.list())
        for file in manifest.files:
            await self._verify(file)
            self.tell(file.stop)
        if len(self._read) == len(manifest.files) and self._whole.checksum() != manifest.content:
            raise CorruptionError("the entries of an archive do not match the checksum of its content")
        return Verified(
            start=max(manifest.start, self._trimmed), stop=manifest.stop, files=len(self._read),
            entries=sum(file.entries for file in self._read), bytes=sum(file.bytes for file in self._read),
            compared=self.source is not None,
        )  # fmt: skip

    async def _verify(self, file: DataFile) -> None:
        content = await self.files.read(file.name)
        if content is None:
            self._trimmed = max(self._trimmed, trim_point(self.manifest, await self.files.list()))
            if file.stop > self._trimmed:
                raise CorruptionError(f"file {file.name} of an archive is missing")
            return
        items = [item for group in read_file_untrusted(file, content) for item in group]
        gaps = sum(isinstance(item, Gap) for item in items)
        entries = sum(len(item.places) for item in items if isinstance(item, PlacedBatch))
        if (gaps, entries) != (file.gaps, file.entries):
            raise CorruptionError(f"file {file.name} of an archive has {entries} entries, not {file.entries}")
        trimmed = self.manifest.trimmed
        if file.start < trimmed <= file.stop and trimmed_up_to(items, file.start) != trimmed:
            raise CorruptionError(f"an archive says that it is trimmed up to {trimmed}, and file {file.name} is not")
        self._read.append(file)
        self._whole.feed(items)
        if self.source is not None:
            await self._compare(self.source, file, items)

    async def _compare(self, source: Readable, file: DataFile, items: list[Placed]) -> None:
        """Each time round the hot copy has been trimmed a bit further, up to the end of the file at most."""
        low = max(file.start, self._trimmed)
        while low < file.stop:
            hot, trimmed = ContentDigest(), low
            at = low
            while at < file.stop:
                found = await source.read(at, file.stop)
                trimmed = max(trimmed, trimmed_up_to(found, low))
                hot.feed(found)
                at = found[-1].stop
            if trimmed == low:
                archived = ContentDigest()
                archived.feed(clipped(items, low, file.stop))
                if hot.checksum() != archived.checksum():
                    raise CorruptionError(f"file {file.name} of an archive has not what the hot copy has")
                return
            low = self._trimmed = trimmed


async def is_damaged(manifest: Manifest, files: Files) -> bool:
    """Whether an archive contradicts itself. One that is merely that of something else does not."""
    try:
        await Verifying(manifest=manifest, files=files, source=None).run()
    except (CorruptionError, MalformedError):
        return True
    return False
