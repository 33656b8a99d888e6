"""Replies to clients: results of the tree as frames.

Every frame is `int length | int xid | long zxid | int error | body`, and has a body only without an error; a multi alone has one
either way. Frames of the usual answers are packed in one call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from virtuallog_database.tree.commands import Acl, Identity
from virtuallog_database.tree.results import ChangeKind, Error, RefusedError, Result, Stat
from virtuallog_server.zookeeper.auth.schemes import users_of
from virtuallog_server.zookeeper.wire.jute import INT, buffer, string, strings
from virtuallog_server.zookeeper.wire.opcodes import ERROR_ENTRY, XID_EVENT, OpCode

MULTI_READ_BYTES_MAX: Final = 4 << 20
"""Most bytes of one answer. A request of 1 MiB could ask for the largest znode ten thousand times; clients refuse such a frame too."""
MULTI_READ_LOOKED_MAX: Final = 4 << 20
"""Most bytes that the reads of one answer may look at. Ten thousand reads with short results, of znodes that had 1 MB before or
have long ACLs, would block the event loop for seconds.
"""
_HEADER: Final = struct.Struct(">iiqi")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_HEADER_AND_STAT: Final = struct.Struct(">iiqiqqqqiiiqiiq")
_EVENT: Final = struct.Struct(">iiqiii")
_CONNECTED: Final = 3
_EVENTS: Final = 2
"""Frames of events that are cached: of a znode and of its parent."""
_PART: Final = struct.Struct(">ibi")
_PART_OF_ERROR: Final = struct.Struct(">ibii")
_END: Final = _PART.pack(ERROR_ENTRY, 1, -1)


def reply(xid: int, zxid: int, body: bytes = b"") -> bytes:
    """The reply to a request that succeeded."""
    return _HEADER.pack(16 + len(body), xid, zxid, 0) + body


def error(xid: int, zxid: int, reason: int) -> bytes:
    return _HEADER.pack(16, xid, zxid, reason)


@lru_cache(_EVENTS)
def event(kind: ChangeKind, path: str) -> bytes:
    """The event of a watch. Its zxid is -1, as in ZooKeeper 3.8. All receivers of one change share the frame."""
    encoded = path.encode()
    length = 28 + len(encoded)
    return _EVENT.pack(length, XID_EVENT, -1, 0, kind, _CONNECTED) + INT.pack(len(encoded)) + encoded


def stat(xid: int, zxid: int, found: Stat) -> bytes:
    """The reply to exists, setData and setACL."""
    return _HEADER_AND_STAT.pack(84, xid, zxid, 0, *found)


def data(xid: int, zxid: int, content: bytes | None, found: Stat) -> bytes:
    """The reply to getData."""
    length = 0 if content is None else len(content)
    head = _HEADER.pack(88 + length, xid, zxid, 0)
    return b"".join((head, buffer(content), _STAT.pack(*found)))


def children(xid: int, zxid: int, names: Sequence[str], found: Stat | None) -> bytes:
    """The reply to getChildren, and with a stat to getChildren2."""
    return reply(xid, zxid, strings(names) + (_STAT.pack(*found) if found is not None else b""))


def acl(xid: int, zxid: int, entries: Sequence[Acl], found: Stat) -> bytes:
    packed = (INT.pack(each.permissions) + string(each.scheme) + string(each.id) for each in entries)
    return reply(xid, zxid, b"".join((INT.pack(len(entries)), *packed, _STAT.pack(*found))))


def identities(xid: int, zxid: int, known: Sequence[Identity]) -> bytes:
    """The reply to whoAmI."""
    users = users_of(known)
    packed = (string(each.scheme) + string(each.id) for each in users)
    return reply(xid, zxid, INT.pack(len(users)) + b"".join(packed))


def number(xid: int, zxid: int, value: int) -> bytes:
    return reply(xid, zxid, INT.pack(value))


def text(xid: int, zxid: int, value: str) -> bytes:
    return reply(xid, zxid, string(value))


def result(xid: int, opcode: OpCode, done: Result) -> bytes:
    """The reply to a command of the tree."""
    if done.error:
        return error(xid, done.zxid, done.error)
    return reply(xid, done.zxid, _BODIES[opcode](done.value))


def multi(xid: int, opcodes: Sequence[OpCode], done: Result) -> bytes:
    """The reply to a multi. Its header has no error in any case; each part has its own."""
    if done.value is None:  # refused as a whole
        return error(xid, done.zxid, done.error)
    failed = done.error is not Error.OK
    parts = (
        _PART_OF_ERROR.pack(ERROR_ENTRY, 0, part.error, part.error) if failed else _part(opcode, part.value)
        for opcode, part in zip(opcodes, done.value, strict=True)
    )
    return reply(xid, done.zxid, b"".join((*parts, _END)))


def _part(opcode: OpCode, value: Any) -> bytes:
    answered = _PARTS.get(opcode, opcode)
    return _PART.pack(answered, 0, 0) + _BODIES[answered](value)


def multi_read(
    xid: int, zxid: int, reads: Iterable[tuple[OpCode, Callable[[], Any]]], looked: Callable[[], int]
) -> bytes:
    """The reply to a multiRead. A refused read is an entry with its error.

    Args:
        looked: bytes that reads have looked at so far (`Tree.looked`).

    Raises:
        RefusedError: all together are more than `MULTI_READ_BYTES_MAX`, or have looked at more than `MULTI_READ_LOOKED_MAX`.
    """
    parts, size, looked_max = [], 0, looked() + MULTI_READ_LOOKED_MAX
    for opcode, run in reads:
        part = _read_part(opcode, run)
        size += len(part)
        if size > MULTI_READ_BYTES_MAX or looked() > looked_max:
            raise RefusedError(Error.MARSHALLING)
        parts.append(part)
    return reply(xid, zxid, b"".join((*parts, _END)))


def _read_part(opcode: OpCode, run: Callable[[], Any]) -> bytes:
    try:
        content, found = run()
    except RefusedError as refused:
        return _PART_OF_ERROR.pack(ERROR_ENTRY, 0, refused.error, refused.error)
    head = _PART.pack(opcode, 0, 0)
    if opcode is OpCode.GET_DATA:
        return b"".join((head, buffer(content), _STAT.pack(*found)))
    return head + strings(content)


def _nothing(value: Any) -> bytes:
    return b""


def _stat(value: Stat) -> bytes:
    return _STAT.pack(*value)


def _path_and_stat(value: Any) -> bytes:
    return string(value.path) + _STAT.pack(*value.stat)


_PARTS: Final[Mapping[OpCode, OpCode]] = {
    OpCode.CREATE2: OpCode.CREATE,
    OpCode.CREATE_CONTAINER: OpCode.CREATE2,
    OpCode.CREATE_TTL: OpCode.CREATE2,
}
"""Types of some parts in the reply of a multi, as in ZooKeeper 3.8: for parts that create, Java's client knows these two."""
_BODIES: Final[Mapping[OpCode, Callable[[Any], bytes]]] = {
    OpCode.CREATE: lambda value: string(value.path),
    OpCode.CREATE2: _path_and_stat,
    OpCode.CREATE_CONTAINER: _path_and_stat,
    OpCode.CREATE_TTL: _path_and_stat,
    OpCode.DELETE: _nothing,
    OpCode.CHECK: _nothing,
    OpCode.SET_DATA: _stat,
    OpCode.SET_ACL: _stat,
}
