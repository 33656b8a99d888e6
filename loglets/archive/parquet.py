"""Parquet files of an archive: written a row group at a time, read a row group at a time from parts of the file.

A reader fetches the footer once, then the bytes of the row group that it needs. Neither is believed: the footer has a checksum
in the manifest, each page one of its own (CRC32), and the rows must cover exactly the positions that they are said to.

Nothing here looks at the metadata of a column chunk: pyarrow ends the process if that is damaged in some ways (docs/bugs.md),
instead of raising an error. Where row groups are, the manifest says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from loglets.archive import rows
from loglets.archive.manifest import DataFile, RowGroup, checksum
from virtuallog.api import Placed
from virtuallog.errors import CorruptionError

_TAIL_BYTES: Final = 8
"""Length of the footer, and the magic."""
_MAGIC: Final = b"PAR1"


@contextmanager
def _damage_reported(name: str) -> Iterator[None]:
    """Whatever pyarrow raises on bytes that are no Parquet, or no longer."""
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
    """One file in the making, in memory."""

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
        """One row group more."""
        table, before = rows.table_of(items), self._sink.tell()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._groups.append(RowGroup(items[0].start, before, self._sink.tell()))

    def finish(self) -> tuple[bytes, tuple[RowGroup, ...]]:
        """The file, and where its row groups are."""
        self._writer.close()
        content: bytes = self._sink.getvalue().to_pybytes()
        return content, tuple(self._groups)


def footer_bytes_untrusted(content: bytes) -> int:
    """How long the footer of this file is.

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
    """What a file says of itself."""

    file: DataFile
    metadata: Any


def footer_untrusted(file: DataFile, tail: bytes) -> Footer:
    """The footer in the last `file.footer_bytes` of a file.

    Raises:
        CorruptionError: these are not the bytes that the manifest means, or nothing that can be read.
    """
    if len(tail) != file.footer_bytes or checksum(tail) != file.footer_checksum:
        raise CorruptionError(f"the footer of file {file.name} does not match its checksum")
    return parse_footer_untrusted(file, tail)


def parse_footer_untrusted(file: DataFile, tail: bytes) -> Footer:
    """The same without a look at the checksum."""
    with _damage_reported(file.name):
        metadata = pq.read_metadata(_Window(file.bytes, file.bytes - len(tail), tail))
        if metadata.num_row_groups != len(file.groups):
            raise CorruptionError(f"file {file.name} of an archive has {metadata.num_row_groups} row groups")
    return Footer(file, metadata)


def read_group_untrusted(footer: Footer, index: int, content: bytes) -> list[Placed]:
    """The batches and gaps of a row group, whose bytes are `content`.

    Raises:
        CorruptionError: damaged.
        MalformedError: rows that are none of an archive.
    """
    file, group = footer.file, footer.file.groups[index]
    if len(content) != group.stop_byte - group.first_byte:
        raise CorruptionError(f"file {file.name} of an archive is shorter than its manifest says")
    stops = [*(following.start for following in file.groups[1:]), file.stop]
    with _damage_reported(file.name):
        opened = pq.ParquetFile(
            _Window(file.bytes, group.first_byte, content),
            metadata=footer.metadata,
            page_checksum_verification=True,
            pre_buffer=False,
        )
        # Threads of Arrow would change nothing in the simulator, but what is this small gains nothing from them.
        table = opened.read_row_group(index, use_threads=False)
        return rows.items_of_untrusted(table, group.start, stops[index])


def read_file_untrusted(file: DataFile, content: bytes) -> Iterator[list[Placed]]:
    """Everything in a file, a row group at a time; each checksum of it was right.

    Raises:
        CorruptionError: damaged.
        MalformedError: not a file of an archive.
    """
    if len(content) != file.bytes or checksum(content) != file.checksum:
        raise CorruptionError(f"file {file.name} of an archive does not match its checksum")
    footer = footer_untrusted(file, content[-file.footer_bytes :])
    for index, group in enumerate(file.groups):
        yield read_group_untrusted(footer, index, content[group.first_byte : group.stop_byte])


class _Window:
    """A file of which only some bytes are here, as pyarrow wants to see it."""

    closed = False

    def __init__(self, size: int, start: int, content: bytes) -> None:
        self._size, self._start, self._content = size, start, content
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

    def read(self, length: int = -1) -> bytes:
        """What is asked for; less at the end of the file, as files do. Arrow asks for more than it needs (64 KiB for a
        footer): zeros stand for what is not here, and if they are looked at, no checksum of a page is right."""
        stop = self._size if length < 0 else min(self._size, self._at + length)
        if stop <= self._at:
            return b""
        low, high = self._at - self._start, stop - self._start
        found = self._content[max(0, low) : max(0, high)]
        before = min(max(0, -low), high - low)
        self._at = stop
        return bytes(before) + found + bytes(high - low - before - len(found))

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to close."""
