"""The active segment: placement and encoding of the next records."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from crc32c import crc32c

from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of


def size_of(records: Sequence[WalRecord]) -> int:
    """Bytes that `records` take in a segment, headers included."""
    size = fmt.RECORD_HEADER_BYTES * len(records)
    for record in records:
        size += len(record.payload)
        if record.more:
            size += sum(map(len, record.more))
    return size


@attrs.define(kw_only=True)
class Segment:
    """The segment being written. Everything below `synced` is durable; [synced, end) is the next group."""

    sequence: int
    size: int
    end: int
    synced: int
    records: int
    """Number of records below `end`."""
    limit: int = attrs.field(init=False)
    """One past the last byte for records."""
    _salt: int = attrs.field(init=False)
    _base: int = attrs.field(init=False)
    """Address of the first byte."""

    def __attrs_post_init__(self) -> None:
        self.limit = self.size - fmt.FOOTER_BYTES
        self._salt, self._base = fmt.salt_of(self.sequence), address_of(self.sequence, 0)

    @classmethod
    def begin(cls, sequence: int, size: int, snapshot: Sequence[WalRecord]) -> tuple[Segment, list[bytes]]:
        """Begin a segment. Returns it and the first chunks of its first group: its header and the snapshot."""
        segment = cls(sequence=sequence, size=size, end=fmt.HEADER_BYTES, synced=0, records=0)
        header = fmt.header(sequence, snapshot_end=fmt.HEADER_BYTES + size_of(snapshot))
        chunks: list[bytes] = [header]
        segment.encode(snapshot, chunks)
        return segment, chunks

    @property
    def room(self) -> int:
        """Bytes left for records."""
        return self.limit - self.end

    def encode(self, records: Sequence[WalRecord], chunks: list[bytes]) -> list[Address]:
        """Place `records` at the end: append their bytes to `chunks`, return their addresses."""
        fields, checksum = fmt.RECORD_FIELDS.pack, fmt.CHECKSUM.pack
        salt, base, synced, end = self._salt, self._base, self.synced, self.end
        addresses = []
        for record in records:
            payload = record.payload
            length, payload_checksum = len(payload), crc32c(payload)
            for chunk in record.more:
                length += len(chunk)
                payload_checksum = crc32c(chunk, payload_checksum)
            header = fields(fmt.MARKER, record.kind, length, payload_checksum, synced)
            chunks += (header + checksum(crc32c(header, salt ^ end)), payload, *record.more)
            addresses.append(Address(base | end))
            end += fmt.RECORD_HEADER_BYTES + length
        assert end <= self.limit, "the caller knows the room"
        self.end = end
        self.records += len(records)
        return addresses

    def group_synced(self) -> None:
        """Note that everything encoded so far is durable."""
        self.synced = self.end

    def footer(self) -> tuple[int, bytes]:
        """(offset, bytes) of the footer that closes the segment."""
        assert self.synced == self.end, "a segment is closed between groups"
        return self.limit, fmt.footer(self.sequence, self.end, self.records)
