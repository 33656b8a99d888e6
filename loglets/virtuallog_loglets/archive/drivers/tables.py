"""Arrow tables of an archive, straight from its files, for callers that work on columns.

    manifest ---> footer of a file ---> the row groups that are wanted ---> a table of the columns that are wanted

Checked like `loglet.py`, in the same order. The manifest is checked by the checksum in the chain.
Each footer is checked by that in the manifest, and is opened only then. Each page has its own, and
the positions of the rows are checked by those of the row group. Other row groups and columns are
neither decoded nor checked.

Nothing here needs trio or a cluster: a task of Spark reads an archive by its config alone. There is
no hot copy to fall back on, and there are no retries: the caller provides both.
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
    """Open the archive that the chain means.

    Args:
        config: config in the chain (`config.decode_untrusted`).
        files: the archive's directory; by default that of the config, by fsspec.

    Raises:
        CorruptionError: its manifest is missing, or not the one that the chain means.
        MalformedError: it is one of another log, or of a later version.
        VirtualLogError: as `Files`.
    """
    return open_directory(
        files or FsspecDirectory(config.location), config.cluster, config.start, config.stop, config.manifest
    )


def open_directory(
    files: BlockingFiles, cluster: str, start: int, stop: int, expected_checksum: str | None = None
) -> ArchiveTables:
    """Open the archive in a directory: that of a cluster (hexadecimal digits) and a range.

    For archives that no chain names, like those of `LogBackupEngine`: the checksum of their
    manifest is unknown.

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
    """One open archive."""

    manifest: ArchiveManifest
    files: BlockingFiles

    def read(self, start: int, stop: int, columns: Collection[str] = ALL) -> Iterator[pa.Table]:
        """Rows of [start, stop), in order, a row group at a time: about 1 MiB of entries.

        The tables have these of the columns of `rows.SCHEMA`, in its order, and cover the range
        exactly: a gap that reaches beyond it is cut. The first row may be in the middle of a batch;
        then its headers are null. What is trimmed by now is a gap, or several. Nothing is read
        before a table is requested, and no more than that needs.

        Raises:
            BeyondTailError: the archive does not have these positions.
            CorruptionError: something is missing or damaged. Tables returned before that are right.
            MalformedError: a file does not belong in an archive.
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
        """Data files that are not trimmed, in order, for callers that read them by other means.

        They check pages by the pages' own checksums. The footer of each file is the one that the
        manifest means.

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
        """A part of a file; None if it is gone because it was trimmed meanwhile."""
        content = self.files.read_range(file.name, start, stop)
        if content is None and file.stop > self.trim_point():
            raise CorruptionError(f"file {file.name} of an archive is missing")
        return content


def _groups(file: DataFile, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Row groups with positions of [start, stop): (index, first position, end)."""
    first = bisect_right(file.groups, start, key=lambda group: group.start) - 1
    for index in range(first, len(file.groups)):
        low, high = group_range(file, index)
        if low >= stop:
            return
        yield index, max(low, start), min(high, stop)


def _trimmed(start: int, stop: int) -> pa.Table:
    return rows.table_of([Gap(start, stop, GapKind.TRIMMED)])
