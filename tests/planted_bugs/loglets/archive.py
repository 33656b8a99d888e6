"""Bugs of archives: what is believed too early, and what is let go of too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import LogletOffset
from virtuallog_loglets.archive import loglet as loglet_module
from virtuallog_loglets.archive.config import HotCopy
from virtuallog_loglets.archive.core.manifest import NAME, ArchiveManifest
from virtuallog_loglets.archive.creation.archive_writer import ArchiveWriter
from virtuallog_loglets.archive.creation.executor import SerialExecutor
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier, VerificationReport
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.drivers.trim_markers import trim, trim_point
from virtuallog_loglets.archive.loglet import ArchiveLoglet

written = ArchiveWriter.run

UNREADABLE: Final = ["archives are whole", "errors as documented", "progress"]


@mutant(
    ArchiveVerifier.run,
    scenario="archive",
    within=120,
    published="specs: Delos, section 3.2: verify; then write",
    found_by=UNREADABLE,
)
async def archive_is_not_read_back_while_there_is_a_hot_copy(self: ArchiveVerifier) -> VerificationReport:
    """The writer of an archive trusts it; readers verify it, once the hot copy is gone."""
    manifest = self.manifest
    return VerificationReport(
        start=manifest.start, stop=manifest.stop, files=len(manifest.files), entries=manifest.entries,
        bytes=0, compared=False,
    )  # fmt: skip


@attrs.define(eq=False)
class ManifestFirst:
    """Files, of which those with data wait for the manifest."""

    _files: Files
    _waiting: list[tuple[str, bytes]] = attrs.field(factory=list, init=False)

    async def read(self, name: str) -> bytes | None:
        return await self._files.read(name)

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        return await self._files.read_range(name, start, stop)

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        if name != NAME:
            self._waiting.append((name, content))
            return True
        done = await self._files.write(name, content, replace=replace)
        for data in self._waiting:
            await self._files.write(*data)
        return done

    async def list(self) -> Mapping[str, int]:
        return await self._files.list()

    async def delete(self, name: str) -> None:
        await self._files.delete(name)


@mutant(ArchiveWriter.run, scenario="archive", published="specs: Delos, section 3.2", found_by=["manifest comes last"])
async def manifest_before_its_files(self: ArchiveWriter) -> bytes:
    """The data follow when the manifest stands."""
    self.files = ManifestFirst(self.files)
    assert isinstance(self.executor, SerialExecutor)
    self.executor = attrs.evolve(self.executor, files=self.files)
    return await written(self)


@mutant(trim, used_in=loglet_module, scenario="archive", within=120, found_by=[*UNREADABLE, "trim points move forward"])
async def files_deleted_without_a_word(files: Files, manifest: ArchiveManifest, position: int) -> int:
    """A trim deletes files, and leaves no marker that says so."""
    names = await files.list()
    effective = max(trim_point(manifest, names), min(position, manifest.stop))
    for file in manifest.files:
        if file.stop <= effective:
            await files.delete(file.name)
    return effective


@mutant(HotCopy.of, scenario="archive", found_by=["hot copies are kept"])
def another_loglet_is_kept(segment: Segment, release_at_ms: int) -> HotCopy:
    """The config of an archive names the loglet that it took the place of by another id."""
    other = SegmentId(segment.id.version, (segment.id.attempt + 1) % (1 << 63))
    return HotCopy(id=other, kind=segment.kind, config=segment.config, base=segment.base, release_at_ms=release_at_ms)


@mutant(
    ArchiveLoglet.read,
    scenario="archive",
    within=60,
    found_by=["reads without holes"],
)
async def archive_reads_past_its_stop(
    self: ArchiveLoglet, start: LogletOffset, stop: LogletOffset, max_bytes: int
) -> Sequence[Placed]:
    """A read gives what the row group has, up to its end."""
    return await self._read_files(start, self.config.stop, max_bytes)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
