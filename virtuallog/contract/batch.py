"""A batch of entries: one immutable blob, built once, carried and stored unparsed in between.

In Python the cost per call rules, not the cost per byte; an envelope per entry would cost more than
all the rest of an append. So the appender packs waiting entries into one blob, sequencers order
blobs, storage writes blobs, and only a reader opens them. A batch is committed, repaired and sealed
whole.

Durable format, version 1, little-endian (also the wire format; it never changes once released):

    magic "VB" | version u8 | flags u8 (0) | crc32c u32 of all that follows
    session 16 bytes | first sequence u64 | count u32 | headers bytes u32
    end of each payload, relative to the first payload's start: u32 x count
    headers: (name length u16, name, value length u32, value) ...
    payloads, back to back

Ends and payloads side by side are the layout of an Arrow binary array, so columnar readers need no
loop per entry.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final, NewType

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError, TooLargeError

SessionId = NewType("SessionId", bytes)
"""16 random bytes that name one appender. Never reused, not even after a restart."""

ENTRY_BYTES_MAX: Final = 4 << 20
"""Default limit of one entry, in bytes. A larger value blocks the pipeline behind it: store it
elsewhere and log a reference."""
BATCH_BYTES_MAX: Final = 8 << 20
"""Limit of one batch in bytes, headers included. Bounds every frame, write and buffer downstream."""
BATCH_COUNT_MAX: Final = 1 << 16
"""Limit of entries in one batch. Loglets may keep 16 bits for the index within a batch."""
SEQUENCE_MAX: Final = (1 << 63) - 1
"""Highest sequence number past a batch. An appender counts its entries; what is stored of a session has 64 bits for it."""

_PREFIX: Final = struct.Struct("<2sBBI")
_BODY: Final = struct.Struct("<16sQII")
_START: Final = _PREFIX.size
_ENDS: Final = _PREFIX.size + _BODY.size
_MAGIC: Final = b"VB"
VERSION: Final = 1
_NAME_BYTES_MAX: Final = 0xFFFF


@attrs.frozen(eq=False)
class Batch:
    """Entries of one session with consecutive sequence numbers. Equal if the blobs are equal."""

    blob: bytes = attrs.field(repr=False)
    session: SessionId
    first_sequence: int
    count: int
    _headers_bytes: int = attrs.field(repr=False)

    @classmethod
    def build(
        cls,
        session: SessionId,
        first_sequence: int,
        payloads: Sequence[bytes],
        headers: Mapping[str, bytes] | None = None,
    ) -> Batch:
        """Pack `payloads` into one blob.

        Raises:
            TooLargeError: the batch exceeds `BATCH_BYTES_MAX` or `BATCH_COUNT_MAX`, or a header's name 65,535 bytes.
        """
        assert len(session) == 16
        count = len(payloads)
        if not 0 < count <= BATCH_COUNT_MAX:
            raise TooLargeError(what="entries in a batch", size=count, limit=BATCH_COUNT_MAX)
        packed = _pack_headers(headers) if headers else b""
        return cls._assemble(session, first_sequence, count, pack_ends(payloads), packed, payloads)

    @classmethod
    def of_columns_untrusted(
        cls, session: SessionId, first_sequence: int, ends: bytes, headers: bytes, payloads: bytes | memoryview
    ) -> Batch:
        """Build a batch from packed parts that were stored side by side, without a loop per entry.

        The parts are those of `packed_ends`, `packed_headers` and `packed_payloads`.

        Raises:
            MalformedError: the parts do not belong together.
            TooLargeError: the batch exceeds `BATCH_BYTES_MAX` or `BATCH_COUNT_MAX`.
        """
        count = len(ends) // 4
        if not 0 < count <= BATCH_COUNT_MAX:
            raise TooLargeError(what="entries in a batch", size=count, limit=BATCH_COUNT_MAX)
        if len(session) != 16 or len(ends) % 4 or int.from_bytes(ends[-4:], "little") != len(payloads):
            raise MalformedError("the parts of a batch do not add up")
        if headers:
            _unpack_headers_untrusted(headers)
        return cls._assemble(session, first_sequence, count, ends, headers, [payloads])

    @classmethod
    def _assemble(
        cls,
        session: SessionId,
        first_sequence: int,
        count: int,
        ends: bytes,
        packed: bytes,
        payloads: Sequence[bytes | memoryview],
    ) -> Batch:
        body = _BODY.pack(session, first_sequence, count, len(packed))
        content = b"".join((body, ends, packed, *payloads))
        if len(content) + _START > BATCH_BYTES_MAX:
            raise TooLargeError(what="bytes in a batch", size=len(content) + _START, limit=BATCH_BYTES_MAX)
        blob = _PREFIX.pack(_MAGIC, VERSION, 0, crc32c(content)) + content
        return cls(blob, session, first_sequence, count, len(packed))

    @classmethod
    def parse_untrusted(cls, blob: bytes) -> Batch:
        """Check a blob from the network or a disk and open it. Entries are cut out only on request.

        Raises:
            MalformedError: not a batch, or one of a later version.
            CorruptionError: a batch that does not match its checksum.
        """
        if not _ENDS <= len(blob) <= BATCH_BYTES_MAX:
            raise MalformedError(f"a batch of {len(blob)} bytes")
        magic, version, flags, checksum = _PREFIX.unpack_from(blob)
        if magic != _MAGIC or version != VERSION or flags:
            raise MalformedError(f"not a batch of version {VERSION}: starts with {bytes(blob[:4]).hex()}")
        if crc32c(memoryview(blob)[_START:]) != checksum:
            raise CorruptionError("a batch does not match its checksum")
        session, first_sequence, count, headers_bytes = _BODY.unpack_from(blob, _START)
        payloads_start = _ENDS + 4 * count + headers_bytes
        if not 0 < count <= BATCH_COUNT_MAX or payloads_start > len(blob):
            raise MalformedError(f"a batch of {len(blob)} bytes claims {count} entries")
        ends = [*struct.unpack_from(f"<{count}I", blob, _ENDS)]
        # Checked here: a batch in the log must not break its readers, and columnar ones trust the
        # ends.
        if payloads_start + ends[-1] != len(blob) or ends != sorted(ends):
            raise MalformedError("the entries of a batch do not add up to its size")
        if first_sequence + count > SEQUENCE_MAX:
            raise MalformedError(f"a batch with the sequence number {first_sequence}")
        if headers_bytes:
            _unpack_headers_untrusted(blob[payloads_start - headers_bytes : payloads_start])
        return cls(blob, SessionId(session), first_sequence, count, headers_bytes)

    @property
    def stop_sequence(self) -> int:
        """One past the sequence number of the last entry."""
        return self.first_sequence + self.count

    @property
    def payloads(self) -> list[bytes]:
        """All entries, cut out anew on each use."""
        ends = struct.unpack_from(f"<{self.count}I", self.blob, _ENDS)
        return cut(self.blob, _ENDS + 4 * self.count + self._headers_bytes, ends)

    @property
    def headers(self) -> dict[str, bytes]:
        """Named values that concern the whole batch. Readers pass over names they do not know."""
        return _unpack_headers_untrusted(self.packed_headers)

    @property
    def packed_ends(self) -> memoryview:
        """The end of each payload, relative to the first one's start: u32, little-endian."""
        return memoryview(self.blob)[_ENDS : _ENDS + 4 * self.count]

    @property
    def packed_headers(self) -> bytes:
        start = _ENDS + 4 * self.count
        return self.blob[start : start + self._headers_bytes]

    @property
    def packed_payloads(self) -> memoryview:
        """All payloads, back to back."""
        return memoryview(self.blob)[_ENDS + 4 * self.count + self._headers_bytes :]

    def __eq__(self, other: object) -> bool:
        return self.blob == other.blob if isinstance(other, Batch) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.blob)


def pack_ends(payloads: Sequence[bytes]) -> bytes:
    """Pack the ends of payloads that lie back to back: u32, little-endian, relative to the first
    start."""
    return struct.pack(f"<{len(payloads)}I", *accumulate(map(len, payloads)))


def cut(blob: bytes, base: int, ends: Sequence[int]) -> list[bytes]:
    """Cut pieces out of `blob` that lie back to back from `base` on. `ends` are relative to `base`."""
    start, pieces = base, []
    for end in ends:
        stop = base + end
        pieces.append(blob[start:stop])
        start = stop
    return pieces


def glance_untrusted(blob: bytes, at: int = 0) -> tuple[SessionId, int, int] | None:
    """Return (session, first sequence number, count) of the batch that starts at `at`; None if none does.

    Looks at nothing else of the batch, and does not check that it is whole. Takes some tenth of a
    microsecond, where `Batch.parse_untrusted` takes many.
    """
    if len(blob) < at + _ENDS or blob[at : at + 2] != _MAGIC or blob[at + 2] != VERSION:
        return None
    session, first_sequence, count, _ = _BODY.unpack_from(blob, at + _START)
    return SessionId(session), first_sequence, count


def _pack_headers(headers: Mapping[str, bytes]) -> bytes:
    parts = []
    for name, value in headers.items():
        encoded = name.encode()
        if len(encoded) > _NAME_BYTES_MAX:
            raise TooLargeError(what="bytes in the name of a header", size=len(encoded), limit=_NAME_BYTES_MAX)
        parts += [struct.pack("<H", len(encoded)), encoded, struct.pack("<I", len(value)), value]
    return b"".join(parts)


def _unpack_headers_untrusted(packed: bytes) -> dict[str, bytes]:
    headers, at = {}, 0
    try:
        while at < len(packed):
            (length,) = struct.unpack_from("<H", packed, at)
            name = packed[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (length,) = struct.unpack_from("<I", packed, at)
            at += 4 + length
            if at > len(packed):
                raise MalformedError("a batch header ends beyond the headers")
            headers[name] = packed[at - length : at]
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedError("the headers of a batch are not well formed") from error
    return headers
