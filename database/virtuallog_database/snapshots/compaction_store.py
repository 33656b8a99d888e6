"""Location of compactions: lists, reads and publishes them (`compaction_manifest.py` has the
layout).

A writer stores the files first, under names that contain their checksums, then the manifest in one
step. Files without a manifest are ignored: their writer was killed or is not finished. A reader
trusts the manifest, and compares each file with it.
"""

from __future__ import annotations

from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog_database.snapshots import compaction_manifest
from virtuallog_database.snapshots.compaction_manifest import (
    BYTES_MAX,
    DIRECTORY,
    Manifest,
    directory_of,
    manifest_name,
)
from virtuallog_loglets.archive.config import join
from virtuallog_loglets.archive.drivers.files import Files, OpenFiles
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles

KEPT: Final = 2
"""Compactions to keep: a server that has started from the former one must be able to finish."""


def stored_name(stem: str, content: bytes, suffix: str) -> str:
    """Name of a file of a compaction at the location: `000007-9f3ab210.sst`."""
    return f"{stem}-{crc32c(content):08x}{suffix}"


@attrs.frozen
class CompactionStore:
    """Compactions at a URL, of any clusters. Every method may raise the errors of
    `virtuallog_loglets.archive.drivers.files.Files`.

    Args:
        url: a directory that fsspec knows; compactions are below it in `compacted`.
        open_files: opens a directory.
    """

    url: str
    open_files: OpenFiles = FsspecFiles

    async def clusters(self) -> set[bytes]:
        """Ids of the clusters that have compactions here."""
        return {
            cluster
            for name in await self._published.list()
            if (cluster := compaction_manifest.cluster_of(name)) is not None
        }

    async def positions(self, cluster: bytes) -> list[LogPosition]:
        """Positions of all compactions of this cluster, in order."""
        names = await self._published.list()
        found = (compaction_manifest.position_of(name, cluster) for name in names)
        return sorted(position for position in found if position is not None)

    async def read(self, cluster: bytes, position: int) -> Manifest:
        """The compaction of this cluster at this position.

        Raises:
            UnavailableError: it is not there (any more).
            CorruptionError: its manifest is damaged, or belongs to another compaction.
            BinaryTooOldError: it is of a later version.
        """
        name = manifest_name(cluster, position)
        blob = await self._published.read_range(name, 0, BYTES_MAX)
        if blob is None:
            raise UnavailableError(f"there is no compaction at {position} at {self.url} (any more)")
        try:
            manifest = compaction_manifest.decode_untrusted(blob)
        except MalformedError as error:
            raise CorruptionError(f"{name} at {self.url}: {error}") from error
        if (manifest.cluster, manifest.position) != (cluster, position):
            raise CorruptionError(f"{name} at {self.url} is that of another compaction")
        return manifest

    async def newest(self, cluster: bytes, up_to: int | None = None) -> Manifest | None:
        """The newest compaction of this cluster, or the newest at or below `up_to`. None if there
        is none. Errors as `read`."""
        found = [each for each in await self.positions(cluster) if up_to is None or each <= up_to]
        return await self.read(cluster, found[-1]) if found else None

    async def read_file(self, manifest: Manifest, stored: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of a file, fewer at its end. Unchecked: the manifest has the checksum
        of the whole file.

        Raises:
            UnavailableError: it is not there (any more).
        """
        content = await self.files(manifest.cluster, manifest.position).read_range(stored, start, stop)
        if content is None:
            raise UnavailableError(f"{stored} of the compaction at {manifest.position} is not at {self.url} (any more)")
        return content

    async def write_file(self, cluster: bytes, position: int, stem: str, content: bytes, suffix: str) -> str:
        """Store one file of an unpublished compaction; returns its stored name. Durable on return.
        Readers ignore it until the manifest is published."""
        name = stored_name(stem, content, suffix)
        await self.files(cluster, position).write(name, content)
        return name

    async def publish(self, manifest: Manifest) -> Manifest:
        """Publish a compaction by writing its manifest. Returns the published manifest: this one,
        or that of a faster writer. All files must be stored already."""
        name = manifest_name(manifest.cluster, manifest.position)
        if await self._published.write(name, manifest.encode(), replace=False):
            return manifest
        return await self.read(manifest.cluster, manifest.position)

    async def remove(self, cluster: bytes, position: int) -> None:
        """Remove a compaction; reads of its files fail then. Killed in between, it is none any more, and some of its files are left."""
        await self._published.delete(manifest_name(cluster, position))
        await self.remove_files(cluster, position)

    async def remove_files(self, cluster: bytes, position: int) -> None:
        """Remove the files of a compaction that has no manifest (any more)."""
        files = self.files(cluster, position)
        for name in await files.list():
            await files.delete(name)

    @property
    def _published(self) -> Files:
        return self.open_files(join(self.url, DIRECTORY))

    def files(self, cluster: bytes, position: int) -> Files:
        """Files of one compaction, published or not."""
        return self.open_files(self.location(cluster, position))

    def location(self, cluster: bytes, position: int) -> str:
        """URL of the directory with these files."""
        return join(join(self.url, DIRECTORY), directory_of(cluster, position))
