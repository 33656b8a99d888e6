"""Format of one log entry of a database: a payload, and a header for each engine that wants one.

Headers are a map and not a stack (SOSP'21, section 3.4): an engine passes an entry without its
header on. So engines can be added and removed while old entries are still in the log.

Durable format, version 1, little-endian: magic "VE" | version u8 | number of headers u8 | for each:
name length u8, name, value length u32, value | payload. An entry of any later version begins with
the same magic and its version, and ends with the CRC-32C (u32, little-endian) of all before it, so
that an entry of some other program is not taken for one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import MalformedError
from virtuallog_database.errors import BinaryTooOldError

_PREFIX: Final = struct.Struct("<2sBB")
_LENGTH: Final = struct.Struct("<I")
MAGIC: Final = b"VE"
"""First bytes of every entry of a database, of any version."""
VERSION: Final = 1
PROPOSER: Final = "base"
"""Name of the header that the lowest engine puts on every entry: the token of its proposal."""
TOKEN_BYTES: Final = 16
"""Bytes of a proposer's token. An entry whose token has another length is not from a database."""


@attrs.frozen
class Entry:
    """One proposal, as it travels through the stack and the log."""

    payload: bytes
    headers: Mapping[str, bytes] = attrs.field(factory=dict)

    @property
    def operations(self) -> int:
        """Steps to apply it, as counted by its proposer. Known only where it was proposed: not in
        the log."""
        return 1

    def with_header(self, name: str, value: bytes) -> Entry:
        """A copy with one more header."""
        return Entry(self.payload, {**self.headers, name: value})

    def encode(self) -> bytes:
        parts = [_PREFIX.pack(MAGIC, VERSION, len(self.headers))]
        for name, value in self.headers.items():
            encoded = name.encode()
            parts += [bytes((len(encoded),)), encoded, _LENGTH.pack(len(value)), value]
        parts.append(self.payload)
        return b"".join(parts)


@attrs.frozen
class HeavyEntry(Entry):
    """An entry that takes many steps to apply."""

    operations: int = 1


def parse_untrusted(blob: bytes) -> Entry:
    """Parse a log entry.

    Raises:
        MalformedError: not an entry of a database: another program appended it. All replicas agree,
            and skip it.
        BinaryTooOldError: an entry of a later version. A replica that skipped it would differ from
            one that can read it.
    """
    try:
        magic, version, count = _PREFIX.unpack_from(blob)
        if magic != MAGIC or not version:
            raise MalformedError(f"not an entry of a database: starts with {bytes(blob[:4]).hex()}")
        if version != VERSION:
            _check_later(blob)
            raise BinaryTooOldError(f"an entry of version {version}, where {VERSION} is the last one known")
        headers, at = {}, _PREFIX.size
        for _ in range(count):
            name = blob[at + 1 : at + 1 + blob[at]].decode()
            at += 1 + blob[at]
            (length,) = _LENGTH.unpack_from(blob, at)
            at += _LENGTH.size + length
            if at > len(blob):
                raise MalformedError("a header ends beyond its entry")
            headers[name] = blob[at - length : at]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedError("an entry of a database is not well formed") from error
    return Entry(blob[at:], headers)


def _check_later(blob: bytes) -> None:
    (checksum,) = _LENGTH.unpack_from(blob, len(blob) - _LENGTH.size)
    if crc32c(memoryview(blob)[: -_LENGTH.size]) != checksum:
        raise MalformedError("not an entry of a database, of whatever version: its checksum is another one")


def is_proposed(entry: Entry) -> bool:
    """True if an engine appended the entry. Replicas skip any other, even if it can be parsed:
    another program wrote it."""
    return len(entry.headers.get(PROPOSER, b"")) == TOKEN_BYTES
