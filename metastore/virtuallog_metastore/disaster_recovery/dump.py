"""Dump of the register in a file of its own, for the loss of the MetaStore.

One decision, whole, with everything needed to refuse the file: another kind of file, a later
format, a cut or changed one.

    magic "VLOGREGISTER" | format u16 | cluster id 16 | version u64 | bytes of the value u32 | value
    | crc32c u32 of all that

little-endian. The value is the register as the MetaStore had it
(virtuallog/contract/register.capnp); it contains its version and its cluster once more.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract import register
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.register import Register
from virtuallog_metastore.messages import VALUE_BYTES_MAX

_MAGIC: Final = b"VLOGREGISTER"
_FORMAT: Final = 1
_HEAD: Final = struct.Struct("<12sH16sQI")
_FORMAT_FIELD: Final = struct.Struct("<12sH")
_CHECKSUM: Final = struct.Struct("<I")
DUMP_BYTES_MAX: Final = _HEAD.size + VALUE_BYTES_MAX + _CHECKSUM.size
"""Limit of a dump file in bytes."""


@attrs.frozen
class Dump:
    """Content of a dump file."""

    register: Register
    value: bytes = attrs.field(repr=False)
    """The value as decided, byte for byte."""

    def encode(self) -> bytes:
        head = _HEAD.pack(_MAGIC, _FORMAT, self.register.cluster, self.register.version, len(self.value))
        return head + self.value + _CHECKSUM.pack(crc32c(head + self.value))


def dump(value: bytes) -> Dump:
    """Make the dump of a decided value.

    Raises:
        MalformedError: not a register.
    """
    return Dump(register.decode_untrusted(value), value)


def decode_untrusted(content: bytes) -> Dump:
    """Decode the content of a dump file.

    Raises:
        MalformedError: another kind of file, or a later format.
        CorruptionError: it is cut, or has changed.
    """
    if len(content) < _FORMAT_FIELD.size or content[: len(_MAGIC)] != _MAGIC:
        raise MalformedError("not a file of `virtuallog metastore export`")
    _, found = _FORMAT_FIELD.unpack_from(content)
    if found != _FORMAT:
        raise MalformedError(f"an exported register of format {found}; this program reads format {_FORMAT}")
    if len(content) < _HEAD.size + _CHECKSUM.size:
        raise CorruptionError(f"the file is cut: it has {len(content)} bytes")
    _, _, cluster, version, size = _HEAD.unpack_from(content)
    if len(content) != _HEAD.size + size + _CHECKSUM.size:
        raise CorruptionError(
            f"the file has {len(content)} bytes, where {_HEAD.size + size + _CHECKSUM.size} were written"
        )
    if crc32c(content[: -_CHECKSUM.size]) != _CHECKSUM.unpack_from(content, _HEAD.size + size)[0]:
        raise CorruptionError("the file does not match its checksum")
    found_dump = dump(content[_HEAD.size : -_CHECKSUM.size])
    if (found_dump.register.cluster, found_dump.register.version) != (cluster, version):
        raise MalformedError("the file says another cluster or version than the register in it")
    return found_dump
