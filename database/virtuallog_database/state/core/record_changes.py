"""Records of a name: what is loaded, what an update changes, and the form in which all of them make one value."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.errors import BinaryTooOldError

_MAGIC: Final = b"VR"
_FORMAT: Final = 1
_PREFIX: Final = _MAGIC + bytes([_FORMAT])
_HEAD: Final = struct.Struct("<HI")


@attrs.frozen
class VersionedRecords:
    """All records of a name, with their version."""

    records: Mapping[bytes, bytes]
    version: bytes


@attrs.frozen
class RecordChanges:
    """Records to put and to delete, and the version behind that."""

    version: bytes
    puts: Mapping[bytes, bytes] = attrs.field(factory=dict)
    deletes: frozenset[bytes] = frozenset()


@attrs.frozen
class StoredUpdate:
    """An update that has been stored."""

    expected: bytes
    """Version before it; empty if there was none."""
    version: bytes
    """Version behind it; empty if the name was removed."""
    puts: Mapping[bytes, bytes]
    deletes: Collection[bytes]

    @property
    def size(self) -> int:
        """Bytes of its keys and values."""
        return sum(len(key) + len(value) for key, value in self.puts.items()) + sum(map(len, self.deletes))


def pack(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """One value of records. Durable format: "VR", 1; for each record: bytes of the key u16, of the value u32, little-endian, key, value."""
    parts = [_PREFIX]
    for key, value in records:
        parts += [_HEAD.pack(len(key), len(value)), key, value]
    return b"".join(parts)


def unpack_untrusted(name: str, value: bytes) -> dict[bytes, bytes]:
    """The inverse of `pack`, for the value of a variable.

    Raises:
        CorruptionError: the value is not one of records: another program wrote it, or it is damaged.
        BinaryTooOldError: a later program wrote it.
    """
    if value[:2] != _MAGIC or len(value) < len(_PREFIX) or not value[2]:
        raise CorruptionError(f"a value that is none of records: that of '{name}' starts with {value[:3].hex()}")
    if value[2] != _FORMAT:
        raise BinaryTooOldError(
            f"'{name}' has records of format {value[2]}, and this program knows {_FORMAT}: start a newer version of it"
        )
    records, at = dict[bytes, bytes](), len(_PREFIX)
    while at < len(value):
        try:
            key_bytes, value_bytes = _HEAD.unpack_from(value, at)
        except struct.error as error:
            raise CorruptionError(f"the records in the value of '{name}' end too early") from error
        start = at + _HEAD.size
        middle, at = start + key_bytes, start + key_bytes + value_bytes
        records[value[start:middle]] = value[middle:at]
    if at != len(value):
        raise CorruptionError(f"the records in the value of '{name}' end too early")
    return records
