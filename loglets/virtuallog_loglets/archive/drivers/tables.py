"""What an archive holds as Arrow tables, straight from its files: for whoever works on columns, not on entries.

    manifest ---> footer of a file ---> the row groups that are wanted ---> a table of the columns that are wanted

As checked as `loglet.py`, in the same order: the manifest by the checksum in the chain, each footer by that in the manifest, and is
opened only then; each page by its own; the positions of the rows by those of the row group. Row groups and columns that nobody
wants are neither decoded nor checked. Nothing here needs a loop of trio or a cluster: a task of Spark reads an archive by its
config alone. There is no hot copy to fall back on, and no patience: whoever calls has both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import Final

import attrs
import pyarrow as pa

from virtuallog.contract.errors import BeyondTailError, CorruptionError
from virtuallog.contract.types import Gap, GapKind
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core import rows
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, DataFile
from virtuallog_loglets.archive.core.parquet import Footer, footer_untrusted, group_range, read_group_table_untrusted
from virtuallog_loglets.archive.drivers.files import BlockingFiles
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecDirectory
from virtuallog_loglets.archive.drivers.trim_markers import trim_point

ALL: Final = tuple(rows.SCHEMA.names)


def open_archive(config: ArchiveConfig, files: BlockingFiles | None = None) -> ArchiveTables:
    """The archive that the chain means.

    Args:
        config: what the chain says (`config.decode_untrusted`).
        files: the archive's directory; by default that which the config names, by fsspec.

    Raises:
        CorruptionError: its manifest is not there, or not the one that the chain means.
        MalformedError: it is one of another log, or of a later version.
        VirtualLogError: as `Files`.
    """
    return open_directory(
        files or FsspecDirectory(config.location), config.cluster, config.start, config.stop, config.manifest
    )


def open_directory(
    files: BlockingFiles, cluster: str, start: int, stop: int, expected_checksum: str | None = None
) -> ArchiveTables:
    """The archive in a directory: that of a cluster (hexadecimal digits) and a range. For those that no chain names, like those
    of `LogBackupEngine`, nobody knows the checksum of the manifest.

    Raises: as `open_archive`.
    """
    blob = files.read(manifests.NAME)
    if blob is None:
        raise CorruptionError(f"the archive of [{start}, {stop}) has no manifest")
    manifest = manifests.decode_untrusted(blob, expected_checksum)
    manifest.check_range(cluster, start, stop)
    return ArchiveTables(manifest, files)


@attrs.frozen(eq=False)
class ArchiveTables:
    """One archive that is open."""

    manifest: ArchiveManifest
    files: BlockingFiles

    def read(self, start: int, stop: int, columns: Collection[str] = ALL) -> Iterator[pa.Table]:
        """The rows of [start, stop), in order, a row group at a time: about 1 MiB of entries.

        The tables have these of the columns of `rows.SCHEMA`, in its order, and cover the range exactly: a gap that reaches beyond
        it is cut. The first row may be in the middle of a batch, then its headers are null. What is trimmed by now is a gap,
        or several. Nothing is read before a table is asked for, and no more than that needs.

        Raises:
            BeyondTailError: the archive does not have these positions.
            CorruptionError: something is missing or damaged. What was handed out before that is right.
            MalformedError: a file is none of an archive.
            VirtualLogError: as `Files`.
        """
        if start >= stop:
            return
        if not self.manifest.start <= start < stop <= self.manifest.stop:
            raise BeyondTailError(stop, self.manifest.stop)
        order = [name for name in rows.SCHEMA.names if name in columns]
        trim = min(self.trim_point(), stop)
        if start < trim:
            yield _trimmed(start, trim).select(order)
        for file in self.manifest.files:
            low, high = max(start, trim, file.start), min(stop, file.stop)
            if low < high:
                yield from (table.select(order) for table in self._read_file(file, low, high, order))

    def trim_point(self) -> int:
        """First position that is not trimmed, as of now."""
        return trim_point(self.manifest, self.files.list())

    def checked_files(self) -> list[DataFile]:
        """The data files that are not trimmed, in order: for whoever reads them by other means, and checks pages by their own
        checksums. The footer of each is the one that the manifest means.

        Raises:
            CorruptionError: one is missing, or has another footer.
            VirtualLogError: as `Files`.
        """
        trim = self.trim_point()
        return [file for file in self.manifest.files if file.stop > trim and self._footer(file) is not None]

    def _footer(self, file: DataFile) -> Footer | None:
        tail = self._bytes(file, file.bytes - file.footer_bytes, file.bytes)
        return None if tail is None else footer_untrusted(file, tail)

    def _read_file(self, file: DataFile, start: int, stop: int, columns: Collection[str]) -> Iterator[pa.Table]:
        footer = self._footer(file)
        for index, low, high in _groups(file, start, stop):
            group = file.groups[index]
            content = None if footer is None else self._bytes(file, group.first_byte, group.stop_byte)
            if footer is None or content is None:
                yield _trimmed(low, stop)
                return
            table = read_group_table_untrusted(footer, index, content, columns)
            yield table if (low, high) == group_range(file, index) else rows.clip(table, low, high)

    def _bytes(self, file: DataFile, start: int, stop: int) -> bytes | None:
        """A part of a file; None: it is gone, as it was trimmed meanwhile."""
        content = self.files.read_range(file.name, start, stop)
        if content is None and file.stop > self.trim_point():
            raise CorruptionError(f"file {file.name} of an archive is missing")
        return content


def _groups(file: DataFile, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The row groups with positions of [start, stop), and which these are."""
    first = bisect_right(file.groups, start, key=lambda group: group.start) - 1
    for index in range(first, len(file.groups)):
        low, high = group_range(file, index)
        if low >= stop:
            return
        yield index, max(low, start), min(high, stop)


def _trimmed(start: int, stop: int) -> pa.Table:
    return rows.table_of([Gap(start, stop, GapKind.TRIMMED)])
