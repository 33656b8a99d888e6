"""Writer of an archive of a closed segment: data files, then the manifest.

    files that are there ---> files that are missing are made (`executor.py`) ---> manifest.json

If it is killed at any point, it is started again: an existing file with the segment's content is
not made again. The archive exists once there is a manifest, and the first one stays. A later writer
takes what it names, unless it is damaged and no chain names it.

Nothing here changes the chain. What is written is trusted only after it was read back
(`verification.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, TooLargeError, UnavailableError
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import ArchiveManifest
from virtuallog_loglets.archive.creation.data_files import WrittenFile
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor, FileProgress
from virtuallog_loglets.archive.creation.spans import spans_untrusted
from virtuallog_loglets.archive.drivers.files import Files

_MANIFEST: Final = CrashPoint("archive: the manifest is written, nothing is read back")


async def _never() -> bool:
    return False


@attrs.define(eq=False, kw_only=True)
class ArchiveWriter:
    """Writer of one archive."""

    executor: ArchiveExecutor
    files: Files
    cluster: str
    start: int
    stop: int
    writer: str
    """Name of the program, for the manifest."""
    tell: FileProgress = lambda position: None
    unusable: bytes | None = None
    """Manifest to replace, because it, or what it names, is damaged and no chain names it; None if
    there is none."""
    may_replace: Callable[[], Awaitable[bool]] = _never
    """Returns True if the manifest may still be replaced. Asked once all files are there, which may
    take an hour."""

    async def run(self) -> bytes:
        """Write what is missing. Returns the published manifest of an archive that is whole, as far
        as the writer knows.

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
        spans = spans_untrusted(await self.files.list(), self.start, self.stop)
        made = await self.executor.make(spans, self.tell)
        self._check_made(made)
        trimmed, files = max(self.start, *(one.trimmed for one in made)), tuple(one.file for one in made)
        manifest = ArchiveManifest(
            cluster=self.cluster, start=self.start, stop=self.stop, trimmed=trimmed, files=files,
            content=manifests.content_of(files), writer=self.writer,
        )  # fmt: skip
        return await self._publish(manifest.encode())

    def _check_made(self, made: Sequence[WrittenFile]) -> None:
        edges = [self.start, *(one.file.stop for one in made)]
        if [one.file.start for one in made] != edges[:-1] or edges[-1] != self.stop:
            raise CorruptionError(f"files that were made of [{self.start}, {self.stop}) end at {edges[1:][:10]}")

    async def _publish(self, blob: bytes) -> bytes:
        """Write the manifest. Returns the one that stays: this one, or that of a faster writer."""
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
