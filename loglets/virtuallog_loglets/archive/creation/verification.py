"""Verification of an archive: reads all of it back and compares it with the loglet that it is to
replace.

`file_verification.py` has the checks of one file. A trim may go on meanwhile: what it has removed
since is neither missing nor compared.
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
    """Range that was read and was right."""

    start: int
    """Position below which everything was trimmed, in the archive or in the hot copy."""
    stop: int
    files: int
    entries: int
    bytes: int
    compared: bool
    """True if it was compared with the hot copy."""


@attrs.define(eq=False, kw_only=True)
class ArchiveVerifier:
    """Verifier of one archive."""

    manifest: ArchiveManifest
    files: Files
    executor: ArchiveExecutor
    tell: FileProgress = lambda position: None
    """Callback for progress: the position up to which it is done."""

    async def run(self) -> VerificationReport:
        """Verify everything. On return every file was read and was right.

        Raises:
            CorruptionError: something is missing, damaged, or differs from the hot copy.
            MalformedError: a file does not belong in an archive.
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
    """True if an archive contradicts itself. One that is merely that of something else does not."""
    try:
        await ArchiveVerifier(manifest=manifest, files=files, executor=SerialExecutor(None, files)).run()
    except (CorruptionError, MalformedError):
        return True
    return False
