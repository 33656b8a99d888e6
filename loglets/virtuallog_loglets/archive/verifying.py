"""Reads an archive back, all of it, and compares it with the loglet that it is to replace; `checking.py` says what is looked at.

A trim may go on meanwhile: what it has taken away since is neither missing nor compared.
"""

from __future__ import annotations

import attrs

from virtuallog.errors import CorruptionError, MalformedError
from virtuallog_loglets.archive.crew import Crew, OneByOne, Tell
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.manifest import Manifest
from virtuallog_loglets.archive.trimming import trim_point


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
    crew: Crew
    tell: Tell = lambda position: None
    """Told up to where it is done."""

    async def run(self) -> Verified:
        """On return every file was read and was right.

        Raises:
            CorruptionError: something is missing, damaged, or not what the hot copy has.
            MalformedError: a file is none of an archive.
            UnavailableError: no answer; may be run again.
            VirtualLogError: as `Files`, and as the loglet of the hot copy.
        """
        manifest = self.manifest
        trimmed = trim_point(manifest, await self.files.list())
        found = await self.crew.verify(manifest, trimmed, self.tell)
        there = [file for file, one in zip(manifest.files, found, strict=True) if one.is_there]
        return Verified(
            start=max([manifest.start, trimmed, *(one.trimmed for one in found)]), stop=manifest.stop, files=len(there),
            entries=sum(file.entries for file in there), bytes=sum(file.bytes for file in there),
            compared=self.crew.compares,
        )  # fmt: skip


async def is_damaged(manifest: Manifest, files: Files) -> bool:
    """Whether an archive contradicts itself. One that is merely that of something else does not."""
    try:
        await Verifying(manifest=manifest, files=files, crew=OneByOne(None, files)).run()
    except (CorruptionError, MalformedError):
        return True
    return False
