"""Encoding of identities and access control lists, in commands and in records.

Durable format, little-endian: for each entry permissions i32, two texts of length u16 and UTF-8:
scheme, id. An identity is two such texts. Most commands of a connection, and most znodes, have one
of very few lists, so short ones are cached in both directions.
"""

from __future__ import annotations

import struct
from typing import Final

from virtuallog.contract.errors import MalformedError, TooLargeError
from virtuallog_database.tree.bounded_memo import BoundedMemo
from virtuallog_database.tree.commands import Acl, Identity

_ENTRY: Final = struct.Struct("<iHH")
_PAIR: Final = struct.Struct("<HH")
_TEXT_BYTES_MAX: Final = 0xFFFF
_REMEMBERED: Final = 1024
"""Lists in a cache; nearly all of some 100 bytes."""


def encode_acl(acl: tuple[Acl, ...]) -> bytes:
    return _ENCODED[acl]


def decode_acl(blob: bytes) -> tuple[Acl, ...]:
    """Parse an ACL. Raises MalformedError, struct.error or UnicodeDecodeError."""
    return _DECODED[blob]


def _encode(acl: tuple[Acl, ...]) -> bytes:
    parts = []
    for entry in acl:
        scheme, id_ = text(entry.scheme), text(entry.id)
        parts += [_ENTRY.pack(signed_permissions(entry.permissions), len(scheme), len(id_)), scheme, id_]
    return b"".join(parts)


def _decode(blob: bytes) -> tuple[Acl, ...]:
    found, at = [], 0
    while at < len(blob):
        permissions, scheme_bytes, id_bytes = _ENTRY.unpack_from(blob, at)
        scheme, id_, at = _texts(blob, at + _ENTRY.size, scheme_bytes, id_bytes)
        found.append(Acl(permissions, scheme, id_))
    return tuple(found)


_ENCODED: Final = BoundedMemo(_encode, lambda acl, blob: len(blob), _REMEMBERED)
_DECODED: Final = BoundedMemo(_decode, lambda blob, acl: len(blob), _REMEMBERED)


def encode_identities(identities: tuple[Identity, ...]) -> bytes:
    parts = []
    for identity in identities:
        scheme, id_ = text(identity.scheme), text(identity.id)
        parts += [_PAIR.pack(len(scheme), len(id_)), scheme, id_]
    return b"".join(parts)


def decode_identities(blob: bytes) -> tuple[Identity, ...]:
    """Parse identities. Raises MalformedError, struct.error or UnicodeDecodeError."""
    found, at = [], 0
    while at < len(blob):
        scheme_bytes, id_bytes = _PAIR.unpack_from(blob, at)
        scheme, id_, at = _texts(blob, at + _PAIR.size, scheme_bytes, id_bytes)
        found.append(Identity(scheme, id_))
    return tuple(found)


def text(value: str) -> bytes:
    """Encode a text with its length. Raises TooLargeError: more bytes than its length can express."""
    encoded = value.encode("utf-8", "surrogatepass")
    if len(encoded) > _TEXT_BYTES_MAX:
        raise TooLargeError("bytes in a text of rights", len(encoded), _TEXT_BYTES_MAX)
    return encoded


def signed_permissions(permissions: int) -> int:
    return (permissions + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def _texts(blob: bytes, at: int, first_bytes: int, second_bytes: int) -> tuple[str, str, int]:
    middle, stop = at + first_bytes, at + first_bytes + second_bytes
    if stop > len(blob):
        raise MalformedError("a text ends beyond its list")
    return blob[at:middle].decode("utf-8", "surrogatepass"), blob[middle:stop].decode("utf-8", "surrogatepass"), stop
