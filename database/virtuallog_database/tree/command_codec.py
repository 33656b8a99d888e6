"""Encoding of commands in the log.

Durable format, version 1, little-endian; lengths are of UTF-8. Every replica executes a command, so
all of them refuse an unreadable one alike.

    version u8 | operation u8 | time in ms i64 | bytes of the origin u16 | origin | body
    origin          session i64 | generation u32 | identities (`acl_codec`); empty: no session
    create          mode i32 | time to live i64 | has data u8 | bytes of the path u32, of the ACL u32 | path | ACL | data
    delete, check   version i32 | path
    set data        version i32 | has data u8 | bytes of the path u32 | path | data
    set ACL         version i32 | bytes of the path u32 | path | ACL
    multi           for each: operation u8 | bytes u32 | body
    create session, attach    session i64 | timeout in ms u32 | password
    close session   session i64
    touch           session i64 ...
    expire          (session i64 | touches u64) ...
    reap            (bytes u32 | path) ...
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from virtuallog.contract.errors import InvalidSettingError, MalformedError, TooLargeError
from virtuallog_database.tree import commands
from virtuallog_database.tree.acl_codec import decode_acl, decode_identities, encode_acl, encode_identities
from virtuallog_database.tree.bounded_memo import BoundedMemo
from virtuallog_database.tree.commands import Command, Operation, Origin
from virtuallog_database.tree.keys import decoded, encoded

_VERSION: Final = 1
_HEAD: Final = struct.Struct("<BBqH")
_ORIGIN: Final = struct.Struct("<qI")
_CREATE: Final = struct.Struct("<iqBII")
_SET_DATA: Final = struct.Struct("<iBI")
_SET_ACL: Final = struct.Struct("<iI")
_VERSION_OF: Final = struct.Struct("<i")
_PART: Final = struct.Struct("<BI")
_NEW_SESSION: Final = struct.Struct("<qI")
_SESSION: Final = struct.Struct("<q")
_EXPIRE: Final = struct.Struct("<qQ")
_LENGTH: Final = struct.Struct("<I")
_ORIGIN_BYTES_MAX: Final = 0xFFFF
_REMEMBERED: Final = 4096
"""Cached origins: about one for each connection of the cluster."""


def encode(command: Command) -> bytes:
    """Encode a command. Raises TooLargeError: the identities, or a text of an ACL;
    InvalidSettingError: a number does not fit into its field."""
    kind = type(command.operation)
    number = _NUMBERS[kind]
    try:
        origin = _ORIGIN_BYTES[command.origin]
        if len(origin) > _ORIGIN_BYTES_MAX:
            raise TooLargeError("bytes of identities", len(origin), _ORIGIN_BYTES_MAX)
        body = _ENCODE[number](command.operation)
        return _HEAD.pack(_VERSION, number, command.time_ms, len(origin)) + origin + body
    except struct.error as error:
        raise InvalidSettingError(kind.__name__, f"a number does not fit into its field: {error}") from error


def parse_untrusted(blob: bytes) -> Command:
    """Parse a command. Raises MalformedError."""
    try:
        version, number, time_ms, origin_bytes = _HEAD.unpack_from(blob)
        if version != _VERSION:
            raise MalformedError(f"a command of version {version}, where {_VERSION} is known")
        at = _HEAD.size + origin_bytes
        if at > len(blob):
            raise MalformedError("the origin of a command ends beyond it")
        origin = _ORIGINS[blob[_HEAD.size : at]]
        return Command(_DECODE[number](blob, at, len(blob)), origin, time_ms, len(blob))
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise MalformedError("a command of the tree is not well formed") from error


def _encode_origin(origin: Origin) -> bytes:
    if origin == Origin():
        return b""
    return _ORIGIN.pack(origin.session, origin.generation) + encode_identities(origin.identities)


def _decode_origin(blob: bytes) -> Origin:
    if not blob:
        return Origin()
    session, generation = _ORIGIN.unpack_from(blob)
    return Origin(session, generation, decode_identities(blob[_ORIGIN.size :]))


_ORIGIN_BYTES: Final = BoundedMemo(_encode_origin, lambda origin, blob: len(blob), _REMEMBERED)
_ORIGINS: Final = BoundedMemo(_decode_origin, lambda blob, origin: len(blob), _REMEMBERED)


# -- operations ---------------------------------------------------------------------------------------------------------


def _encode_create(operation: commands.Create) -> bytes:
    path, data = encoded(operation.path), operation.data
    acl = b"" if operation.acl is commands.OPEN_ACL else encode_acl(operation.acl) or _NO_ACL
    head = _CREATE.pack(operation.mode, operation.ttl_ms, data is not None, len(path), len(acl))
    return b"".join((head, path, acl, data or b""))


def _decode_create(blob: bytes, at: int, stop: int) -> commands.Create:
    mode, ttl_ms, has_data, path_bytes, acl_bytes = _CREATE.unpack_from(blob, at)
    path_at = at + _CREATE.size
    acl_at = path_at + path_bytes
    data_at = _within(acl_at + acl_bytes, stop)
    acl = _decode_acl(blob[acl_at:data_at])
    return commands.Create(
        decoded(blob[path_at:acl_at]), blob[data_at:stop] if has_data else None, acl, mode, ttl_ms
    )  # fmt: skip


_NO_ACL: Final = b"\0"
"""Encoding of an empty list, which is refused when it is applied; no bytes at all mean the open
ACL."""


def _decode_acl(blob: bytes) -> tuple[commands.Acl, ...]:
    if not blob:
        return commands.OPEN_ACL
    return () if blob == _NO_ACL else decode_acl(blob)


def _encode_delete(operation: commands.Delete | commands.Check) -> bytes:
    return _VERSION_OF.pack(operation.version) + encoded(operation.path)


def _decode_delete(blob: bytes, at: int, stop: int) -> commands.Delete:
    (version,) = _VERSION_OF.unpack_from(blob, at)
    return commands.Delete(decoded(blob[at + _VERSION_OF.size : stop]), version)


def _decode_check(blob: bytes, at: int, stop: int) -> commands.Check:
    (version,) = _VERSION_OF.unpack_from(blob, at)
    return commands.Check(decoded(blob[at + _VERSION_OF.size : stop]), version)


def _encode_set_data(operation: commands.SetData) -> bytes:
    path, data = encoded(operation.path), operation.data
    head = _SET_DATA.pack(operation.version, data is not None, len(path))
    return head + path + data if data else head + path


def _decode_set_data(blob: bytes, at: int, stop: int) -> commands.SetData:
    version, has_data, path_bytes = _SET_DATA.unpack_from(blob, at)
    at += _SET_DATA.size
    data_at = _within(at + path_bytes, stop)
    return commands.SetData(decoded(blob[at:data_at]), blob[data_at:stop] if has_data else None, version)


def _encode_set_acl(operation: commands.SetAcl) -> bytes:
    path = encoded(operation.path)
    acl = b"" if operation.acl is commands.OPEN_ACL else encode_acl(operation.acl) or _NO_ACL
    return _SET_ACL.pack(operation.version, len(path)) + path + acl


def _decode_set_acl(blob: bytes, at: int, stop: int) -> commands.SetAcl:
    version, path_bytes = _SET_ACL.unpack_from(blob, at)
    at += _SET_ACL.size
    acl_at = _within(at + path_bytes, stop)
    return commands.SetAcl(decoded(blob[at:acl_at]), _decode_acl(blob[acl_at:stop]), version)


def _encode_multi(operation: commands.Multi) -> bytes:
    parts = []
    for each in operation.operations:
        number = _NUMBERS[type(each)]
        body = _ENCODE[number](each)
        parts += [_PART.pack(number, len(body)), body]
    return b"".join(parts)


def _decode_multi(blob: bytes, at: int, stop: int) -> commands.Multi:
    found = []
    while at < stop:
        number, size = _PART.unpack_from(blob, at)
        at += _PART.size
        if number not in _IN_MULTI:
            raise MalformedError(f"operation {number} within a multi")
        found.append(_DECODE[number](blob, at, _within(at + size, stop)))
        at += size
    return commands.Multi(tuple(found))  # type: ignore[arg-type]  # `_IN_MULTI` are those


def _encode_new_session(operation: commands.CreateSession | commands.Attach) -> bytes:
    return _NEW_SESSION.pack(operation.session, operation.timeout_ms) + operation.password


def _decode_create_session(blob: bytes, at: int, stop: int) -> commands.CreateSession:
    session, timeout_ms = _NEW_SESSION.unpack_from(blob, at)
    return commands.CreateSession(session, blob[at + _NEW_SESSION.size : stop], timeout_ms)


def _decode_attach(blob: bytes, at: int, stop: int) -> commands.Attach:
    session, timeout_ms = _NEW_SESSION.unpack_from(blob, at)
    return commands.Attach(session, blob[at + _NEW_SESSION.size : stop], timeout_ms)


def _encode_close_session(operation: commands.CloseSession) -> bytes:
    return _SESSION.pack(operation.session)


def _decode_close_session(blob: bytes, at: int, stop: int) -> commands.CloseSession:
    return commands.CloseSession(*_SESSION.unpack(blob[at:stop]))


def _encode_touch(operation: commands.Touch) -> bytes:
    return b"".join(map(_SESSION.pack, operation.sessions))


def _decode_touch(blob: bytes, at: int, stop: int) -> commands.Touch:
    return commands.Touch(tuple(session for (session,) in _SESSION.iter_unpack(blob[at:stop])))


def _encode_expire(operation: commands.ExpireSessions) -> bytes:
    return b"".join(_EXPIRE.pack(*pair) for pair in operation.sessions)


def _decode_expire(blob: bytes, at: int, stop: int) -> commands.ExpireSessions:
    return commands.ExpireSessions(tuple(_EXPIRE.iter_unpack(blob[at:stop])))


def _encode_reap(operation: commands.Reap) -> bytes:
    return b"".join(part for path in map(encoded, operation.paths) for part in (_LENGTH.pack(len(path)), path))


def _decode_reap(blob: bytes, at: int, stop: int) -> commands.Reap:
    found = []
    while at < stop:
        (size,) = _LENGTH.unpack_from(blob, at)
        at += _LENGTH.size
        found.append(decoded(blob[at : _within(at + size, stop)]))
        at += size
    return commands.Reap(tuple(found))


def _within(at: int, stop: int) -> int:
    if at > stop:
        raise MalformedError("a field of a command ends beyond it")
    return at


_FORMATS: Final[tuple[tuple[int, type, Callable[[Any], bytes], Callable[[bytes, int, int], Operation]], ...]] = (
    (1, commands.Create, _encode_create, _decode_create),
    (2, commands.Delete, _encode_delete, _decode_delete),
    (5, commands.SetData, _encode_set_data, _decode_set_data),
    (7, commands.SetAcl, _encode_set_acl, _decode_set_acl),
    (13, commands.Check, _encode_delete, _decode_check),
    (14, commands.Multi, _encode_multi, _decode_multi),
    (128, commands.CreateSession, _encode_new_session, _decode_create_session),
    (129, commands.Attach, _encode_new_session, _decode_attach),
    (130, commands.CloseSession, _encode_close_session, _decode_close_session),
    (131, commands.Touch, _encode_touch, _decode_touch),
    (132, commands.ExpireSessions, _encode_expire, _decode_expire),
    (133, commands.Reap, _encode_reap, _decode_reap),
)
"""Number, class, encoder and parser of each operation. Below 128 the numbers are ZooKeeper's."""
_NUMBERS: Final = {kind: number for number, kind, _, _ in _FORMATS}
_ENCODE: Final = {number: encode_body for number, _, encode_body, _ in _FORMATS}
_DECODE: Final = {number: decode_body for number, _, _, decode_body in _FORMATS}
_IN_MULTI: Final = frozenset({1, 2, 5, 13})
