"""Who makes and verifies the data files of an archive: one file after the other in this process, or many tasks elsewhere.

What is the same for all of them is in `writing.py` and `verifying.py`: what is to be done, in which order, and when there is an
archive. A crew decides only how work on files is dealt out; each piece is `make_span` or `verify_file`.
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

# FOLDED from virtuallog_loglets.archive.adopting: Takes a data file that a former attempt has left, if it is whole and has what the hot copy has.
#
# What its name says is checked against its content before anything of it is opened (`manifest.py` says why), and its content is
# compared with the hot copy: whoever may write there could have put anything. That costs reading; encoding it again costs
# several times as much.


async def reuse_file(span: ArchiveSpan, files: Files, source: ReadableSegment) -> WrittenFile | None:
    """The file of a span; None: it is torn, damaged, gone, not by us, or something else than the hot copy has.

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
"""Told up to which position it is done; if several work at once, as if all that is done lay at the beginning."""


class ArchiveExecutor(Protocol):
    """Works on the files of one archive."""

    @property
    def compares(self) -> bool:
        """Whether there is a hot copy."""
        ...

    async def make(self, spans: Sequence[ArchiveSpan], tell: FileProgress) -> Sequence[WrittenFile]:
        """Files that cover these spans, in order; durable on return. Cancelled, some may be there, which the next one finds.

        Raises:
            VirtualLogError: as `Files` and as the segment's loglet.
        """
        ...

    async def verify(self, manifest: ArchiveManifest, trimmed: int, tell: FileProgress) -> Sequence[VerifiedFile]:
        """What was found of each file of an archive, in order. All that is there is right, and what the hot copy has.

        Args:
            manifest: of the archive.
            trimmed: what is below may be missing.
            tell: of progress.

        Raises: as `Verifying.run`.
        """
        ...


@attrs.frozen(eq=False)
class SerialExecutor:
    """In this process, in order. Implements `ArchiveExecutor`."""

    source: ReadableSegment | None
    """The hot copy, if there is one; nothing can be made without."""
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
    """The files of a span, in order: the one that is there already, if it is right, else as many as it takes.

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
