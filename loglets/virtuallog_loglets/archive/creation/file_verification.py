"""Verification of one file of an archive against the loglet that the archive is to replace.

Every byte is checked against the manifest, every row against the rules of the format. The content
of the rows is compared with the loglet's: positions, payloads, sessions, sequence numbers, times,
headers and gaps. The loglet may be trimmed meanwhile; what is gone there is not compared. What the
manifest says was trimmed must be a gap in the file. The file is in memory as a whole.
"""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog_loglets.archive.core.content_digest import ContentDigest, clipped, digest_of, trimmed_up_to
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, DataFile
from virtuallog_loglets.archive.core.parquet import read_file_untrusted
from virtuallog_loglets.archive.core.rows import rows_of
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.drivers.trim_markers import trim_point


@attrs.frozen
class VerifiedFile:
    """Result for one file. If it is there, it is right."""

    is_there: bool
    """False if it was trimmed."""
    trimmed: int
    """Position below which everything was trimmed, in the archive or in the hot copy, as far as was seen."""


async def verify_file(
    file: DataFile, manifest: ArchiveManifest, files: Files, source: ReadableSegment | None, trimmed: int,
    whole: ContentDigest | None = None,
) -> VerifiedFile:  # fmt: skip
    """Read one file back and compare it with the hot copy.

    Args:
        file: file of the archive.
        manifest: manifest of the archive; its list of files is not used.
        files: directory of the archive.
        source: the hot copy; None if there is none.
        trimmed: what lies below may be missing, and is not compared.
        whole: digest that is fed with the content of the file.

    Raises: as `ArchiveVerifier.run`.
    """
    content = await files.read(file.name)
    if content is None:
        trimmed = max(trimmed, trim_point(manifest, await files.list()))
        if file.stop > trimmed:
            raise CorruptionError(f"file {file.name} of an archive is missing")
        return VerifiedFile(False, trimmed)
    items = [item for group in read_file_untrusted(file, content) for item in group]
    _check_untrusted(file, manifest, items)
    if whole is not None:
        whole.feed(items)
    if source is not None:
        trimmed = await compare(source, file, items, trimmed)
    return VerifiedFile(True, trimmed)


def _check_untrusted(file: DataFile, manifest: ArchiveManifest, items: list[Placed]) -> None:
    """Check that the content of a file is what the manifest says."""
    if rows_of(items) != (file.entries, file.gaps):
        raise CorruptionError(f"file {file.name} of an archive has {rows_of(items)[0]} entries, not {file.entries}")
    trimmed = manifest.trimmed
    if file.start < trimmed <= file.stop and trimmed_up_to(items, file.start) != trimmed:
        raise CorruptionError(f"an archive says that it is trimmed up to {trimmed}, and file {file.name} is not")
    if file.content and digest_of(items) != file.content:
        raise CorruptionError(f"the entries of file {file.name} of an archive do not match their checksum")


async def compare(source: ReadableSegment, file: DataFile, items: list[Placed], trimmed: int) -> int:
    """Compare a file with the hot copy, above what is trimmed there. Returns the position up to
    which it is trimmed by now.

    In each further round it has been trimmed a bit further, up to the end of the file at most.

    Raises:
        CorruptionError: the hot copy differs.
        VirtualLogError: as the source.
    """
    low = max(file.start, trimmed)
    while low < file.stop:
        hot, found = await _read(source, low, file.stop)
        if found == low:
            if hot != digest_of(clipped(items, low, file.stop)):
                raise CorruptionError(f"file {file.name} of an archive has not what the hot copy has")
            break
        low = trimmed = found
    return trimmed


async def _read(source: ReadableSegment, start: int, stop: int) -> tuple[str, int]:
    """Checksum of the content, and the position up to which it is trimmed."""
    digest, trimmed, at = ContentDigest(), start, start
    while at < stop:
        found = await source.read(at, stop)
        trimmed = max(trimmed, trimmed_up_to(found, start))
        digest.feed(found)
        at = found[-1].stop
    return digest.checksum(), trimmed
