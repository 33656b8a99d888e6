"""Executors: make and verify the data files of an archive, one after the other here or as many
tasks elsewhere.

All executors share `archive_writer.py` and `verification.py`: what is to be done, in which order,
and when there is an archive. An executor only distributes the work on files; each piece is
`make_span` or `verify_file`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.archive.core.content_digest import ContentDigest, digest_of, trimmed_up_to
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, checksum
from virtuallog_loglets.archive.core.parquet import groups_untrusted, read_file_untrusted
from virtuallog_loglets.archive.core.rows import rows_of
from virtuallog_loglets.archive.creation.data_files import (
    DataFileSizes,
    WrittenFile,
    checksum_prefix,
    data_file,
    make_file,
)
from virtuallog_loglets.archive.creation.file_verification import VerifiedFile, compare, verify_file
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.creation.spans import ArchiveSpan
from virtuallog_loglets.archive.drivers.files import Files


async def reuse_file(span: ArchiveSpan, files: Files, source: ReadableSegment) -> WrittenFile | None:
    """The file of a span that a former attempt has left; None if it cannot be used.

    That is so if it is torn, damaged, gone, foreign, or differs from the hot copy. The checksum in
    its name is compared with its content before any of it is opened (`core/parquet.py` says why).
    Its content is compared with the hot copy, because every program that may write there could have
    put anything. That costs reading; encoding it again costs several times as much.

    Raises:
        VirtualLogError: as `Files` and as the source.
    """
    assert span.found is not None
    content = await files.read(span.found)
    if content is None or f"-{checksum_prefix(checksum(content))}." not in span.found:
        return None
    try:
        return await _reused(span, content, source)
    except (CorruptionError, MalformedError):
        return None


async def _reused(span: ArchiveSpan, content: bytes, source: ReadableSegment) -> WrittenFile:
    described = data_file(content, span.stop, groups_untrusted(content, span.start), 0, 0, "")
    items = [item for group in read_file_untrusted(described, content) for item in group]
    await compare(source, described, items, span.start)
    entries, gaps = rows_of(items)
    file = data_file(content, span.stop, described.groups, entries, gaps, digest_of(items))
    if file.name != span.found:
        raise CorruptionError(f"file {span.found} of an archive is not what its name says")
    return WrittenFile(file, trimmed_up_to(items, 0))


_FILE = CrashPoint("archive: one file more is written, there is no manifest")

FileProgress: TypeAlias = Callable[[int], None]
"""Callback for progress: the position up to which it is done. If several work at once, it counts as
if all that is done lay at the beginning."""


class ArchiveExecutor(Protocol):
    """Works on the files of one archive."""

    @property
    def compares(self) -> bool:
        """True if there is a hot copy to compare with."""
        ...

    async def make(self, spans: Sequence[ArchiveSpan], tell: FileProgress) -> Sequence[WrittenFile]:
        """Make files that cover these spans, in order; durable on return.

        If it is cancelled, some may be there, and the next call finds them.

        Raises:
            VirtualLogError: as `Files` and as the segment's loglet.
        """
        ...

    async def verify(self, manifest: ArchiveManifest, trimmed: int, tell: FileProgress) -> Sequence[VerifiedFile]:
        """Verify each file of an archive, in order. All that is there is right, and equals the hot
        copy.

        Args:
            manifest: manifest of the archive.
            trimmed: what lies below may be missing.
            tell: callback for progress.

        Raises: as `ArchiveVerifier.run`.
        """
        ...


@attrs.frozen(eq=False)
class SerialExecutor:
    """Executor in this process, file after file. Implements `ArchiveExecutor`."""

    source: ReadableSegment | None
    """The hot copy; None if there is none, and then nothing can be made."""
    files: Files
    sizes: DataFileSizes = attrs.field(factory=DataFileSizes)

    @property
    def compares(self) -> bool:
        return self.source is not None

    async def make(self, spans: Sequence[ArchiveSpan], tell: FileProgress) -> Sequence[WrittenFile]:
        assert self.source is not None
        made = list[WrittenFile]()
        for span in spans:
            made += await make_span(span, self.source, self.files, self.sizes, tell)
        return made

    async def verify(self, manifest: ArchiveManifest, trimmed: int, tell: FileProgress) -> Sequence[VerifiedFile]:
        found, whole = list[VerifiedFile](), ContentDigest()
        for file in manifest.files:
            also = None if manifest.is_by_file else whole
            one = await verify_file(file, manifest, self.files, self.source, trimmed, also)
            trimmed = max(trimmed, one.trimmed)
            found.append(one)
            tell(file.stop)
        is_all = not manifest.is_by_file and all(one.is_there for one in found)
        if is_all and whole.checksum() != manifest.content:
            raise CorruptionError("the entries of an archive do not match the checksum of its content")
        return found


async def make_span(
    span: ArchiveSpan,
    source: ReadableSegment,
    files: Files,
    sizes: DataFileSizes,
    tell: FileProgress = lambda position: None,
) -> list[WrittenFile]:
    """Files of a span, in order: the one that is there already, if it is right, else as many as it
    takes.

    Raises: as `ArchiveExecutor.make`.
    """
    adopted = None if span.found is None else await reuse_file(span, files, source)
    if adopted is not None:
        tell(span.stop)
        return [adopted]
    made, at = list[WrittenFile](), span.start
    while at < span.stop:
        content, one = await make_file(source, at, span.stop, sizes)
        await files.write(one.file.name, content)
        _FILE.reached()
        made.append(one)
        at = one.file.stop
        tell(at)
    return made
