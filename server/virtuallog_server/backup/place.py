"""Place of backups: a directory on any filesystem that fsspec knows. Lists, reads and publishes them.

`core/manifest.py` has the layout. Everything but the manifests may be there without being part of a backup:
a run was killed, or is not finished.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, UnavailableError
from virtuallog_database.snapshots.compaction_manifest import (
    DIRECTORY,
    Manifest,
    manifest_name,
    position_of_directory,
)
from virtuallog_database.snapshots.compaction_manifest import decode_untrusted as decode_compaction_untrusted
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_loglets.archive.config import ArchiveConfig, backup_directory_of, join
from virtuallog_loglets.archive.core.manifest import checksum
from virtuallog_loglets.archive.drivers.files import Directory, OpenDirectory
from virtuallog_loglets.archive.restored_origin import ARCHIVES
from virtuallog_server.backup.core import manifest as manifests
from virtuallog_server.backup.core.manifest import BackupManifest, SavedRange
from virtuallog_server.backup.state_files import check_sizes

_RANGE: Final = re.compile(r"([0-9a-f]{32})-(\d{20})-(\d{20})-backup-(\d{10})", re.ASCII)


@attrs.frozen
class DamagedBackup:
    """A backup whose manifest cannot be read."""

    number: int
    error: CorruptionError | MalformedError


RangeId: TypeAlias = tuple[int, int, int]
"""Start and stop of a range, and the number of the run that has written it."""


@attrs.frozen
class BackupPlace:
    """Backups at a URL. Every method may raise the errors of `Files`.

    Args:
        url: an absolute URL.
        open_files: opens a directory.
    """

    url: str
    open_files: OpenDirectory

    @property
    def states(self) -> CompactionStore:
        """States of databases."""
        return CompactionStore(self.url, self.open_files)

    async def numbers(self) -> list[int]:
        """Numbers of all backups, in order; also of damaged ones."""
        found = (manifests.number_of(name) for name in await self._files.list())
        return sorted(number for number in found if number is not None)

    async def read(self, number: int) -> BackupManifest:
        """The backup with this number. Errors as `find`, and InvalidSettingError if there is none."""
        found = await self.find(number)
        if found is None:
            raise InvalidSettingError("number", f"there is no backup {number} at {self.url}")
        return found

    async def find(self, number: int) -> BackupManifest | None:
        """The backup with this number. None if there is none.

        Raises:
            CorruptionError: its manifest is damaged, or that of another number.
            MalformedError: something else is there, or a manifest of a later version.
        """
        name = manifests.name_of(number)
        blob = await self._files.read_range(name, 0, manifests.BYTES_MAX + 1)
        if blob is None:
            return None
        try:
            found = manifests.decode_untrusted(blob)
        except (CorruptionError, MalformedError) as error:
            raise type(error)(f"{name} at {self.url}: {error}") from error
        if found.number != number:
            raise CorruptionError(f"{name} at {self.url} is that of backup {found.number}")
        return found

    async def newest(self, below: int | None = None) -> BackupManifest | None:
        """The backup with the highest number, of those below `below` if that is given. None if there is none. Errors
        as `find`."""
        for number in reversed(await self.numbers()):
            # One that was listed may have been removed since.
            if (below is None or number < below) and (found := await self.find(number)) is not None:
                return found
        return None

    async def newest_of_each_base(self) -> list[BackupManifest]:
        """The newest backup of each base, the newest base first: together they name all that is saved. Errors as
        `find`."""
        found, manifest = list[BackupManifest](), await self.newest()
        while manifest is not None:
            found.append(manifest)
            manifest = await self.newest(manifest.base)
        return found

    async def survey(self) -> list[BackupManifest | DamagedBackup]:
        """As `newest_of_each_base`, with those that are damaged: what the next lower number names is shown then, too."""
        found, numbers = list[BackupManifest | DamagedBackup](), await self.numbers()
        while numbers:
            number = below = numbers[-1]
            try:
                manifest = await self.find(number)
                if manifest is not None:
                    found.append(manifest)
                    below = manifest.base
            except (CorruptionError, MalformedError) as error:
                found.append(DamagedBackup(number, error))
            numbers = [each for each in numbers if each < below]
        return found

    async def publish(self, manifest: BackupManifest) -> None:
        """Write the manifest, the last step of a backup. On return it is durable, and was read back.

        Raises:
            UnavailableError: another run has taken this number; the backup may be made again.
        """
        name, blob = manifests.name_of(manifest.number), manifest.encode()
        await self._files.write(name, blob, replace=False)
        if await self._files.read(name) != blob:
            raise self.taken(manifest.number)

    def taken(self, number: int) -> UnavailableError:
        """Error of a run whose number another run has taken."""
        name = manifests.name_of(number)
        return UnavailableError(f"{name} at {self.url} is that of another run: one at a time may back up there")

    async def ranges(self, cluster: str) -> list[RangeId]:
        """Ranges of this cluster, whole or not."""
        matches = (_RANGE.fullmatch(name) for name in await self.open_files(join(self.url, ARCHIVES)).directories())
        mine = (found for found in matches if found is not None and found[1] == cluster)
        return [(int(found[2]), int(found[3]), int(found[4])) for found in mine]

    def range_files(self, cluster: str, start: int, stop: int, number: int) -> Directory:
        """Files of one range."""
        return self.open_files(join(join(self.url, ARCHIVES), _directory_of(cluster, start, stop, number)))

    def config_of(self, cluster: str, saved: SavedRange) -> ArchiveConfig:
        """Config of the archive that a range is."""
        return ArchiveConfig(
            url=join(self.url, ARCHIVES), directory=_directory_of(cluster, saved.start, saved.stop, saved.number),
            start=saved.start, stop=saved.stop, manifest=saved.checksum, cluster=cluster,
        )  # fmt: skip

    async def read_state(self, manifest: BackupManifest) -> Manifest:
        """The state that a backup begins with.

        Raises:
            CorruptionError: it is missing, or not the one that the backup means.
        """
        state = manifest.state
        assert state is not None
        blob = await self.state_blob(manifest.cluster, state.position)
        if blob is None or checksum(blob) != state.checksum:
            name = join(join(self.url, DIRECTORY), manifest_name(bytes.fromhex(manifest.cluster), state.position))
            found = "missing" if blob is None else "not what its checksum says"
            raise CorruptionError(f"{name}, the state of backup {manifest.number}, is {found}")
        return decode_compaction_untrusted(blob)

    async def state_blob(self, cluster: str, position: int) -> bytes | None:
        """Manifest of a saved state. None if there is none at this position."""
        return await self.open_files(join(self.url, DIRECTORY)).read(manifest_name(bytes.fromhex(cluster), position))

    async def check_present(self, manifest: BackupManifest) -> None:
        """Check that all that a backup names is there, by a few requests; not what is in it.

        Raises:
            CorruptionError: something is missing; says what.
        """
        if manifest.state is not None:
            await check_sizes(self.states, await self.read_state(manifest))
        present = await self.ranges(manifest.cluster)
        for each in manifest.ranges:
            if (each.start, each.stop, each.number) not in present:
                raise CorruptionError(f"{self.config_of(manifest.cluster, each).location} is missing")

    async def remove_orphans(self, cluster: str, number: int) -> list[RangeId]:
        """Remove ranges of this cluster, by runs up to this number, that no backup names; returns them. The backup with
        this number is there, so no other run with it, or with a lower one, ends any more.

        Errors as `find`: a damaged manifest may name any, and nothing is removed then.
        """
        named = set[RangeId]()
        for manifest in await self.newest_of_each_base():
            named |= _ranges_of(manifest, cluster)
        orphans = [each for each in await self.ranges(cluster) if each not in named and each[2] <= number]
        # A list may be older than the files. But what a run has written is named by its own manifest, if by any.
        for run in {each[2] for each in orphans}:
            if (found := await self.find(run)) is not None:
                named |= _ranges_of(found, cluster)
        removed = list[RangeId]()
        for orphan in orphans:
            files = self.range_files(cluster, *orphan)
            # A local disk keeps the directory of files that are gone.
            if orphan not in named and (names := await files.list()):
                for name in names:
                    await files.delete(name)
                removed.append(orphan)
        return removed

    async def remove_manifest(self, number: int) -> None:
        """Remove a backup. What only it names is of no use then."""
        await self._files.delete(manifests.name_of(number))

    async def remove_unnamed_states(self, cluster: str, below: int) -> list[int]:
        """Remove states of this cluster at positions below this one that no backup names, whole or not; returns their
        positions. Compactions with tables are of another program, and stay.

        Errors as `find`: a damaged manifest may name any, and nothing is removed then.
        """
        kept = {each.state.position for each in await self.newest_of_each_base() if each.state is not None}
        identity, folder = bytes.fromhex(cluster), self.open_files(join(self.url, DIRECTORY))
        published = await self.states.positions(identity)
        begun = (position_of_directory(name, identity) for name in await folder.directories())
        removed = list[int]()
        for position in sorted({*published, *(each for each in begun if each is not None)}):
            if position >= below or position in kept:
                continue
            if position not in published:
                is_ours = bool(await self.states.files(identity, position).list())
            else:
                is_ours = not (await self.states.read(identity, position)).tables
            if is_ours:
                await self.states.remove(identity, position)
                removed.append(position)
        return removed

    @property
    def _files(self) -> Directory:
        return self.open_files(self.url)


def _ranges_of(manifest: BackupManifest, cluster: str) -> set[RangeId]:
    """Ranges of this cluster that a backup names."""
    return {(each.start, each.stop, each.number) for each in manifest.ranges if manifest.cluster == cluster}


def _directory_of(cluster: str, start: int, stop: int, number: int) -> str:
    return f"{backup_directory_of(cluster, start, stop)}-{number:010d}"
