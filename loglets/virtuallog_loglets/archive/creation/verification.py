"""Reads an archive back, all of it, and compares it with the loglet that it is to replace; `checking.py` says what is looked at.

A trim may go on meanwhile: what it has taken away since is neither missing nor compared.
"""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.archive.core.manifest import ArchiveManifest
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor, FileProgress, SerialExecutor
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.drivers.trim_markers import trim_point


@attrs.frozen(kw_only=True)
class VerificationReport:
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
class ArchiveVerifier:
    """Of one archive."""

    manifest: ArchiveManifest
    files: Files
    executor: ArchiveExecutor
    tell: FileProgress = lambda position: None
    """Told up to where it is done."""

    async def run(self) -> VerificationReport:
        """On return every file was read and was right.

        Raises:
            CorruptionError: something is missing, damaged, or not what the hot copy has.
            MalformedError: a file is none of an archive.
            UnavailableError: no answer; may be run again.
            VirtualLogError: as `Files`, and as the loglet of the hot copy.
        """
        manifest = self.manifest
        trimmed = trim_point(manifest, await self.files.list())
        found = await self.executor.verify(manifest, trimmed, self.tell)
        there = [file for file, one in zip(manifest.files, found, strict=True) if one.is_there]
        return VerificationReport(
            start=max([manifest.start, trimmed, *(one.trimmed for one in found)]), stop=manifest.stop, files=len(there),
            entries=sum(file.entries for file in there), bytes=sum(file.bytes for file in there),
            compared=self.executor.compares,
        )  # fmt: skip


async def is_damaged(manifest: ArchiveManifest, files: Files) -> bool:
    """Whether an archive contradicts itself. One that is merely that of something else does not."""
    try:
        await ArchiveVerifier(manifest=manifest, files=files, executor=SerialExecutor(None, files)).run()
    except (CorruptionError, MalformedError):
        return True
    return False
