"""Parquet files of an archive: written a row group at a time, read a row group at a time from parts
of the file.

A reader fetches the footer once, then the bytes of the row group that it needs. It trusts neither.
The footer has a checksum in the manifest, each page has its own (CRC32), and the rows must cover
exactly the stated positions.

Danger: readers of archives must not look at the metadata of a column chunk. pyarrow ends the
process on some damage there (docs/internals/lessons.md) instead of raising an error. The manifest says where row
groups are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog_loglets.archive.core import rows
from virtuallog_loglets.archive.core.manifest import DataFile, RowGroup, checksum

Bytes: TypeAlias = bytes | memoryview
_TAIL_BYTES: Final = 8
"""Bytes of the length of the footer, and of the magic."""
_MAGIC: Final = b"PAR1"


@contextmanager
def _damage_reported(name: str) -> Iterator[None]:
    """Turn any error of pyarrow on damaged bytes into CorruptionError."""
    try:
        yield
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise CorruptionError(f"file {name} of an archive cannot be read: {str(error)[:200]}") from error


# -- writing --------------------------------------------------------------------------------------------------------------


class ParquetPart:
    """One file under construction, in memory."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._groups: list[RowGroup] = []
        plain = ("position", "sequence", "time", "gap_stop")
        self._writer = pq.ParquetWriter(
            self._sink,
            rows.SCHEMA,
            compression="zstd",
            use_dictionary=["session", "headers", "gap"],
            column_encoding=dict.fromkeys(plain, "DELTA_BINARY_PACKED"),
            write_statistics=["position"],
            write_page_checksum=True,
            store_schema=False,
        )

    def add(self, items: Sequence[Placed]) -> None:
        """Add one row group."""
        table, before = rows.table_of(items), self._sink.tell()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._groups.append(RowGroup(items[0].start, before, self._sink.tell()))

    def finish(self) -> tuple[bytes, tuple[RowGroup, ...]]:
        """Finish the file. Returns its bytes and its row groups."""
        self._writer.close()
        content: bytes = self._sink.getvalue().to_pybytes()
        return content, tuple(self._groups)


def footer_bytes_untrusted(content: bytes) -> int:
    """Length of the footer of this file.

    Raises:
        CorruptionError: it has none.
    """
    if len(content) < _TAIL_BYTES + len(_MAGIC) or content[-len(_MAGIC) :] != _MAGIC:
        raise CorruptionError("a file of an archive does not end as Parquet does")
    length = int.from_bytes(content[-_TAIL_BYTES : -len(_MAGIC)], "little") + _TAIL_BYTES
    if length > len(content):
        raise CorruptionError("a file of an archive is shorter than its footer")
    return length


# -- reading --------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Footer:
    """Decoded footer of a file."""

    file: DataFile
    metadata: Any


def footer_untrusted(file: DataFile, tail: bytes) -> Footer:
    """Check and decode the footer in the last `file.footer_bytes` of a file.

    Raises:
        CorruptionError: these are not the bytes that the manifest means, or they cannot be decoded.
    """
    if len(tail) != file.footer_bytes or checksum(tail) != file.footer_checksum:
        raise CorruptionError(f"the footer of file {file.name} does not match its checksum")
    return parse_footer_untrusted(file, tail)


def parse_footer_untrusted(file: DataFile, tail: bytes) -> Footer:
    """Decode a footer without checking its checksum."""
    with _damage_reported(file.name):
        metadata = pq.read_metadata(_Window(file.bytes, file.bytes - len(tail), tail))
        if metadata.num_row_groups != len(file.groups):
            raise CorruptionError(f"file {file.name} of an archive has {metadata.num_row_groups} row groups")
    return Footer(file, metadata)


def read_group_untrusted(footer: Footer, index: int, content: Bytes) -> list[Placed]:
    """Batches and gaps of a row group, whose bytes are `content`.

    Raises:
        CorruptionError: damaged.
        MalformedError: rows that do not belong in an archive.
    """
    with _damage_reported(footer.file.name):
        return rows.items_of_untrusted(_read(footer, index, content, None), *group_range(footer.file, index))


def read_group_table_untrusted(footer: Footer, index: int, content: Bytes, columns: Collection[str]) -> pa.Table:
    """Columns of a row group, whose bytes are `content`, and those that give its positions. Only
    these are decoded.

    The rows cover the positions of the group. A column is null in gaps and in no entry. It is not
    checked that the rows of a batch are consecutive.

    Raises: as `read_group_untrusted`.
    """
    wanted = [name for name in rows.SCHEMA.names if name in columns or name in rows.COVER_COLUMNS]
    with _damage_reported(footer.file.name):
        table = _read(footer, index, content, wanted)
        rows.check_columns_untrusted(table, wanted)
        rows.check_cover_untrusted(table, *group_range(footer.file, index))
        return table


def group_range(file: DataFile, index: int) -> tuple[int, int]:
    """Positions of a row group."""
    following = file.groups[index + 1].start if index + 1 < len(file.groups) else file.stop
    return file.groups[index].start, following


def _read(footer: Footer, index: int, content: Bytes, columns: list[str] | None) -> pa.Table:
    file, group = footer.file, footer.file.groups[index]
    if len(content) != group.stop_byte - group.first_byte:
        raise CorruptionError(f"file {file.name} of an archive is shorter than its manifest says")
    opened = pq.ParquetFile(
        _Window(file.bytes, group.first_byte, content),
        metadata=footer.metadata,
        page_checksum_verification=True,
        pre_buffer=False,
    )
    # Threads of Arrow would change nothing in the simulator, and something this small gains
    # nothing from them.
    return opened.read_row_group(index, columns=columns, use_threads=False)


def groups_untrusted(content: bytes, start: int) -> tuple[RowGroup, ...]:
    """Row groups of a file that begins at this position.

    For a file without a manifest that is known to be intact by its checksum. Only here the metadata
    of column chunks is read.

    Raises:
        CorruptionError: not a file of an archive.
    """
    with _damage_reported("that was left"):
        opened = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        metadata, end = opened.metadata, len(content) - footer_bytes_untrusted(content)
        columns = [metadata.row_group(index).column(0) for index in range(metadata.num_row_groups)]
        edges = [*(column.dictionary_page_offset or column.data_page_offset for column in columns), end]
        places = [
            opened.read_row_group(index, ["position"], use_threads=False)["position"][0].as_py()
            for index in range(len(columns))
        ]
    if not columns or places[0] != start:
        raise CorruptionError(f"a file of an archive that was left does not begin at {start}")
    return tuple(RowGroup(*group) for group in zip(places, edges, edges[1:], strict=False))


def read_file_untrusted(file: DataFile, content: bytes) -> Iterator[list[Placed]]:
    """Read everything in a file, a row group at a time. Every checksum of it was right.

    Raises:
        CorruptionError: damaged.
        MalformedError: not a file of an archive.
    """
    if len(content) != file.bytes or checksum(content) != file.checksum:
        raise CorruptionError(f"file {file.name} of an archive does not match its checksum")
    footer, view = footer_untrusted(file, content[-file.footer_bytes :]), memoryview(content)
    for index, group in enumerate(file.groups):
        yield read_group_untrusted(footer, index, view[group.first_byte : group.stop_byte])


class _Window:
    """View for pyarrow of a file of which only some bytes are here."""

    closed = False

    def __init__(self, size: int, start: int, content: Bytes) -> None:
        self._size, self._start, self._content = size, start, memoryview(content)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int = -1) -> Bytes:
        """Read bytes; fewer at the end of the file, as files do.

        Arrow reads more than it needs (64 KiB for a footer). Zeros stand for missing bytes; if they
        are used, no checksum of a page is right.
        """
        stop = self._size if length < 0 else min(self._size, self._at + length)
        if stop <= self._at:
            return b""
        low, high = self._at - self._start, stop - self._start
        found = self._content[max(0, low) : max(0, high)]
        before = min(max(0, -low), high - low)
        self._at = stop
        if len(found) == high - low:
            return found
        return bytes(before) + found + bytes(high - low - before - len(found))

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to close."""
